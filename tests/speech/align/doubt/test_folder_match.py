"""Transcripts beside the others of their folder: simulated odds whose level differs from folder to folder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.speech.align.doubt import folder_match
from trellis.speech.align.doubt.folder_match import FAR, FEWEST, MANY, doubted_in_folder
from trellis.speech.align.doubt.ridge_logistic import sigmoid


def by_definition(odds: np.ndarray) -> list[bool]:
    """The formulas of the module, one recording after the other, in other words."""
    found = []
    for i in range(len(odds)):
        others = [x for j, x in enumerate(odds) if j != i]
        n, middle = len(others), np.percentile(others, 50)
        variance = (1.4826 * np.percentile([abs(x - middle) for x in others], 50)) ** 2
        spread = ((n * variance + 30) / (n + 30)) ** 0.5
        found.append(bool(odds[i] < n / (n + 5) * middle - FAR * spread))
    return found


@given(st.integers(0, 10**6), st.integers(FEWEST, 60), st.floats(-2, 3), st.floats(0.1, 3))
def test_the_verdict_is_that_of_the_formulas(seed: int, n: int, level: float, spread: float) -> None:
    odds = level + spread * np.random.default_rng(seed).standard_t(3, n)
    assert doubted_in_folder(sigmoid(odds), [False] * n).tolist() == by_definition(odds)


def test_a_level_that_all_share_hides_nothing_and_alarms_nobody() -> None:
    rng, right, wrong = np.random.default_rng(0), [], []
    for level in np.linspace(-1.0, 3.0, 9):
        odds = level + rng.normal(size=200)
        right.append(doubted_in_folder(sigmoid(odds), [False] * 200).mean())
        odds[:10] -= 5.0
        wrong.append(doubted_in_folder(sigmoid(odds), [False] * 200)[:10].mean())
    assert max(right) <= 0.04
    assert min(wrong) >= 0.8


def test_few_recordings_are_judged_each_on_its_own() -> None:
    alone = [True] + [False] * (FEWEST - 2)
    assert doubted_in_folder([0.9] * len(alone), alone).tolist() == alone
    assert doubted_in_folder([], []).tolist() == []


def test_a_folder_that_is_wrong_as_a_whole_is_no_measure() -> None:
    n = 40
    many = [i < MANY * n + 1 for i in range(n)]
    assert doubted_in_folder([0.05] * n, many).tolist() == many
    few = [i < MANY * n - 1 for i in range(n)]
    assert not doubted_in_folder([0.05] * n, few).any()


def test_large_folders_are_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    matches = sigmoid(np.random.default_rng(0).normal(1.0, 1.5, 300))
    one_by_one = doubted_in_folder(matches, [False] * 300)
    monkeypatch.setattr(folder_match, "PLENTY", 100)
    at_once = doubted_in_folder(matches, [False] * 300)
    assert one_by_one.any()
    assert np.sum(one_by_one != at_once) <= 1
