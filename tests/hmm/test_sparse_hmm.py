"""HMMs with few possible transitions: the answers of tables, by pairs of states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from trellis import HMM, emissions
from trellis.core.errors import InfeasibleError
from trellis.hmm import left_right
from trellis.hmm.hmm_chain import HMMChain
from trellis.hmm.many_states import sparse_hmm_chain
from trellis.hmm.many_states.sparse_hmm_chain import SparseHMMChain


def banded(k: int, seed: int, holes: bool) -> HMM:
    rng = np.random.default_rng(seed)
    band = np.arange(k) - np.arange(k)[:, None]
    transitions = np.where(np.isin(band % k, (0, 1, 2)), rng.random((k, k)) + 0.1, 0.0)
    transitions /= transitions.sum(axis=1, keepdims=True)
    symbols = rng.dirichlet(np.full(4, 0.5), k)
    if holes:
        symbols[rng.random((k, 4)) < 0.2] = 0.0
        symbols[:, 0] += 0.1
    symbols /= symbols.sum(axis=1, keepdims=True)
    initial = rng.dirichlet(np.ones(k))
    return HMM(k, emissions.Categorical(4, symbols), initial=initial, transitions=transitions, verbose=False)


def answers(model: HMM, X: Any, known: Any) -> list[Any]:
    states, scores = model.decode(X, return_log_joint=True)
    fitted = banded(model.n_states, 5, False).set_params(max_iter=2, random_state=0).fit(X, known)
    return [
        np.concatenate(states), scores, np.concatenate(model.smooth(X)), np.concatenate(model.filter(X)),
        model.log_likelihood(X), fitted.transitions_, fitted.emission_.probabilities, fitted.initial_,
        np.concatenate(model.decode(X, "minimum_risk")),
    ]  # fmt: skip


@given(st.integers(0, 2**31), st.integers(4, 9), st.booleans(), st.integers(1, 2))
def test_pairs_answer_as_tables_do(seed: int, k: int, holes: bool, n_jobs: int) -> None:
    model = banded(k, seed, holes).set_params(n_jobs=n_jobs)
    X, states = model.sample([1, 6, 0, 9], random_state=seed)
    known = [None, [s if t % 2 else -1 for t, s in enumerate(states[1])], [], None]
    known = [
        np.full(len(x), -1) if one is None else np.asarray(one, int) for one, x in zip(known, X, strict=True)
    ]
    assert type(model.parameters().chain) is HMMChain
    tables = answers(model, X, known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_hmm_chain, "FROM_STATES", 1)
        patch.setattr(sparse_hmm_chain, "SHARE", 1.0)
        assert type(model.parameters().chain) is SparseHMMChain
        for ours, theirs in zip(answers(model, X, known), tables, strict=True):
            assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)
        with pytest.raises(InfeasibleError, match="from step 1 on"):
            HMM(
                2, emissions.Categorical(2, np.eye(2)), initial=[0.5, 0.5], transitions=np.eye(2)
            ).smooth([[0, 1, 1]])  # fmt: skip


def test_few_transitions_of_many_states_are_pairs() -> None:
    initial, transitions = left_right(200, jump=2)
    symbols = np.random.default_rng(0).dirichlet(np.ones(5), 200)
    model = HMM(200, emissions.Categorical(5, symbols), initial=initial, transitions=transitions)
    chain = model.parameters().chain
    assert isinstance(chain, SparseHMMChain)
    assert len(chain.possible) == np.count_nonzero(transitions)
    X, _ = model.sample([300, 50], random_state=0)
    model.set_params(max_iter=3, verbose=False).fit(X)
    assert np.diff(model.history_["log_likelihood"]).min() >= 0.0
    assert_array_equal(model.transitions_[transitions == 0.0], 0.0)  # the topology stays
    assert (np.diff(model.decode(X)[0]) >= 0).all()
