"""Stages and their seconds: laps without gaps, blocks, sums, and words."""

from __future__ import annotations

import pytest

from trellis.core import stage_times
from trellis.core.stage_times import StageTimes, after, duration, stages_in_words


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time is what the list holds."""
    now = [100.0]
    monkeypatch.setattr(stage_times.time, "perf_counter", lambda: now[0])
    return now


def test_stages_follow_one_another_and_parts_add_up(clock: list[float]) -> None:
    stages = StageTimes()
    for stage, spent in (("encoding", 1.0), ("training", 4.0), ("encoding", 0.5)):
        clock[0] += spent
        stages.done(stage)
    assert list(stages.seconds.items()) == [("encoding", 1.5), ("training", 4.0)]


def test_what_lies_between_blocks_belongs_to_none(clock: list[float]) -> None:
    stages = StageTimes()
    clock[0] += 10.0
    with stages.measure("predicting"):
        clock[0] += 2.0
    clock[0] += 10.0
    with pytest.raises(ValueError, match="no answer"), stages.measure("marginals"):
        raise ValueError("no answer")
    assert stages.seconds == {"predicting": 2.0}


def test_one_piece_of_work_after_another() -> None:
    assert list(after({"reading": 1.0}, {"encoding": 2.0}).items()) == [("reading", 1.0), ("encoding", 2.0)]
    together = after({"reading and encoding": 1.0}, {"reading and encoding": 2.0, "training": 3.0})
    assert together == {"reading and encoding": 3.0, "training": 3.0}
    assert after({}, {}) == {}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 µs"),
        (2e-5, "20 µs"),
        (0.0123, "12.3 ms"),
        (0.8, "800 ms"),
        (3.94, "3.9 s"),
        (90, "1.5 minutes"),
    ],
)
def test_a_time_has_its_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_words_leave_out_what_hardly_counts() -> None:
    assert stages_in_words({"encoding": 0.8, "checking": 0.001, "training": 3.9}) == (
        "encoding 800 ms, training 3.9 s"
    )
    assert stages_in_words({}) == ""
