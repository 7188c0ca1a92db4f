"""The match of transcripts: on simulated statistics, and on tones and noises."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.speech.align.doubt.match_statistics import MatchStatistics
from trellis.speech.align.doubt.transcript_match import (
    FEWEST,
    JudgedTranscript,
    Regression,
    TranscriptMatch,
)


def simulated(n: int, seed: int, apart: float) -> list[JudgedTranscript]:
    """Utterances of 5 phones with a right transcript, and one whose third phone is wrong: its first statistic
    is lower by ``apart`` deviations."""
    rng, found = np.random.default_rng(seed), []
    for i in range(n):
        for kind in ("right", "exchanged"):
            wrong = np.arange(5) == (2 if kind == "exchanged" else -1)
            phones = rng.normal(size=(5, 3))
            phones[wrong, 0] -= apart
            whole = np.array([phones[:, 0].mean()])
            found.append(JudgedTranscript(MatchStatistics(phones, np.arange(1, 6), whole), wrong, i, kind))
    return found


def test_wrong_transcripts_are_flagged_and_the_wrong_phone_is_named() -> None:
    match = TranscriptMatch.fit(simulated(200, 0, 6.0))
    assert match is not None
    judged = [(e, match(e.statistics)) for e in simulated(400, 1, 6.0)]
    right = [m for e, m in judged if e.right and m is not None]
    wrong = [m for e, m in judged if not e.right and m is not None]
    assert np.mean([m.flagged for m in right]) <= 0.03
    assert np.mean([m.flagged for m in wrong]) >= 0.7
    assert np.mean([m.worst == 3 for m in wrong]) >= 0.9  # places count the silence before them
    assert np.mean([m.probability for m in right]) > 0.8 > 0.3 > np.mean([m.probability for m in wrong])


def test_what_cannot_be_told_apart_is_hardly_ever_flagged_and_as_likely_as_not() -> None:
    match = TranscriptMatch.fit(simulated(200, 0, 0.0))
    assert match is not None
    judged = [match(e.statistics) for e in simulated(400, 1, 0.0)]
    assert np.mean([m.flagged for m in judged if m is not None]) <= 0.04
    assert np.mean([m.probability for m in judged if m is not None]) == pytest.approx(0.5, abs=0.05)


def test_few_utterances_teach_nothing() -> None:
    assert TranscriptMatch.fit(simulated(FEWEST - 1, 0, 6.0)) is None
    assert TranscriptMatch.fit([e for e in simulated(3 * FEWEST, 0, 6.0) if e.right]) is None
    assert TranscriptMatch.fit([]) is None


def test_few_utterances_flag_less() -> None:
    few, many = (TranscriptMatch.fit(simulated(n, 0, 6.0)) for n in (FEWEST, 400))
    assert few is not None
    assert many is not None
    held = [e for e in simulated(400, 1, 6.0) if e.right]
    alarms = [np.mean([m(e.statistics).flagged for e in held]) for m in (few, many)]  # type: ignore[union-attr]
    assert max(alarms) <= 0.04


def test_silence_alone_has_no_match() -> None:
    match = TranscriptMatch.fit(simulated(50, 0, 3.0))
    assert match is not None
    assert match(MatchStatistics(np.zeros((0, 3)), np.zeros(0, np.int64), np.zeros(1))) is None


def test_regressions_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="does not fit"):
        Regression(np.zeros(2), np.ones(3), np.zeros(2), 0.0)
