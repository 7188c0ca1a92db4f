"""The Kalman filter, smoother and EM of LinearGaussian next to statsmodels, pykalman and dynamax.

All sides get the same model and data: 4 states, 2 observations, 10,000 steps (1,000 for pykalman, which takes
0.4 s for them). Filter and smoother count together, with means and covariances of every step; the answers are
compared before the clock starts. EM learns all matrices, the first state and both offsets for ten iterations
from the same start, and must pass through the same log-likelihoods; dynamax compiles anew in each call, so
its time is that of eleven iterations less that of one, in double precision. It gets one sequence: with
several, its update of the first state's covariance is not the maximum. CPU time, one thread on our side.

Growth is the slope of log time over log length for filter and smoother. The stream takes one observation at a
time from Python; its memory is what the process grows by between the first and the last tenth of its steps.

    python benchmarks/kalman.py [--quick]
"""

from __future__ import annotations

import importlib.util
import tracemalloc
from typing import Any

import numpy as np

from _common import Figures, check, fastest, parser
from trellis import LinearGaussian

N_STATES, N_OBSERVATIONS, LENGTH = 4, 2, 10_000


def example(n: int, m: int, rng: np.random.Generator) -> LinearGaussian:
    """A stable model with slow and fast modes."""
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return LinearGaussian(
        n,
        transition=turn @ np.diag(np.linspace(0.5, 0.98, n)) @ turn.T,
        observation=rng.normal(size=(m, n)),
        transition_noise=0.3 * np.eye(n),
        observation_noise=0.5 * np.eye(m) + 0.1,
        initial_mean=np.zeros(n),
        initial_covariance=np.eye(n),
    )


def installed(name: str) -> bool:
    if importlib.util.find_spec(name) is None:
        print(f"not measured: {name} is not installed")
        return False
    return True


def agree(ours: Any, means: np.ndarray, covariances: np.ndarray, peer: str) -> None:
    check(np.allclose(ours.means, means, rtol=1e-6, atol=1e-7), f"smoothed means of {peer}")
    check(np.allclose(ours.covariances, covariances, rtol=1e-6, atol=1e-7), f"covariances of {peer}")


def against_statsmodels(figures: Figures, repeats: int) -> None:
    from statsmodels.tsa.statespace.mlemodel import MLEModel

    rng = np.random.default_rng(0)
    for n, m, missing, target in (
        (4, 2, 0.0, 2.0),
        (16, 8, 0.0, None),
        *((n, m, 0.1, 5.0) for n, m in ((4, 2), (8, 4), (16, 8), (5, 3), (12, 2))),
    ):
        model = example(n, m, rng)
        x, _ = model.sample(LENGTH, random_state=1)
        x[rng.random(x.shape) < missing] = np.nan
        peer = MLEModel(x, k_states=n, k_posdef=n)
        peer["transition"], peer["design"], peer["selection"] = model.transition, model.observation, np.eye(n)
        peer["state_cov"], peer["obs_cov"] = model.transition_noise, model.observation_noise
        peer.ssm.initialize_known(model.initial_mean, model.initial_covariance)
        result = peer.ssm.smooth()
        covariances = result.smoothed_state_cov.transpose(2, 0, 1)
        agree(model.smooth(x), result.smoothed_state.T, covariances, "statsmodels")
        check(np.isclose(model.log_likelihood(x)[0], result.llf_obs.sum()), "log-likelihood of statsmodels")
        ours, theirs = fastest(lambda: model.smooth(x), peer.ssm.smooth, repeats=repeats)  # noqa: B023
        gaps = f", {100 * missing:.0f} % missing" if missing else ""
        figures.times(f"smoother, {n} states, {m} observations{gaps}: statsmodels", ours, theirs, target)


def against_pykalman(figures: Figures, repeats: int) -> None:
    from pykalman import KalmanFilter

    model = example(N_STATES, N_OBSERVATIONS, np.random.default_rng(0))
    x, _ = model.sample(1000, random_state=1)
    peer = KalmanFilter(
        transition_matrices=model.transition,
        observation_matrices=model.observation,
        transition_covariance=model.transition_noise,
        observation_covariance=model.observation_noise,
        initial_state_mean=model.initial_mean,
        initial_state_covariance=model.initial_covariance,
    )
    means, covariances = peer.smooth(x)
    agree(model.smooth(x), means, covariances, "pykalman")
    ours, theirs = fastest(lambda: model.smooth(x), lambda: peer.smooth(x), repeats=repeats)
    figures.times("smoother, 1,000 steps: pykalman", ours, theirs, 50.0)


def against_dynamax(figures: Figures, repeats: int) -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    truth = example(N_STATES, N_OBSERVATIONS, np.random.default_rng(0))
    start = example(N_STATES, N_OBSERVATIONS, np.random.default_rng(5))
    learner = LinearGaussian(**{**start.get_params(), "max_iter": 10, "tol": 0.0, "min_variance": 1e-12})
    peer = LinearGaussianSSM(N_STATES, N_OBSERVATIONS)
    x, _ = truth.sample(LENGTH, random_state=2)
    parameters, properties = peer.initialize(
        initial_mean=jnp.asarray(start.initial_mean),
        initial_covariance=jnp.asarray(start.initial_covariance),
        dynamics_weights=jnp.asarray(start.transition),
        dynamics_bias=jnp.zeros(N_STATES),
        dynamics_covariance=jnp.asarray(start.transition_noise),
        emission_weights=jnp.asarray(start.observation),
        emission_bias=jnp.zeros(N_OBSERVATIONS),
        emission_covariance=jnp.asarray(start.observation_noise),
    )

    def theirs(iterations: int) -> Any:
        fitted = peer.fit_em(parameters, properties, jnp.asarray(x), num_iters=iterations, verbose=False)
        return fitted[1].block_until_ready()

    likelihoods = -np.array(learner.fit(x).history_["primal"])[:10]
    check(np.allclose(theirs(10), likelihoods, rtol=1e-6), "log-likelihoods of dynamax")
    ours, one, eleven = fastest(
        lambda: learner.fit(x), lambda: theirs(1), lambda: theirs(11), repeats=repeats
    )
    figures.times(f"EM, 10 iterations, {LENGTH:,} steps: dynamax", ours, eleven - one, 5.0)


def growth(figures: Figures, top: int) -> None:
    model = example(N_STATES, N_OBSERVATIONS, np.random.default_rng(0))
    for missing in (0.0, 0.1):
        lengths = 2 ** np.arange(12, top + 1)
        seconds = []
        for length in lengths:
            x, _ = model.sample(int(length), random_state=1)
            x[np.random.default_rng(0).random(x.shape) < missing] = np.nan
            seconds += fastest(lambda: model.smooth(x), repeats=5)  # noqa: B023
        slope = float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])
        gaps = f", {100 * missing:.0f} % missing" if missing else ""
        name = f"smoother, {lengths[0]:,} to {lengths[-1]:,} steps{gaps}: exponent"
        figures.value(name, f"{slope:.3f}", "", "\u2264 1.05", slope <= 1.05)


def streaming(figures: Figures, length: int) -> None:
    model = example(N_STATES, N_OBSERVATIONS, np.random.default_rng(0))
    x, _ = model.sample(length, random_state=1)
    stream = model.streaming_filter()
    for row in x[: length // 10]:
        stream.update(row)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for row in x[length // 10 :]:
        stream.update(row)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    check(np.isclose(stream.log_likelihood, model.log_likelihood(x)[0]), "stream and filter")
    figures.value(
        f"stream, {length:,} steps: memory grown", f"{grown:,} bytes", "", "< 10,000", grown < 10_000
    )

    def again() -> None:
        fresh = model.streaming_filter()
        for row in x:
            fresh.update(row)

    per_step = fastest(again, repeats=3)[0] / length
    figures.value("stream: one update", f"{1e6 * per_step:.1f} \u00b5s")


def main() -> None:
    given = parser(__doc__).parse_args()
    figures = Figures("Linear-Gaussian models")
    repeats = 3 if given.quick else 7
    if installed("statsmodels"):
        against_statsmodels(figures, repeats)
    if installed("pykalman"):
        against_pykalman(figures, 3)
    if installed("dynamax"):
        against_dynamax(figures, 3)
    growth(figures, 17 if given.quick else 20)
    streaming(figures, 20_000)
    figures.print()


if __name__ == "__main__":
    main()
