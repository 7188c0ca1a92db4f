"""Symbols are counted by value in one kernel: the same expectations as from rows of likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import InfeasibleError
from trellis.hmm import left_right
from trellis.hmm.e_step import expectations
from trellis.hmm.emissions import Categorical
from trellis.hmm.hmm_chain import Counts
from trellis.hmm.hmm_kernels import DENSE, LOG, SPARSE
from trellis.hmm.hmm_parameters import Expectations, HMMParameters
from trellis.hmm.observations import Observations


class RowByRow(Categorical):
    """The same emission without its alphabet."""

    @property
    def alphabet(self) -> Any:
        return None


def both_ways(
    initial: np.ndarray,
    transitions: np.ndarray,
    table: np.ndarray,
    x: np.ndarray,
    lengths: list[int],
    n_jobs: int,
) -> list[tuple[np.ndarray, Expectations]]:
    answers = []
    for emission in (Categorical(table.shape[1], table), RowByRow(table.shape[1], table)):
        parameters = HMMParameters(initial, transitions, emission)
        observations = Observations.pack(x, lengths, check=emission.check)
        answers.append(expectations(parameters, observations, n_jobs))
    return answers


def agree(answers: list[tuple[np.ndarray, Expectations]]) -> None:
    (log_p, ours), (expected, theirs) = answers
    np.testing.assert_allclose(log_p, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.start, theirs.start, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.pairs, theirs.pairs, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.emission["counts"], theirs.emission["counts"], rtol=1e-10, atol=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 9),
    m=st.integers(1, 6),
    lengths=st.lists(st.integers(0, 90), min_size=1, max_size=5),
    kind=st.sampled_from((DENSE, SPARSE, LOG)),
    n_jobs=st.integers(1, 3),
)
def test_values_give_the_expectations_of_rows(
    seed: int, k: int, m: int, lengths: list[int], kind: int, n_jobs: int
) -> None:
    rng = np.random.default_rng(seed)
    initial, transitions = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), k)
    table = rng.dirichlet(np.ones(m), k)
    if kind == SPARSE:
        initial, transitions = left_right(k)
    elif kind == LOG:
        transitions = (1.0 - 1e-120) * np.eye(k) + 1e-120 / k
        transitions /= transitions.sum(axis=1, keepdims=True)
    x = rng.integers(-1, m, size=sum(lengths))
    agree(both_ways(initial, transitions, table, x, lengths, n_jobs))


def test_sequences_that_scaled_messages_cannot_answer_are_answered_in_logs() -> None:
    # the state that survives looks hopeless for 200 steps: scaled messages give up on sequences 1 and 3
    initial, transitions = np.array([0.5, 0.5]), np.eye(2)
    table = np.array([[0.999, 1e-3, 0.0], [1e-3, 0.998, 1e-3]])
    short, trap = np.zeros(5, int), np.append(np.zeros(200, int), 2)
    x, lengths = np.concatenate([short, trap, short, trap]), [5, 201, 5, 201]
    emission = Categorical(3, table)
    _, open_ones = HMMParameters(initial, transitions, emission).chain.posterior_of_values(
        x, np.cumsum([0, *lengths]), emission.scaled_table, Counts(2)
    )
    assert np.isnan(open_ones).tolist() == [False, True, False, True]
    (log_p, found), rows = both_ways(initial, transitions, table, x, lengths, 1)
    agree([(log_p, found), rows])
    # the trap was state 1 throughout
    assert log_p[1] == pytest.approx(np.log(0.5) + 201 * np.log(1e-3))
    assert found.emission["counts"][1] == pytest.approx(
        [400.0 + 10 * (1e-3 / 0.999) ** 5, 0.0, 2.0], rel=1e-6
    )


def test_an_impossible_sequence_is_named() -> None:
    emission = Categorical(2, np.array([[1.0, 0.0], [1.0, 0.0]]))
    parameters = HMMParameters(np.full(2, 0.5), np.full((2, 2), 0.5), emission)
    observations = Observations.pack(np.array([0, 0, 0, 1]), [2, 2], check=emission.check)
    with pytest.raises(InfeasibleError, match="sequence 1 has probability zero under the model, from step 1"):
        expectations(parameters, observations, 1)
