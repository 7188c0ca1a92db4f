"""Hidden Markov models: one iteration of Baum-Welch, decoding, threads, growth, and what underflow costs.

Both sides start from the same parameters, do one iteration (E-step and M-step) on the same data, and must
agree on the log-likelihood to 1e-8 and on the new transitions. hmmlearn runs its fast implementation
("scaling"). CPU time, one thread, compiled, least of repeats that take turns. An iteration of ours is
measured inside the loop of EM (its set-up happens once per fit). "One outlier" puts one hopeless frame into
the data: hmmlearn's fast implementation then fails with underflow, and its safe one ("log") is the peer.

    python benchmarks/hmm.py [--quick]
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from _common import Figures, check, fastest, parser, require_peers
from trellis import HMM, emissions
from trellis.hmm import left_right
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.learning.baum_welch import BaumWelch
from trellis.hmm.observations import Observations
from trellis.hmm.transition_constraints import TransitionConstraints


class Case(NamedTuple):
    name: str
    n_states: int
    sequences: int
    length: int
    kind: str  # "categorical" or a kind of covariance
    size: int  # symbols or columns
    at_least: float


CASES = (
    Case("8 states, 50 symbols", 8, 200, 500, "categorical", 50, 4.0),
    Case("64 states, 1,000 symbols", 64, 100, 1000, "categorical", 1000, 6.0),
    Case("Gaussian diag, 8 states, 13 columns", 8, 200, 500, "diag", 13, 3.0),
    Case("Gaussian full, 8 states, 13 columns", 8, 200, 500, "full", 13, 5.0),
)


class Problem(NamedTuple):
    """The same start and data for both sides."""

    ours: HMMParameters
    problem: BaumWelch
    peer: Callable[[str], Any]
    values: np.ndarray
    lengths: list[int]

    def iteration(self) -> tuple[float, HMMParameters]:
        log_likelihood, statistics = self.problem.h(self.ours)
        return log_likelihood, self.problem.g_conjugate(statistics)[1]


def problem_of(case: Case, n_jobs: int = 1, outlier: bool = False) -> Problem:
    rng = np.random.default_rng(0)
    k, n, d = case.n_states, case.sequences * case.length, case.size
    initial, transitions = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), k)
    options = {"init_params": "", "n_iter": 1, "tol": 0.0}
    emission: emissions.Emission
    values: np.ndarray
    if case.kind == "categorical":
        table = rng.dirichlet(np.ones(d), k)
        values = rng.integers(d, size=(n, 1))
        emission = emissions.Categorical(d, table)
    else:
        means = rng.normal(size=(k, d))
        values = means[rng.integers(k, size=n)] + rng.normal(size=(n, d))
        covariances = np.ones((k, d)) if case.kind == "diag" else np.stack([np.eye(d)] * k)
        emission = emissions.Gaussian(case.kind, means, covariances)
    if outlier:
        values[case.length // 2] = 60.0

    def peer(implementation: str) -> Any:
        from hmmlearn.hmm import CategoricalHMM, GaussianHMM

        if case.kind == "categorical":
            model = CategoricalHMM(k, implementation=implementation, **options)
            model.n_features, model.emissionprob_ = d, table.copy()
        else:
            model = GaussianHMM(
                k, case.kind, implementation=implementation, covars_prior=0.0, min_covar=0.0, **options
            )
            model.means_, model.covars_ = means.copy(), covariances.copy()
        model.startprob_, model.transmat_ = initial.copy(), transitions.copy()
        return model

    lengths = [case.length] * case.sequences
    observations = Observations.pack(values, lengths, check=emission.check)
    work = BaumWelch(observations, TransitionConstraints.from_options(k, initial, transitions), n_jobs)
    return Problem(HMMParameters(initial, transitions, emission), work, peer, values, lengths)


def baum_welch(figures: Figures, case: Case, repeats: int, *, outlier: bool = False) -> None:
    problem = problem_of(case, outlier=outlier)
    safe = "log" if outlier else "scaling"
    log_likelihood, after = problem.iteration()
    found = problem.peer(safe).fit(problem.values, problem.lengths)
    theirs = float(found.monitor_.history[0])
    check(abs(log_likelihood - theirs) <= 1e-8 * abs(theirs), f"log-likelihood of {case.name}")
    check(bool(np.abs(after.transitions - found.transmat_).max() < 1e-8), f"transitions of {case.name}")
    ours, peer = fastest(
        problem.iteration,
        lambda: problem.peer(safe).fit(problem.values, problem.lengths),
        repeats=repeats,
    )
    if outlier:
        figures.times(f"one outlier: {case.name}", ours, peer)
    else:
        figures.times(case.name, ours, peer, case.at_least)


def threads(figures: Figures, case: Case, repeats: int) -> None:
    one, two = problem_of(case), problem_of(case, n_jobs=2)
    check(abs(one.iteration()[0] - two.iteration()[0]) < 1e-6, "one and two threads")
    first, second = fastest(two.iteration, one.iteration, repeats=repeats, clock=time.perf_counter)
    figures.times(f"two threads against one (wall): {case.name}", first, second, 1.7)


def decoding(figures: Figures, case: Case, repeats: int) -> None:
    problem = problem_of(case)
    p = problem.ours
    model = HMM(case.n_states, p.emission, initial=p.initial, transitions=p.transitions)
    peer = problem.peer("log")
    found = model.decode(problem.values, lengths=problem.lengths)
    best, _ = peer.decode(problem.values, problem.lengths)
    score = model.log_joint(problem.values, found, lengths=problem.lengths).sum()
    check(abs(score - best) <= 1e-10 * abs(best), f"the best paths of {case.name}")
    mine, theirs = fastest(
        lambda: model.decode(problem.values, lengths=problem.lengths),
        lambda: peer.decode(problem.values, problem.lengths),
        repeats=repeats,
    )
    n = len(problem.values)
    figures.rates(f"Viterbi, steps: {case.name}", n / mine, n / theirs, 3.0)


def streaming(figures: Figures, case: Case, length: int) -> None:
    """One observation at a time from Python: CPU time of an update, and of an update with a forecast."""
    problem = problem_of(case)
    p, x = problem.ours, problem.values[:length, 0] if case.kind == "categorical" else problem.values[:length]
    model = HMM(case.n_states, p.emission, initial=p.initial, transitions=p.transitions)

    def run(*, ahead: bool) -> Any:
        stream = model.streaming_filter()
        for row in x:
            stream.update(row)
            if ahead:
                stream.predict()
        return stream

    found, expected = run(ahead=False).log_likelihood, model.log_likelihood(x)[0]
    check(bool(np.isclose(found, expected, rtol=1e-10)), f"stream and filter of {case.name}")
    update, both = fastest(lambda: run(ahead=False), lambda: run(ahead=True), repeats=5)
    for name, seconds in (("one update", update), ("update and forecast", both)):
        each = 1e6 * seconds / length
        cells = f"stream, {name}: {case.name}", f"{each:.1f} \u00b5s", "", "", "\u2264 20"
        figures.row(*cells, met=each <= 20.0)


def growth(figures: Figures, name: str, transitions: np.ndarray, top: int) -> None:
    """The exponent of time in the length of one sequence."""
    rng = np.random.default_rng(0)
    k = len(transitions)
    model = HMM(
        k,
        emissions.Gaussian("diag", rng.normal(size=(k, 2)), np.ones((k, 2))),
        initial=np.eye(k)[0],
        transitions=transitions,
    )
    lengths = 2 ** np.arange(10, top + 1)
    tasks: dict[str, Callable[[np.ndarray], object]] = {
        "smooth": model.smooth,
        "filter": model.filter,
        "decode": model.decode,
    }
    for task, run in tasks.items():
        seconds = []
        for n in lengths:
            x = rng.normal(size=(n, 2))
            run(x)
            seconds.append(fastest(partial(run, x), repeats=5)[0])
        slope = float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])
        rate = f"{lengths[-1] / seconds[-1] / 1e6:.1f} M steps/s"
        figures.row(
            f"{task}, {name}: exponent in T", f"{slope:.3f}", rate, "", "\u2264 1.05", met=slope <= 1.05
        )


def main() -> None:
    given = parser(__doc__).parse_args()
    require_peers("hmmlearn")
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    repeats = 3 if given.quick else 7
    with threadpool_limits(1, "blas"):
        figures = Figures("Baum-Welch, one iteration, one thread (CPU): ours, hmmlearn's fast implementation")
        for case in CASES:
            baum_welch(figures, case, repeats)
        for case in CASES[2:]:
            baum_welch(figures, case, repeats, outlier=True)
        for case in CASES[:3]:
            threads(figures, case, 4 * repeats)  # wall time: of many tries, one finds both cores free
        for case in CASES[:2]:
            decoding(figures, case, repeats)
        for case in CASES[:3]:
            streaming(figures, case, 2000)
        figures.print()
        grown = Figures(
            "Growth with the length of one sequence, 8 states",
            ("exponent", "at the top", "", "target", "met"),
        )
        rng = np.random.default_rng(1)
        top = 16 if given.quick else 20
        growth(grown, "dense", rng.dirichlet(np.ones(8), 8), top)
        growth(grown, "left-right", left_right(8)[1], top)
        grown.print()


if __name__ == "__main__":
    main()
