"""The generalisation bound by simulation: how far is the training error from the truth, really?

Where the distribution of the data is known (or a model of it is), repeat n times: draw m examples and learn
from them; draw k >> m others, and measure

    gap = error_true - error_train

The (1 - delta) quantile of the gaps is the epsilon with P(gap <= epsilon) >= 1 - delta for *this* learner on
*these* data. It comes with an interval of its own (order statistics, :func:`quantile_interval`). The analytic
bounds hold for every distribution and every learner of a class, and are much looser.

Repeat i at m examples has the seed (seed, m, i): the same result for any number of threads or processes, and
a simulation can be stopped and resumed (``checkpoint``), or extended by more repeats. ``error_true`` is
measured on ``n_test`` examples, so is itself uncertain by up to 1 / (2 sqrt(n_test)); ``true_error`` computes
it exactly instead, where that can be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from trellis.core.arguments import check_fraction, check_int
from trellis.core.arrays import FloatArray
from trellis.core.backends import as_backend
from trellis.core.backends.item_map import answer_of, map_items
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.progress import progress_bar
from trellis.core.storage import PathLike
from trellis.theory.bounds import (
    Bound,
    finite_agnostic_bound,
    finite_consistent_bound,
    vc_bound,
    vc_deviation_bound,
)
from trellis.theory.confidence_intervals import Interval, quantile_interval
from trellis.theory.example_losses import LossLike, loss_name, measure_losses
from trellis.theory.simulation_record import Record

Sampler = Callable[[int, np.random.Generator], tuple[Any, Any]]  # n, rng -> X, y
Learner = Any  # an estimator, or a function of X and y that returns something with predict
TrueError = Callable[[Any], float]

LEAST_TESTS = 1000
TESTS_PER_EXAMPLE = 20


@dataclass(frozen=True, eq=False)
class GapSample:
    """Errors of ``n`` repeats at ``m`` examples: ``train`` (n,) and ``true`` (n,).

    ``log_hypotheses`` and ``vc_dimension`` are those of the class of hypotheses, where they are known.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.theory import GapSample
    >>> train, true = np.array([0.1, 0.2]), np.array([0.2, 0.2])
    >>> sample = GapSample(100, 1000, 0.05, 0.95, "zero_one", train=train, true=true)
    >>> (sample.true - sample.train).round(3).tolist()
    [0.1, 0.0]
    """

    m: int
    n_test: int
    delta: float
    confidence: float
    loss: str
    train: FloatArray
    true: FloatArray
    log_hypotheses: float | None = None
    vc_dimension: int | None = None
    bounded: bool = False  # losses are known to lie between 0 and 1

    @property
    def gap(self) -> FloatArray:
        """error_true - error_train of each repeat."""
        return self.true - self.train

    @property
    def epsilon(self) -> Interval:
        """The (1 - delta) quantile of the gap, with its own interval."""
        return self._quantile(self.gap, low=-1.0)

    @property
    def true_error(self) -> Interval:
        """The (1 - delta) quantile of error_true: what all but a share delta of training sets achieve."""
        return self._quantile(self.true, low=0.0)

    def _quantile(self, values: FloatArray, low: float) -> Interval:
        """With few repeats an end of the interval is all that is known of any loss: that it is bounded."""
        low, high = (low, 1.0) if self.bounded else (-np.inf, np.inf)
        return quantile_interval(values, 1 - self.delta, delta=1 - self.confidence, low=low, high=high)

    def bounds(self) -> tuple[Bound, ...]:
        """Every analytic bound that applies, at the same m and delta."""
        given: dict[str, Any] = {"m": self.m, "delta": self.delta}
        size, d = self.log_hypotheses, self.vc_dimension
        found = []
        if size is not None:
            if not self.train.any():
                found.append(finite_consistent_bound(log_hypotheses=size, **given))
            found.append(finite_agnostic_bound(log_hypotheses=size, **given))
        if d is not None:
            found += [vc_bound(d, **given), vc_deviation_bound(d, **given)]
        return tuple(found)

    def looseness(self) -> dict[str, float]:
        """For each bound how many times the simulated epsilon it is; infinite where that is not positive."""
        epsilon = self.epsilon.value
        return {b.name: float(b.epsilon) / epsilon if epsilon > 0 else np.inf for b in self.bounds()}

    def __str__(self) -> str:
        e = self.epsilon
        lines = [
            f"m = {self.m:,}: training error {self.train.mean():.4g}, true error {self.true.mean():.4g} "
            f"({self.loss}, means of {len(self.gap):,} repeats)",
            f"epsilon at delta = {self.delta:g}: {e.value:.4g} ({100 * e.confidence:g}% interval "
            f"{e.low:.4g} to {e.high:.4g})",
        ]
        factor = self.looseness()
        for bound in self.bounds():
            words = ", vacuous" if bound.vacuous else ""
            lines.append(
                f"{bound.name}: {float(bound.epsilon):.4g}, {factor[bound.name]:.3g} times as much{words}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class LearningCurve:
    """One :class:`GapSample` for each number of examples, smallest first.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.theory import GapSample, LearningCurve
    >>> true = np.full(50, 0.1)
    >>> curve = LearningCurve((GapSample(100, 1000, 0.05, 0.95, "zero_one", train=true, true=true),))
    >>> len(curve.samples)
    1
    """

    samples: tuple[GapSample, ...]

    @property
    def m(self) -> list[int]:
        return [sample.m for sample in self.samples]

    def examples_needed(self, error: float) -> int | None:
        """The smallest m of the curve from which on the true error is at most ``error`` with probability
        1 - delta, by the upper limit of its quantile; ``None`` where that does not happen.
        """
        needed = None
        for sample in reversed(self.samples):
            if sample.true_error.high > error:
                break
            needed = sample.m
        return needed

    def __str__(self) -> str:
        lines = [f"{'m':>8}  {'train':>8}  {'true':>8}  {'quantile of true (interval)':<30}  epsilon"]
        for s in self.samples:
            q = s.true_error
            quantile = f"{q.value:.4f} ({q.low:.4f} to {q.high:.4f})"
            means = f"{s.train.mean():8.4f}  {s.true.mean():8.4f}"
            lines.append(f"{s.m:>8,}  {means}  {quantile:<30}  {s.epsilon.value:.4f}")
        return "\n".join(lines)


def simulate_generalization_gap(
    sampler: Sampler,
    learner: Learner,
    m: int,
    n_repeats: int = 200,
    delta: float = 0.05,
    *,
    loss: LossLike = "zero_one",
    n_test: int | None = None,
    true_error: TrueError | None = None,
    log_hypotheses: float | None = None,
    vc_dimension: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int = 1,
    backend: Any = None,
    checkpoint: PathLike | None = None,
    progress: bool | None = None,
) -> GapSample:
    """Draw, learn and measure ``n_repeats`` times.

    Parameters
    ----------
    sampler : ``sampler(n, rng)`` returns n independent examples, ``(X, y)``.
    learner : an estimator with ``fit`` and ``predict``, cloned for each repeat (a ``random_state`` of None is
        seeded), or a function ``learner(X, y)`` that returns something with ``predict``.
    loss : "zero_one", "hamming" (the share of wrong steps of a sequence), a function of two labels or label
        sequences, or an object of :mod:`trellis.losses.labelings`.
    n_test : k, by default 20 m and at least 1,000; ``true_error(model)`` takes its place where it is given.
    log_hypotheses, vc_dimension : of the learner's class, if known: for the analytic bounds.
    confidence : of the interval of epsilon.
    n_jobs, backend : so many "processes" (also None) or "threads" here; or a Dask client, the address of a
        scheduler, "processes:4", ... (:func:`trellis.core.backends.as_backend`), without ``n_jobs``.
    checkpoint : a folder in which results are kept, to go on after a stop. It may hold several m.
    progress : True, False, or None for "on a terminal".

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from trellis.theory import simulate_generalization_gap
    >>> def points(n, rng):
    ...     X = rng.normal(size=(n, 2))
    ...     return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    ...
    >>> found = simulate_generalization_gap(points, DecisionTreeClassifier(), m=50, n_repeats=10, n_test=100)
    >>> float(found.train.max())  # a tree learns its examples by heart
    0.0
    """
    m, n_repeats = check_int("m", m, 1), check_int("n_repeats", n_repeats, 1)
    check_fraction("delta", delta)
    check_fraction("confidence", confidence)
    if vc_dimension is not None and loss != "zero_one":
        raise UnsupportedError("a VC dimension needs loss='zero_one'; for other losses give log_hypotheses")
    if n_test is None:
        n_test = max(TESTS_PER_EXAMPLE * m, LEAST_TESTS)
    known = log_hypotheses is not None or vc_dimension is not None
    repeat = _Repeat(sampler, learner, m, n_test, loss, true_error, seed, known)
    with (
        Record.opened(checkpoint, repeat.description(), m, n_repeats) as record,
        progress_bar(f"m = {m}", n_repeats, progress) as tick,
    ):
        for i, errors in _errors(repeat, record.missing(), n_jobs, backend):
            record.add(i, *errors)
            if tick is not None:
                tick(record.n_done, {}, None)
    bounded = repeat.bounded or (isinstance(loss, str) and loss in ("zero_one", "hamming"))
    return GapSample(
        m=m,
        n_test=n_test,
        delta=delta,
        confidence=confidence,
        loss=loss_name(loss),
        train=record.train,
        true=record.true,
        log_hypotheses=log_hypotheses,
        vc_dimension=vc_dimension,
        bounded=bounded,
    )


def _errors(
    repeat: _Repeat, todo: list[int], n_jobs: int, backend: Any
) -> Iterator[tuple[int, tuple[float, float]]]:
    """Each repeat with its errors, as they are ready."""
    place = None if backend in ("processes", "threads") else as_backend(backend)
    if place is None:
        method = "threading" if backend == "threads" else "loky"
        found = Parallel(n_jobs, backend=method, return_as="generator")(delayed(repeat)(i) for i in todo)
        yield from zip(todo, found, strict=True)
        return
    with closing(map_items(partial(_as_it_is, repeat), todo, backend=place)) as answers:
        for number, errors in answers:
            yield todo[number], answer_of(errors, todo[number])


def _as_it_is(repeat: _Repeat) -> _Repeat:
    return repeat


def simulate_learning_curve(
    sampler: Sampler,
    learner: Learner,
    m: Sequence[int],
    n_repeats: int = 200,
    delta: float = 0.05,
    **options: Any,
) -> LearningCurve:
    """:func:`simulate_generalization_gap` for several ``m``, with the same options.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from trellis.theory import simulate_learning_curve
    >>> def points(n, rng):
    ...     X = rng.normal(size=(n, 2))
    ...     return X, (X[:, 0] > 0).astype(int)
    ...
    >>> curve = simulate_learning_curve(points, DecisionTreeClassifier(), m=[10, 80], n_repeats=9, n_test=100)
    >>> [sample.m for sample in curve.samples]
    [10, 80]
    """
    sizes = sorted(set(m))
    if not sizes:
        raise DataError("m is empty; give at least one number of training examples")
    return LearningCurve(
        tuple(
            simulate_generalization_gap(sampler, learner, size, n_repeats, delta, **options) for size in sizes
        )
    )


@dataclass(frozen=True)
class _Repeat:
    """One repeat, which can be sent to another process."""

    sampler: Sampler
    learner: Learner
    m: int
    n_test: int
    loss: LossLike
    true_error: TrueError | None
    seed: int
    bounded: bool

    def description(self) -> dict[str, Any]:
        """What must be the same for results to belong together."""
        return {
            "sampler": _name(self.sampler),
            "learner": _name(self.learner),
            "loss": loss_name(self.loss),
            "seed": self.seed,
            f"n_test_{self.m}": self.n_test if self.true_error is None else _name(self.true_error),
        }

    def __call__(self, i: int) -> tuple[float, float]:
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.m, i)))
        X, y = self.sampler(self.m, rng)
        if len(y) != self.m:
            raise DataError(f"the sampler was asked for {self.m} examples and gave {len(y)}")
        try:
            model = self._fit(X, y, rng)
        except ValueError as error:
            raise DataError(f"repeat {i} at m = {self.m}: the learner failed ({error})") from error
        train = self._error(model, X, y)
        if self.true_error is not None:
            return train, float(self.true_error(model))
        return train, self._error(model, *self.sampler(self.n_test, rng))

    def _fit(self, X: Any, y: Any, rng: np.random.Generator) -> Any:
        if not hasattr(self.learner, "fit"):
            return self.learner(X, y)
        from sklearn.base import clone

        model = clone(self.learner)
        if hasattr(model, "get_params") and model.get_params().get("random_state", 0) is None:
            model.set_params(random_state=int(rng.integers(2**31)))
        return model.fit(X, y)

    def _error(self, model: Any, X: Any, y: Any) -> float:
        losses = measure_losses(y, model.predict(X), self.loss).per_example
        if losses is None:
            raise UnsupportedError(
                f"{loss_name(self.loss)!r} is not a mean over examples; simulate 'hamming'"
            )
        if self.bounded and not ((losses >= 0) & (losses <= 1)).all():
            raise DataError(
                "the analytic bounds need losses between 0 and 1; scale the loss, or leave them out"
            )
        return float(losses.mean())


def _name(thing: Any) -> str:
    """A name that is the same in every run: no addresses."""
    return (
        repr(thing) if hasattr(thing, "get_params") else getattr(thing, "__qualname__", type(thing).__name__)
    )
