"""The evidence of the search, against the formula and on a phone that sounds like no other of its class."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.logspace import log_softmax
from trellis.speech.align.search.frame_search import best_frame_path
from trellis.speech.align.search.search_evidence import DOUBT, PRIOR_SHARE, search_evidence
from trellis.speech.corpus.phone_lattice import phone_lattice


@given(st.integers(2, 8), st.integers(1, 20), st.integers(0, 999))
def test_it_is_the_formula(n_classes: int, n_frames: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior = log_softmax(rng.normal(size=(1, n_classes)).astype(np.float32))[0]
    posteriors = log_softmax(4 * rng.normal(size=(n_frames, n_classes)).astype(np.float32))
    spoken = np.arange(n_classes) != int(rng.integers(n_classes))
    found = search_evidence(posteriors - prior, prior, spoken, n_classes)
    assert found.dtype == np.float32
    assert found.shape == (n_frames, n_classes + 1)
    for t in range(n_frames):
        p, q = np.exp(posteriors[t].astype(float)), np.exp(prior.astype(float))
        speech = p[spoken].sum() / q[spoken].sum() ** (1 - PRIOR_SHARE)
        for c in range(n_classes):
            own = p[c] / q[c] ** (1 - PRIOR_SHARE)
            expected = (1 - DOUBT) * own + DOUBT * speech if spoken[c] else own
            np.testing.assert_allclose(found[t, c], np.log(expected), rtol=1e-4, atol=1e-4)


@given(st.integers(0, 999))
def test_a_word_of_strange_phones_stays_where_something_is_said(seed: int) -> None:
    """Two words whose second phone sounds like another class: to the classes alone they are silence."""
    rng = np.random.default_rng(seed)
    prior = np.log(np.full(4, 0.25, dtype=np.float32))
    said = np.repeat([0, 1, 3, 0, 1, 3, 0], [20, 8, 40, 60, 8, 40, 20])
    logits = rng.normal(scale=0.3, size=(len(said), 4)) + 9.0 * np.eye(4)[said]
    logits[:, 0] += np.where(said > 0, 6.0, 0.0)  # silence is not far, as in a faint voice
    posteriors = log_softmax(logits.astype(np.float32))
    lattice = phone_lattice(["sil", "t", "z", "sil", "t", "z", "sil"])
    codes = np.array([0, 1, 2, 0, 1, 2, 0])  # class 2 is never heard: z sounds like class 3
    doubting = search_evidence(posteriors - prior, prior, np.array([False, True, True, True]), 4)
    for evidence, right in ((doubting, True), (posteriors, False)):
        path = best_frame_path(lattice, codes, evidence, shortest=3)
        silent = np.isin(path, [0, 3, 6])
        assert (np.mean(silent != (said == 0)) < 0.03) == right
