"""EM for a hidden Markov model as an instance of the DC algorithm.

    g(u) = - log prior(u)                     (the log-partition function is 0: the parameters are normalised)
    h(u) = sum over sequences of log sum_y p_u(x, y)

v = the expected statistics under the posterior is a subgradient of h (the E-step, by forward-backward), <u,
v> is the expected log-likelihood of observations and states together, and the maximiser of <u, v> - g(u) is
the M-step. So

    primal_t = -(log-likelihood + log prior) at u_t
    dual_t   = -(entropy of the posterior at u_t + expected log-likelihood at u_{t+1} + log prior at u_{t+1})

and the second is minus the evidence lower bound, for the entropy is h(u_t) - <u_t, v_t>. Sums, not means.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from threadpoolctl import threadpool_limits

from trellis.core.errors import DataError
from trellis.core.progress import progress_bar
from trellis.hmm.chain_constraints import Structure
from trellis.hmm.hmm_expectation import Expectations, Parameters, expectations
from trellis.hmm.observations import Observations
from trellis.solvers.dc.algorithm import DCSolution
from trellis.training.driver import minimise_dc
from trellis.training.restarts import best_of


class BaumWelch:
    """The pair (g, h) for given observations: a :class:`~trellis.solvers.dc.algorithm.DCProblem`."""

    def __init__(self, observations: Observations, structure: Structure, n_jobs: int = 1) -> None:
        self._observations, self._structure, self._n_jobs = observations, structure, n_jobs
        self.log_likelihoods: list[float] = []  # of each point at which h was asked for

    def g(self, u: Parameters) -> float:
        return -self._structure.log_prior(u.initial, u.transitions) - u.emission.log_prior()

    def h(self, u: Parameters) -> tuple[float, Expectations]:
        log_p, v = expectations(u, self._observations, self._n_jobs)
        self.log_likelihoods.append(float(log_p.sum()))
        return self.log_likelihoods[-1], v

    def inner(self, u: Parameters, v: Expectations) -> float:
        return v.expected_log_likelihood(u)

    def magnitude(self, u: Parameters, v: Expectations) -> float:
        """The sizes of the terms of :meth:`inner` that may cancel."""
        return u.emission.magnitude(v.emission)

    def g_conjugate(self, v: Expectations) -> tuple[float, Parameters]:
        u = self.maximise(v)
        return self.inner(u, v) - self.g(u), u

    def maximise(self, v: Expectations) -> Parameters:
        """The M-step."""
        return maximised(v, self._structure)


def maximised(v: Expectations, structure: Structure) -> Parameters:
    """Maximum likelihood, or the mode of the posterior, from expected statistics."""
    before = v.taken_by
    initial, transitions = structure.maximise(v.start, v.pairs, before.initial, before.transitions)
    return Parameters(initial, transitions, before.emission.maximise(v.emission))


# Also the starts are computed in here: BLAS threads would compete with the shards for the cores.
@threadpool_limits.wrap(limits=1, user_api="blas")
def run_em(
    problem: BaumWelch,
    starts: Iterable[Parameters],
    n_starts: int,
    *,
    max_iter: int,
    tol: float,
    show: bool | None,
) -> tuple[DCSolution[Parameters], list[float]]:
    """EM from each start (at least one); the best solution, and the primal that each of them reached."""

    def solve(i: int, start: Parameters) -> DCSolution[Parameters]:
        if problem.g(start) == np.inf:
            raise DataError(
                "the start has a probability of 0 where the prior has a pseudo-count, which no estimate can "
                "have; raise it a little, or set the pseudo-count (or unseen='smooth') aside"
            )
        problem.log_likelihoods = []
        title = "EM" if n_starts == 1 else f"EM, start {i + 1} of {n_starts}"
        with progress_bar(title, max_iter, show) as report:
            solution = minimise_dc(problem, start, max_iter=max_iter, tol=tol, on_iteration=report)
        solution.history["log_likelihood"] = problem.log_likelihoods[: len(solution.history["primal"])]
        return solution

    return best_of(solve(i, start) for i, start in enumerate(starts))
