"""A browser for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from browser import BROWSER, DRIVER, MISSING, browser


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if BROWSER is None or DRIVER is None:
        pytest.skip(MISSING)
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
