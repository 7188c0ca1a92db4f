"""``permute`` renumbers everything that has a value for each state: a fit of the result is the fit,
renumbered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from small_emissions import NAMES, example, posterior_of
from trellis import HMM, load
from trellis.hmm import left_right
from trellis.hmm.emissions import Categorical, Gaussian, Poisson, Product

ORDERS = ([2, 1, 0], [1, 2, 0], [2, 0, 1])


def assert_renumbered(a: HMM, b: HMM, order: Any, values: Any, rtol: float = 1e-9) -> None:
    """Model b is model a with state ``order[k]`` as state k."""
    expected, found = a.parameters().permute(np.asarray(order)), b.parameters()
    assert_allclose(found.initial, expected.initial, rtol=rtol, atol=1e-12)
    assert_allclose(found.transitions, expected.transitions, rtol=rtol, atol=1e-12)
    assert_allclose(
        found.emission.log_likelihood(values), expected.emission.log_likelihood(values), rtol=1e-6, atol=1e-9
    )


def constrained(name: str, seed: int) -> tuple[HMM, Any, list[int]]:
    """A model with fixed zeros, tied rows and pseudo-counts of its own for each state, and data for it."""
    rng = np.random.default_rng(seed)
    emission, values = example(name, seed)
    initial, transitions = left_right(3, jump=2)
    transitions[1] = [0.0, 0.4, 0.6]
    tied = [None, ["a", "b", "c"], ["a", "a", "b"]][seed % 3]
    if seed % 3 == 2:
        transitions[0] = transitions[1] = [0.2, 0.5, 0.3]
        initial = np.array([0.5, 0.5, 0.0])
    model = HMM(
        3, emission, initial=initial, transitions=transitions, tied_transitions=tied,
        initial_pseudocount=rng.random(3), transition_pseudocount=rng.random((3, 3)), max_iter=4, tol=0.0,
    )  # fmt: skip
    return model, values, [60, len(values) - 60]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_a_fit_of_the_renumbered_model_is_the_fit_renumbered(name: str, seed: int) -> None:
    model, values, lengths = constrained(name, seed)
    fitted = clone(model).fit(values, lengths=lengths)
    order = ORDERS[seed]
    moved = fitted.permute(order)
    assert_renumbered(fitted, moved, order, values)
    assert moved.n_parameters == fitted.n_parameters
    again = clone(moved).fit(values, lengths=lengths)  # a clone has the parameters alone
    assert_renumbered(fitted, again, order, values, 1e-6)
    assert_array_equal(again.transitions_ == 0, fitted.transitions_[np.ix_(order, order)] == 0)
    assert_array_equal(again.initial_ == 0, fitted.initial_[order] == 0)


@pytest.mark.parametrize("name", NAMES)
def test_online_em_goes_on_after_it(name: str) -> None:
    model, values, _ = constrained(name, 0)
    batches = np.array_split(values, 3)
    plain = clone(model).partial_fit(batches[0]).partial_fit(batches[1])
    order = [1, 2, 0]
    moved = plain.permute(order)
    assert_renumbered(plain.partial_fit(batches[2]), moved.partial_fit(batches[2]), order, values)


def test_what_has_no_states_stays(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    x = np.c_[rng.integers(0, 3, 80), rng.normal(size=80), rng.poisson(3.0, 80)].astype(float)
    given = Product({0: Categorical(3, np.eye(3) * 0.7 + 0.1), 1: Gaussian("diag"), 2: Poisson()})
    model = HMM(3, given, initial_pseudocount=0.5, transition_pseudocount=2.0, random_state=0).fit(x)
    moved = model.permute([2, 0, 1])
    assert (moved.initial, moved.transitions, moved.tied_transitions) == (None, None, None)
    assert (moved.initial_pseudocount, moved.transition_pseudocount) == (0.5, 2.0)
    (_, symbols), (_, gaussian), _ = moved.emission.parts
    assert_allclose(symbols.probabilities, (np.eye(3) * 0.7 + 0.1)[[2, 0, 1]])
    assert gaussian.means is None
    assert_allclose(moved.log_likelihood(x), model.log_likelihood(x))
    moved.save(tmp_path / "m")
    assert_array_equal(load(tmp_path / "m").decode(x), moved.decode(x))


def test_the_prior_of_each_state_goes_with_it() -> None:
    emission, values = example("diag mean")
    plain = Gaussian("diag", prior_mean=emission.prior_mean, prior_mean_weight=5.0)
    model = HMM(3, plain, random_state=0, max_iter=3).fit(values, posterior_of(len(values)).argmax(axis=1))
    moved = model.permute([1, 2, 0])
    assert_array_equal(moved.emission.prior_mean, emission.prior_mean[[1, 2, 0]])
    shared = HMM(3, Gaussian("diag", prior_mean=np.arange(3.0), prior_mean_weight=1.0), random_state=0)
    assert_array_equal(shared.fit(values).permute([1, 2, 0]).emission.prior_mean, np.arange(3.0))
