"""Shared test set-up: how hypothesis draws, and the records as shipped for every test.

``make test`` draws the same examples every time, so that a failure is the fault of the last change.
``make test-random`` (``--hypothesis-profile random``) draws other ones in each run, and more of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from trellis.core.registration import _RECORDS
from trellis.objectives import OBJECTIVES

settings.register_profile(
    "same", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile(
    "random", settings.get_profile("same"), max_examples=300, derandomize=False, print_blob=True
)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def _records_as_shipped() -> Iterator[None]:
    """Tests and pages register objectives and other records of their own; the next test must not see them."""
    shipped = dict(OBJECTIVES)
    records = set(_RECORDS)
    yield
    OBJECTIVES.clear()
    OBJECTIVES.update(shipped)
    for name in set(_RECORDS) - records:
        if not _RECORDS[name].__module__.startswith("trellis."):
            del _RECORDS[name]
