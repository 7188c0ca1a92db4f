"""EM for a finite mixture, of any emission, as an instance of the DC algorithm.

    p(x) = sum_k weight_k p(x | k),        the p(x | k) an emission of ``trellis.hmm.emissions``

With u the log weights and the parameters of the components, b_i the weight of row i, and a Dirichlet
pseudo-count a on the weights,

    g(u) = - a sum_k log weight_k - log prior of the components        (log-partition: 0, u is normalised)
    h(u) = sum_i b_i log sum_k weight_k p(x_i | k)

A subgradient of h is the vector of expected statistics under the responsibilities r[i, k] (E-step), <u, v> is
the expected log-likelihood of rows and components together, and the maximiser of <u, v> - g(u) is maximum
likelihood, or MAP, from those statistics (M-step). So primal = -(log-likelihood + log prior), and dual is the
negative evidence lower bound at the new parameters and the old responsibilities. Sums, not means.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arguments import as_floats, check_nonnegative, check_sample_weight, generator
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError
from trellis.core.logspace import log_sum_exp
from trellis.core.weighted_counts import NO_WEIGHT, weighted_sum
from trellis.hmm.emissions.emission import Emission, Statistics
from trellis.solvers.dc.algorithm import DCSolution
from trellis.training.driver import minimise_dc


class Mixture(NamedTuple):
    """A primal point: ``log_weights`` (K,) and the K states of an emission as ``components``."""

    log_weights: FloatArray
    components: Emission

    def log_joint(self, values: NDArray[Any]) -> FloatArray:
        """log weight_k p(x_i | k), shape (N, K)."""
        joint: FloatArray = self.components.log_likelihood(values) + self.log_weights
        return joint


class MixtureStatistics(NamedTuple):
    """A dual point: the expected number of rows of each component (K,), the statistics of the components, and
    the emission under which they were taken, whose options the M-step follows."""

    counts: FloatArray
    components: Statistics
    emission: Emission


class MixtureEM:
    """The pair (g, h) of this module for given rows: a :class:`~trellis.solvers.dc.algorithm.DCProblem`."""

    def __init__(self, values: NDArray[Any], row_weight: FloatArray, pseudocount: float = 0.0) -> None:
        # rows of weight 0 are ignored, and may even be impossible
        kept = row_weight > 0
        self._rows, self._values = np.flatnonzero(kept), values if kept.all() else values[kept]
        self._row_weight, self._pseudocount = row_weight[kept], pseudocount

    def start(self, emission: Emission, responsibilities: FloatArray, rng: np.random.Generator) -> Mixture:
        """First parameters from responsibilities (N, K) of all rows."""
        weighted = responsibilities[self._rows] * self._row_weight[:, None]
        components = emission.initialise(self._values, weighted, rng)
        return Mixture(self._log_weights(weighted.sum(axis=0)), components)

    def g(self, u: Mixture) -> float:
        a = self._pseudocount
        return -u.components.log_prior() - (a * float(u.log_weights.sum()) if a > NO_WEIGHT else 0.0)

    def h(self, u: Mixture) -> tuple[float, MixtureStatistics]:
        joint = u.log_joint(self._values)
        log_likelihood = log_sum_exp(joint, axis=1)
        impossible = log_likelihood == -np.inf
        if impossible.any():
            raise InfeasibleError(
                f"row {self._rows[impossible.argmax()]} is impossible under every component; give the "
                "emission a pseudocount, or start elsewhere"
            )
        joint -= log_likelihood[:, None]
        responsibilities = np.exp(joint, out=joint)
        responsibilities *= self._row_weight[:, None]
        statistics = u.components.statistics(self._values, responsibilities)
        v = MixtureStatistics(responsibilities.sum(axis=0), statistics, u.components)
        return float(self._row_weight @ log_likelihood), v

    def g_conjugate(self, v: MixtureStatistics) -> tuple[float, Mixture]:
        u = Mixture(self._log_weights(v.counts), v.emission.maximise(v.components))
        return self.inner(u, v) - self.g(u), u

    def inner(self, u: Mixture, v: MixtureStatistics) -> float:
        return weighted_sum(v.counts, u.log_weights) + u.components.expected_log_likelihood(v.components)

    def magnitude(self, u: Mixture, v: MixtureStatistics) -> float:
        """The sizes of the terms of :meth:`inner` that may cancel."""
        return u.components.magnitude(v.components)

    def _log_weights(self, counts: FloatArray) -> FloatArray:
        total = counts + self._pseudocount
        with np.errstate(divide="ignore"):
            log_weights: FloatArray = np.log(total / total.sum())
        return log_weights


def fit_mixture(
    X: ArrayLike,
    emission: Emission,
    responsibilities: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pseudocount: float = 0.0,
    max_iter: int = 200,
    tol: float = 1e-6,
    random_state: int | np.random.Generator | None = None,
) -> DCSolution[Mixture]:
    """EM for a mixture from first ``responsibilities`` (N, K): soft, or one-hot from a clustering.

    ``X`` (N, ...) are rows as the emission takes them; NaN is missing. ``tol`` is the least rise of the mean
    log-likelihood of a row worth another iteration.

        solution = fit_mixture(X, emissions.Gaussian("full"), np.eye(3)[labels])
        solution.point.log_weights, solution.point.components, solution.history["primal"]

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.hmm import fit_mixture
    >>> from trellis.hmm.emissions import Gaussian
    >>> x = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> found = fit_mixture(x, Gaussian(), np.eye(2)[[0, 0, 1, 1]])
    >>> found.point.components.means.round(2).ravel().tolist()
    [0.1, 5.1]
    """
    values = emission.check(X)
    start = as_floats("responsibilities", responsibilities)
    weight = check_sample_weight(sample_weight, len(values), "row")
    if start.ndim != 2 or len(start) != len(values) or not (start >= 0).all() or not start.any():
        raise DataError(
            f"responsibilities of shape {start.shape} must be ({len(values)}, K), not negative, and not all 0"
        )
    if not weight.any():
        raise DataError("sample_weight is 0 for every row; give at least one positive weight")
    problem = MixtureEM(values, weight, check_nonnegative("pseudocount", pseudocount))
    first = problem.start(emission, start, generator(random_state))
    return minimise_dc(problem, first, max_iter=max_iter, tol=tol * float(weight.sum()))
