"""Beam search: value <= optimum <= bound always, "exact" only where it is, and exact with a beam of all
labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sparse_chains import sparse_scores
from trellis import SequenceLabeler
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.structures.chain import Chain, ChainScores, SparseChainScores, beam_search


@given(sparse_scores(steps=8), st.integers(1, 6), st.integers(0, 6))
def test_bounds_hold_and_certificates_are_right(scores: SparseChainScores, width: int, more: int) -> None:
    dense = scores.to_dense()
    try:
        best = Chain().best(dense).scores
    except InfeasibleError:
        with pytest.raises((InfeasibleError, UnsupportedError)):
            beam_search(dense, width, width + more)
        return
    try:
        found = beam_search(dense, width, width + more, n_jobs=2)
    except UnsupportedError:
        assert width + more < dense.n_labels  # a beam of all labels loses nothing
        return
    slack = 1e-12 * (1.0 + np.abs(best)) + found.rounding
    assert (found.scores <= best + slack).all()
    assert (found.bounds >= best - slack).all()
    assert_allclose(Chain().score(dense, found.labels), found.scores, rtol=1e-12, atol=1e-12)
    assert (np.abs(found.scores - best) <= slack)[found.exact].all()
    assert (found.gaps[found.exact] == 0.0).all()
    assert (best <= found.scores + found.gaps + slack).all()
    if width + more >= dense.n_labels:
        assert found.exact.all()


def test_a_narrow_beam_is_wrong_and_says_so() -> None:
    """The best labelling begins badly: a beam of one drops it, a wider one finds it."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(200):
        unary = rng.normal(size=(12, 30))
        scores = ChainScores.of(unary, 2.0 * rng.normal(size=(30, 30)))
        best = Chain().best(scores).scores[0]
        found = beam_search(scores, 1)
        if found.scores[0] < best - 1e-9:
            wrong += 1
            assert not found.exact[0]
            assert found.gaps[0] >= best - found.scores[0] - 1e-9
        wide = beam_search(scores, 1, 30)
        assert wide.exact[0]
        assert_allclose(wide.scores[0], best)
        assert wide.widths[0] >= found.widths[0]
    assert wrong > 20


def test_labelings_by_beam_and_what_is_proved() -> None:
    rng = np.random.default_rng(0)
    X = [[[f"w{rng.integers(30)}"] for _ in range(6)] for _ in range(40)]
    y = [[f"l{int(step[0][1:]) % 12}" for step in x] for x in X]
    model = SequenceLabeler(verbose=False).fit(X, y)
    labels, found = model.predict_beam(X, beam=3, max_beam=12)
    assert found.exact.all()
    assert labels == model.predict(X)
    assert "40 of 40 labellings are proved to be the best" in str(found)
    sparse = SequenceLabeler(transitions="observed", verbose=False).fit(X, y)
    with pytest.raises(UnsupportedError, match="need no beam"):
        sparse.predict_beam(X)


def test_wrong_widths() -> None:
    scores = ChainScores.of(np.zeros((3, 2)), np.zeros((2, 2)))
    with pytest.raises(DataError, match="width"):
        beam_search(scores, 0)
    with pytest.raises(DataError, match="max_width"):
        beam_search(scores, 4, 2)
    per_step = ChainScores.of(np.zeros((3, 2)), np.zeros((3, 2, 2)))
    with pytest.raises(UnsupportedError, match="all steps share"):
        beam_search(per_step)
