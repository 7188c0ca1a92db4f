"""Chains over allowed pairs: every answer against enumeration and against the table of the same scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array, csr_array

from sparse_chains import sparse_scores
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.structures.chain import Chain, Enumeration, SparseChain, SparseChainScores
from trellis.structures.chain.oracle.many_labels import sparse_chain

BUDGETS = [1, 12, 2**20]  # blocks of one or a few steps, and one for a whole sequence


def _feasible(scores: SparseChainScores) -> bool:
    every = [Enumeration.of(scores.to_dense(), i).scores.max() for i in range(scores.n_sequences)]
    return bool(min(every) > -np.inf)


@given(sparse_scores(), st.sampled_from(BUDGETS), st.integers(1, 3))
def test_every_answer_is_that_of_enumeration(scores: SparseChainScores, budget: int, n_jobs: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_chain, "BLOCK", budget)
        chain, dense = SparseChain(n_jobs), scores.to_dense()
        if not _feasible(scores):
            for question in (chain.best, chain.log_partition, chain.marginals):
                with pytest.raises(InfeasibleError, match="no chain of allowed pairs"):
                    question(scores)
            with pytest.raises(InfeasibleError):
                chain.sample(scores, 2, np.random.default_rng(0))
            return
        best, log_z, marginals = chain.best(scores), chain.log_partition(scores), chain.marginals(scores)
        pairs, lo = np.zeros(len(scores.pairs)), 0
        for i in range(scores.n_sequences):
            every = Enumeration.of(dense, i)
            labels, value = every.best()
            hi = lo + len(labels)
            assert_array_equal(best.labels[lo:hi], labels)  # ties included
            assert_allclose(best.scores[i], value, rtol=1e-12, atol=1e-12)
            assert_allclose(log_z[i], every.log_partition(), rtol=1e-12, atol=1e-10)
            parts = every.marginals()
            assert_allclose(marginals.unary[lo:hi], parts.unary, atol=1e-10)
            table = parts.transitions.sum(axis=0) if len(labels) else np.zeros((scores.n_labels,) * 2)
            pairs += table[scores.pairs.source, scores.pairs.target]
            lo = hi
        assert_allclose(marginals.transitions, pairs, atol=1e-10)
        assert_allclose(marginals.log_partition, log_z)
        assert_allclose(chain.score(scores, best.labels), best.scores, rtol=1e-12, atol=1e-12)
        samples = chain.sample(scores, 4, np.random.default_rng(0))
        for labels in samples:
            assert (Chain().score(dense, labels) > -np.inf).all()


@given(sparse_scores())
def test_scores_of_any_labelling_and_least_risk(scores: SparseChainScores) -> None:
    dense, rng = scores.to_dense(), np.random.default_rng(1)
    labels = rng.integers(0, scores.n_labels, scores.n_steps)
    assert_allclose(SparseChain().score(scores, labels), Chain().score(dense, labels), rtol=1e-12, atol=1e-12)
    if not _feasible(scores):
        return
    risk = rng.normal(size=(scores.n_steps, scores.n_labels))
    assert_array_equal(SparseChain().minimum_risk(scores, risk), Chain().minimum_risk(dense, risk))


def test_samples_have_the_marginals() -> None:
    rng = np.random.default_rng(0)
    table = coo_array(np.where(rng.random((4, 4)) < 0.6, 1.0 + rng.random((4, 4)), 0.0))
    scores = SparseChainScores.of(rng.normal(size=(6, 4)), table, lengths=[6])
    samples = SparseChain().sample(scores, 20_000, rng)
    share = (samples[:, :, None] == np.arange(4)).mean(axis=0)
    assert_allclose(share, SparseChain().marginals(scores).unary, atol=0.02)
    same = SparseChain(2).sample(scores, 5, np.random.default_rng(3))
    assert_array_equal(same, SparseChain(1).sample(scores, 5, np.random.default_rng(3)))


def test_long_chains_are_worked_on_in_blocks() -> None:
    """Scratch grows with the root of the length, and answers do not change."""
    rng, k, n = np.random.default_rng(0), 300, 40_000
    band = [(j, (j + d) % k) for j in range(k) for d in (0, 1, 2)]
    table = coo_array((rng.normal(size=len(band)), np.transpose(band)), shape=(k, k))
    scores = SparseChainScores.of(rng.normal(size=(n, k)), table)
    blocks = sparse_chain.new_blocks(scores.offsets, 0, 1, k)
    assert sum(one.nbytes for one in blocks) < 0.6 * scores.unary.nbytes
    assert blocks.kept.shape[0] * blocks.u.shape[0] >= n
    chain = SparseChain()
    best, marginals = chain.best(scores), chain.marginals(scores)
    assert_allclose(chain.score(scores, best.labels), best.scores)
    assert_allclose(marginals.unary.sum(axis=1), 1.0)
    assert_allclose(marginals.transitions.sum(), n - 1)
    lengths = np.diff(np.append(np.arange(0, n, 400), n))
    short = SparseChainScores.of(scores.unary, table, lengths=lengths)  # each in one block
    assert sparse_chain.new_blocks(short.offsets, 0, len(lengths), k).kept.shape[0] == 1


def test_scores_beyond_the_exponential() -> None:
    """Labels that are hardly reached keep their digits; forbidden paths have none."""
    table = csr_array(np.array([[-2000.0, 1500.0], [900.0, -700.0]]))
    unary = np.array([[0.0, -3000.0], [1200.0, -1200.0], [-5.0, 800.0]])
    scores = SparseChainScores.of(unary, table)
    every = Enumeration.of(scores.to_dense())
    assert_allclose(SparseChain().log_partition(scores), every.log_partition(), rtol=1e-14)
    assert_allclose(SparseChain().marginals(scores).unary, every.marginals().unary, atol=1e-14)


def test_wrong_input_is_one_sentence() -> None:
    unary = np.zeros((2, 3))
    with pytest.raises(DataError, match="SciPy sparse matrix"):
        SparseChainScores.of(unary, np.zeros((3, 3)))
    with pytest.raises(DataError, match=r"shape \(2, 2\)"):
        SparseChainScores.of(unary, csr_array(np.ones((2, 2))))
    with pytest.raises(DataError, match="finite or -inf"):
        SparseChainScores.of(unary, csr_array(np.full((3, 3), np.nan)))
    with pytest.raises(DataError, match="stored twice"):
        SparseChainScores.of(unary, coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(3, 3)))
    scores = SparseChainScores.of(unary, csr_array(np.ones((3, 3))))
    for question in (
        lambda: SparseChain().k_best(scores, 2),
        lambda: SparseChain().entropy(scores),
        lambda: SparseChain().best_different(scores, [0, 0]),
        lambda: SparseChain().expected_loss(scores, unary),
    ):
        with pytest.raises(UnsupportedError, match="not available for sparse transitions"):
            question()
