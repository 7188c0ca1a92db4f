"""The stochastic average gradient method with non-uniform sampling, for smooth convex objectives.

    min_w  F(w) = sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      f_i smooth and convex,  l2 > 0

With F_i = c_i f_i, lambda = l2 / n over the n examples with c_i > 0, and D = sum_i y_i the sum of the last
gradients y_i seen of each F_i, a visit of i does

    D <- D + grad F_i(w) - y_i,    y_i <- grad F_i(w),    w <- (1 - alpha lambda) w - (alpha / m) D,

m being the number of examples seen so far (Schmidt, Le Roux and Bach 2017; for CRFs Schmidt et al. 2015):
each step costs one example, and the error falls geometrically. As in the second paper, every example has its
own curvature estimate L_i, the smallest L 2^k with F_i(w - g / L) <= F_i(w) - ||g||^2 / (2 L), searched for
now and then; the step size alpha is the mean of 1 / (max L + lambda) and 1 / (mean L + lambda), and half of
the visits go to examples drawn in proportion to L_i. The first pass visits each example once, in random
order.

After every pass F and its gradient are evaluated at the weights reached, so that ``objective``,
``gradient_norm`` and ``gap`` = ||gradient||^2 / (2 l2) >= F - min F are true values; the solver stops at
||gradient|| <= tol max(1, ||w||). Memory beyond the weights: the non-zero entries of one gradient per
example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arguments import check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.registration import register
from trellis.core.status import Status
from trellis.solvers.online.step_size_kernels import FLAT, FORGET
from trellis.solvers.problem import ExamplePlaneProblem, check_problem, compiled_run
from trellis.solvers.resumable import Resumable


@register
@dataclass(frozen=True)
class SAG:
    """Needs l2 > 0, no L1 norm and a smooth convex objective: 'log' or 'softmax_margin', known labels.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import SAG
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=SAG(), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    tol: float = 1e-5

    name = "sag"

    def __post_init__(self) -> None:
        check_nonnegative("tol", self.tol)

    def start(self, problem: Any, weights: FloatArray, rng: np.random.Generator) -> SAGRun:
        check_problem(problem, self.name, "example_plane", l2=True, convex=True, smooth=True)
        compiled: SAGRun | None = compiled_run(problem, self, weights, rng)
        return compiled or SAGRun(problem, weights, rng, self.tol)


class SAGRun(Resumable):
    """The memory of gradients, and what was last measured."""

    kept = ("_norms", "_diverged", "_rng")

    def __init__(
        self, problem: ExamplePlaneProblem, weights: FloatArray, rng: np.random.Generator, tol: float
    ) -> None:
        self._problem, self._rng, self._tol, self._w = problem, rng, tol, weights
        self._visited = problem.sample_weight > 0
        self._curvature = np.zeros(problem.n_examples)  # L_i, 0 before the first visit
        self._norms, self._diverged = (np.inf, 1.0), False
        self.start_memory()

    @property
    def weights(self) -> FloatArray:
        return self._w

    def step(self) -> Mapping[str, float]:
        self.run_pass(self._order())
        if self._diverged:
            return {"objective": np.inf}
        problem, w = self._problem, self._w
        value, gradient = problem.value_and_gradient(w)
        gradient = gradient + problem.l2 * w
        square, size = float(gradient @ gradient), float(w @ w)
        self._norms = (square**0.5, size**0.5)
        return {
            "objective": value + 0.5 * problem.l2 * size,
            "gradient_norm": square**0.5,
            "gap": square / (2.0 * problem.l2),
        }

    def status(self) -> Status | None:
        if self._diverged:
            return Status(
                False, "the weights are no longer finite; scale the features, or use solver='lbfgs'"
            )
        norm, size = self._norms
        if norm <= self._tol * max(1.0, size):
            return Status(True, f"gradient norm {norm:.2g} (tolerance {self._tol:.2g} times max(1, ||w||))")
        return None

    def start_memory(self) -> None:
        n = self._problem.n_examples
        self._passed_at_once = np.zeros(n, np.int64)  # searches in a row
        self._skip = np.zeros(n, np.int64)  # visits without a search
        self._gradients: list[tuple[Any, FloatArray]] = [(slice(0), np.empty(0))] * n  # y_i: where, and what
        self._total = np.zeros(self._problem.dimension)  # D
        self._seen = 0  # m

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "memory": self.memory()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Into the arrays that are there: a compiled run has views of them."""
        super().restore(snapshot)
        stored = dict(snapshot["memory"])
        self.take_gradients(stored)
        for name, array in self.memory().items():
            if name in stored:
                np.copyto(array, stored[name])

    def memory(self) -> dict[str, Any]:
        """All that a pass reads and changes."""
        chosen = [where for where, _ in self._gradients]
        nonzero = [np.zeros(0, np.int64) if isinstance(where, slice) else where for where in chosen]
        return {
            "w": self._w,
            "curvature": self._curvature,
            "passed_at_once": self._passed_at_once,
            "skip": self._skip,
            "total": self._total,
            "seen": self._seen,
            "counts": np.array([len(where) for where in nonzero], dtype=np.int64),
            "where": np.concatenate(nonzero),
            "what": np.concatenate([what for _, what in self._gradients]),
        }

    def take_gradients(self, stored: dict[str, Any]) -> None:
        """Take out of ``stored`` what is no array of a fixed size."""
        self._seen = int(stored.pop("seen"))
        bounds = np.cumsum(stored.pop("counts"))[:-1]
        where, what = (np.split(stored.pop(name), bounds) for name in ("where", "what"))
        self._gradients = list(zip(where, what, strict=True))

    def run_pass(self, order: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Visit the examples of ``order``."""
        w, curvature, decay = self._w, self._curvature, self.decay
        largest, total = curvature.max(initial=0.0), float(curvature.sum())
        for i in order:
            if not self._visited[i]:
                continue
            value, gradient = self._problem.example_plane(int(i), w)
            before = curvature[i]
            self._estimate_curvature(int(i), value, gradient, total / self._seen if self._seen else 1.0)
            self._seen += before == 0.0
            total += curvature[i] - before
            largest = max(largest, curvature[i])
            self._remember(int(i), gradient)
            alpha = 0.5 / (largest + decay) + 0.5 / (total / self._seen + decay)
            w *= 1.0 - alpha * decay
            w -= (alpha / self._seen) * self._total
            if not np.isfinite(w).all():
                self._diverged = True
                return

    @property
    def decay(self) -> float:
        """lambda."""
        return self._problem.l2 / max(int(self._visited.sum()), 1)

    def _order(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Once each, then half of the visits uniformly and half in proportion to the curvature."""
        n, total = self._problem.n_examples, self._curvature.sum()
        if total == 0.0:
            return self._rng.permutation(n)
        return self._rng.choice(n, size=n, p=0.5 / n + 0.5 * self._curvature / total)

    def _estimate_curvature(self, i: int, value: float, gradient: FloatArray, mean: float) -> None:
        """L_i by search, now and then: after k searches passed at once in a row, 2^(k-1) visits go without
        one."""
        fresh = self._curvature[i] == 0.0
        if self._skip[i] > 0 and not fresh:
            self._skip[i] -= 1
            return
        first = L = float(mean if fresh else FORGET * self._curvature[i])
        square = float(gradient @ gradient)
        if square >= FLAT:
            room = 1e-12 * abs(value)
            for _ in range(100):
                there, _ = self._problem.example_plane(i, self._w - gradient / L)
                if there <= value - 0.5 * square / L + room:
                    break
                L *= 2.0
            at_once = first == L
            self._passed_at_once[i] = max(self._passed_at_once[i] + (1 if at_once else -1), 0)
            if at_once:
                self._skip[i] = 1 << min(self._passed_at_once[i] - 1, 20)
        self._curvature[i] = L

    def _remember(self, i: int, gradient: FloatArray) -> None:
        """D += grad F_i - y_i, and y_i <- grad F_i."""
        where, what = self._gradients[i]
        self._total[where] -= what
        self._total += gradient
        nonzero = np.flatnonzero(gradient)
        self._gradients[i] = (nonzero, gradient[nonzero])
