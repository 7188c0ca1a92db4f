"""What is deprecated says so where it is called, and cannot outlive its version."""

from __future__ import annotations

import warnings

import pytest

from trellis.core import deprecation
from trellis.core.deprecation import deprecated, release, warn_deprecated


@deprecated(since="90.1", removed_in="90.2", use="new_name")
def old_name(x: int) -> int:
    """What it does."""
    return x + 1


def test_the_caller_is_warned_and_answered() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert old_name(1) == 2
    (warning,) = caught
    assert warning.category is DeprecationWarning
    assert warning.filename == __file__
    assert str(warning.message) == (
        "old_name is deprecated since trellis 90.1 and will be removed in 90.2; use new_name"
    )
    assert old_name.__doc__ == "What it does."


@pytest.mark.parametrize("version", ["90.2.0", "90.3.1", "91.0.0"])
def test_it_cannot_stay_longer_than_was_said(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "__version__", version)
    with pytest.raises(
        RuntimeError, match=rf"old_name was to be removed in trellis 90.2, and this is {version}"
    ):
        old_name(1)


def test_one_minor_version_lies_between() -> None:
    with pytest.raises(ValueError, match="must be later"):
        warn_deprecated("x", since="90.2.0", removed_in="90.2.5", use="y")
    assert release("0.10.3") > release("0.9.9")
