"""Shared test set-up: how hypothesis draws, and the objectives as shipped for every test.

``make test`` draws the same examples every time, so that a failure is the fault of the last change.
``make test-random`` (``--hypothesis-profile random``) draws other ones in each run, and more of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from trellis.objectives import OBJECTIVES

settings.register_profile(
    "same", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile(
    "random", settings.get_profile("same"), max_examples=300, derandomize=False, print_blob=True
)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def _objectives_as_shipped() -> Iterator[None]:
    """Tests and pages register objectives of their own; the next test must not see them."""
    shipped = dict(OBJECTIVES)
    yield
    OBJECTIVES.clear()
    OBJECTIVES.update(shipped)
