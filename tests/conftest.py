"""Shared test set-up: how hypothesis draws, the records as shipped for every test, and tests without PyTorch.

``make test`` draws the same examples every time, so that a failure is the fault of the last change.
``make test-random`` (``--hypothesis-profile random``) draws other ones in each run, and more of them.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from trellis.core.errors import MissingExtraError
from trellis.core.registration import _RECORDS
from trellis.objectives import OBJECTIVES

settings.register_profile(
    "same", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile(
    "random", settings.get_profile("same"), max_examples=300, derandomize=False, print_blob=True
)
settings.load_profile("same")

# A shell that starts the tests in the background tells them to ignore SIGINT, and so all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


def pytest_collection_finish() -> None:
    """Tests run in as many processes as there are cores, where threads of PyTorch wait for one another: the
    maximum of ten numbers took two of them milliseconds. Tests of threads say how many they want."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that comes upon PyTorch is skipped where it is missing: not every Python has a build of it."""
    try:
        return (yield)
    except (MissingExtraError, ModuleNotFoundError) as error:
        if find_spec("torch") is None and "torch" in str(error).lower():
            pytest.skip(str(error))
        raise
