"""EM on data that drive counts to nothing: every fit returns, certified; and a certificate that is made to
fail costs no model its fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from small_networks import random_network
from trellis import HMM, IOHMM, LinearGaussian
from trellis.bayesnet.learning.network_em import NetworkEM
from trellis.bayesnet.model.distinct_rows import distinct_rows
from trellis.factors.flat_factors import flatten
from trellis.hmm import fit_mixture, left_right
from trellis.hmm.emissions import Categorical, Gaussian, GaussianMixture, Poisson, Product
from trellis.hmm.input_output.io_em import EMProblem
from trellis.hmm.learning.baum_welch import BaumWelch
from trellis.hmm.learning.mixture_em import MixtureEM
from trellis.statespace.kalman_em import EM

REPORTED = HMM(
    3,
    Gaussian("diag", means=[[0.0], [5.0], [6.0]], covariances=np.ones((3, 1))),
    initial=[1, 0, 0],
    transitions=[[0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.1, 0.3, 0.6]],
)


def certified(model: Any) -> None:
    """The status is no word on certificates, and the certificates interleave."""
    assert "certificate" not in str(model.status_)
    primal, dual = np.array(model.history_["primal"]), np.array(model.history_["dual"])
    slack = 1e-9 * np.abs(primal).max()
    assert np.isfinite(primal).all()
    assert (primal[:-1] >= dual - slack).all()
    assert (dual >= primal[1:] - slack).all()


@pytest.mark.parametrize("tol", [1e-7, 1e-12])
def test_first_states_that_vanish(tol: float) -> None:
    """The reported case: sequences that all begin in one state, and a start that does not know it."""
    X, _ = REPORTED.sample([20] * 200, random_state=0)
    model = HMM(3, Gaussian("diag"), random_state=0, max_iter=500, tol=tol).fit(X)
    certified(model)
    assert model.n_iter_ > 119
    assert (model.initial_ == 0.0).sum() >= 1  # what is negligible is none, as it is among the transitions


@pytest.mark.parametrize("seed", range(6))
def test_left_right_sequences_to_the_last_digit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    initial, transitions = left_right(k, jump=int(rng.integers(1, 3)), stay=0.7)
    means = rng.uniform(1.5, 5.0) * np.arange(k)[:, None]
    truth = HMM(k, Gaussian("diag", means, np.ones((k, 1))), initial=initial, transitions=transitions)
    X, _ = truth.sample([int(n) for n in rng.integers(3, 25, 150)], random_state=seed)
    emission = [Gaussian("diag"), Gaussian("full"), GaussianMixture(2), Gaussian("tied")][seed % 4]
    certified(HMM(k, emission, random_state=seed, max_iter=250, tol=1e-12).fit(X))


@pytest.mark.parametrize("seed", range(6))
def test_rare_symbols_to_the_last_digit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, m = int(rng.integers(2, 5)), 8
    table = rng.dirichlet(np.full(m, 0.1), k)
    table = 0.999 * table + 0.001 * rng.dirichlet(np.ones(m), k)
    truth = HMM(k, Categorical(m, table), initial=np.eye(k)[0], transitions=rng.dirichlet(np.full(k, 0.2), k))
    X, _ = truth.sample([30] * 30, random_state=seed)
    tied = None if seed % 2 else [0] * (k - 1) + [1]
    certified(
        HMM(k, Categorical(m), tied_transitions=tied, random_state=seed, max_iter=300, tol=1e-12).fit(X)
    )


@pytest.mark.parametrize("seed", range(6))
def test_nearly_singular_data(seed: int) -> None:
    """Columns that almost repeat each other, and rows that do, in units from 1e-3 to 1e3."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(120, 1)) + 4 * rng.integers(0, 3, (120, 1))
    x = base @ np.array([[1.0, 2.0, -1.0]]) + 10.0 ** -rng.integers(3, 7) * rng.normal(size=(120, 3))
    x[60:] = np.round(x[60:])
    x *= 10.0 ** int(rng.integers(-3, 4))
    emission = [Gaussian("full"), GaussianMixture(2, "full"), Gaussian("tied"), Gaussian("diag")][seed % 4]
    model = HMM(3, emission, random_state=seed, max_iter=200, tol=1e-12).fit(x, lengths=[40] * 3)
    primal = np.array(model.history_["primal"])
    assert np.isfinite(model.log_likelihood(x)).all()
    assert (np.diff(primal) <= 0.0).all()  # what rounding raises is not kept
    assert primal[-1] < primal[0]


def test_mixtures_with_a_component_that_vanishes() -> None:
    """Two components on the same rows: one of them may run out of weight to the last subnormal number."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0.0, 1.0, 200), rng.normal(30.0, 1.0, 200)])[:, None]
    far = np.c_[np.full(400, 0.5), np.full(400, 0.5 - 1e-9), np.full(400, 1e-9)]
    solution = fit_mixture(x, Gaussian("diag"), far, max_iter=400, tol=1e-14)
    assert "certificate" not in str(solution.status)
    start = Gaussian("diag", means=[[0.0], [30.0], [38.0]], covariances=np.full((3, 1), 0.5))
    for weights in (1e-300, 5e-324):
        share = np.c_[np.full(400, 0.5), np.full(400, 0.5), np.full(400, weights)]
        solution = fit_mixture(x, start, share, max_iter=50, tol=0.0)
        assert np.isfinite(solution.history["dual"]).all()
        assert "certificate" not in str(solution.status)


@pytest.mark.parametrize("count", [5e-324, 1e-310, 1e-295, 1e-150])
def test_a_count_of_next_to_nothing_is_worth_nothing(count: float) -> None:
    """Whatever it counts, first states, transitions, components or symbols: no infinite term."""
    rng = np.random.default_rng(0)
    model = HMM(2, Product({0: Categorical(2), 1: GaussianMixture(2), 2: Poisson()}), random_state=0)
    x = np.c_[rng.integers(0, 2, 50), rng.normal(size=50), rng.poisson(2.0, 50)].astype(float)
    fitted = model.fit(x)
    problem = BaumWelch(*fitted._training_data(x, None, None))
    _, v = problem.h(fitted.parameters())
    before, _ = problem.g_conjugate(v)
    for array in (v.start, v.pairs, v.emission["0.counts"], v.emission["1.components"]):
        kept = array.flat[0]
        array.flat[0] = count
        value, u = problem.g_conjugate(v)
        assert np.isfinite(value)
        assert np.isfinite(problem.inner(u, v))
        array.flat[0] = kept
    assert problem.g_conjugate(v)[0] == before


@pytest.mark.parametrize("count", [5e-324, 1e-310, 1e-295, 1e-150])
def test_tables_of_a_network_with_next_to_no_count(count: float) -> None:
    network = random_network(np.random.default_rng(3), 4)
    layout = flatten(network.cardinalities, network.factors())
    codes = network.sample(60, random_state=0, output="codes")
    codes[::3, 0] = -1
    none = np.zeros(len(layout.values))
    problem = NetworkEM(layout, distinct_rows(codes, np.ones(60)), none, none.astype(np.bool_))
    _, v = problem.h(np.log(layout.values))
    for cell in range(len(v.counts)):
        counts = v.counts.copy()
        counts[cell] = count
        value, u = problem.g_conjugate(v._replace(counts=counts))
        assert np.isfinite(value)
        assert np.isfinite(problem.inner(u, v._replace(counts=counts)))


def broken(problem: type, wrong: float, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """g* of the problem has the value ``wrong`` from its iteration ``at`` on."""
    right: Callable[..., Any] = problem.g_conjugate  # type: ignore[attr-defined]
    calls = 0

    def lying(self: Any, v: Any) -> Any:
        nonlocal calls
        calls += 1
        value, u = right(self, v)
        return (value if calls < at else wrong), u

    monkeypatch.setattr(problem, "g_conjugate", lying)


def _signal() -> list[np.ndarray]:
    return REPORTED.sample([15] * 6, random_state=1)[0]


def _inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(15, 1)) for _ in range(6)]


def _fit_network() -> tuple[Any, Any]:
    network = random_network(np.random.default_rng(3), 4)
    codes = network.sample(60, random_state=0, output="codes")
    frame = np.array([[network.states[i][c] for i, c in enumerate(row)] for row in codes], dtype=object)
    frame[np.random.default_rng(1).random(frame.shape) < 0.3] = None
    learned = network.fit(frame, max_iter=12)
    return list(learned.tables), learned.fit_.status


def _fit_mixture() -> tuple[Any, Any]:
    x = np.concatenate(_signal())
    share = np.eye(2)[(x[:, 0] > 5).astype(int)]
    solution = fit_mixture(x, Gaussian("diag"), share, max_iter=12, tol=1e-9)
    return [solution.point.log_weights, solution.point.components.means], solution.status


def _fit_hmm() -> tuple[Any, Any]:
    model = HMM(3, Gaussian("diag"), random_state=0, max_iter=12, n_init=2).fit(_signal())
    return [model.initial_, model.transitions_, model.emission_.means], model.status_


def _fit_io_hmm() -> tuple[Any, Any]:
    model = IOHMM(2, random_state=0, max_iter=12, n_init=1).fit(_signal(), _inputs())
    return [model.parameters_.initial, model.parameters_.transitions, model.emission_.weights], model.status_


def _fit_linear_gaussian() -> tuple[Any, Any]:
    model = LinearGaussian(2, random_state=0, max_iter=12).fit(_signal())
    return list(model.parameters_.arrays().values()), model.status_


MODELS: dict[str, tuple[type, Callable[[], tuple[Any, Any]]]] = {
    "hmm": (BaumWelch, _fit_hmm),
    "io_hmm": (EMProblem, _fit_io_hmm),
    "linear_gaussian": (EM, _fit_linear_gaussian),
    "mixture": (MixtureEM, _fit_mixture),
    "network": (NetworkEM, _fit_network),
}


@pytest.mark.parametrize("wrong", [np.inf, np.nan, -1e12])
@pytest.mark.parametrize("name", MODELS)
def test_no_model_loses_its_fit_to_a_certificate(
    name: str, wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, fit = MODELS[name]
    expected, _ = fit()
    broken(problem, wrong, 3, monkeypatch)
    found, status = fit()
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)
    assert not status.converged
    assert "the certificate of iteration " in str(status)
