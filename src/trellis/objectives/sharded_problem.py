"""One problem whose examples lie in shards, here or on a cluster: a sum over shards of smaller problems.

    f(w) = sum over shards s of f_s(w),    f_s(w) = sum over examples i of s of c_i f_i(w)

The state of a shard (:class:`ProblemShard`) holds a
:class:`~trellis.objectives.structured_problem.StructuredProblem` over its examples. Weights go out once per
question, one sum comes back. Examples are numbered through, in the order of the shards. Other objectives and
epsilons (``with_``) travel with the questions; states stay as they are.

What needs planes of single examples (Frank-Wolfe, n-slack, SAG) is not offered. Online solvers make their
passes in each shard and mix the weights (:mod:`trellis.solvers.online.parameter_mixing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.backends import PlacedShards
from trellis.core.errors import DataError, InfeasibleError
from trellis.objectives.latent import Completion
from trellis.objectives.records import Objective
from trellis.objectives.structured_problem import BoolArray


@dataclass(frozen=True, eq=False)
class ProblemShard:
    """``problem``: None where the shard has no example. ``number``: of the shard. ``where``: what messages
    call it."""

    problem: Any
    number: int
    where: str

    def asked(self, changes: Mapping[str, Any]) -> Any:
        return self.problem.with_(**changes) if changes else self.problem


class _Facts(NamedTuple):
    """What a shard says of itself."""

    dimension: int
    objective: Objective
    epsilon: float
    latent: bool
    exact: bool
    squared_features: tuple[float, int]
    offers_margins: bool


@dataclass(frozen=True, eq=False)
class ShardedProblem:
    """``shards``: of :class:`ProblemShard`, all with the same weights, whose problems have no regulariser.
    ``sizes``: how many examples each has. The other fields are what the shards agree on, and ``changes``
    what they are asked to do otherwise."""

    shards: PlacedShards
    sizes: tuple[int, ...]
    objective: Objective
    dimension: int
    l2: float
    l1: float = 0.0
    epsilon: float = 1.0
    latent: bool = False
    exact: bool = True
    squared_features: tuple[float, int] = (0.0, 0)
    changes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, shards: PlacedShards, l2: float, l1: float = 0.0) -> ShardedProblem:
        """Ask the shards what they agree on."""
        sizes = tuple(shards.ask(shard_size))
        known: list[_Facts] = [one for one in shards.ask(_facts) if one is not None]
        if not known:
            raise DataError("the shards have no example to learn from")
        squares, steps = (sum(part) for part in zip(*(one.squared_features for one in known), strict=True))
        kind = _WithMargins if all(one.offers_margins for one in known) else ShardedProblem
        return kind(
            shards,
            sizes,
            known[0].objective,
            known[0].dimension,
            l2,
            l1,
            known[0].epsilon,
            any(one.latent for one in known),
            all(one.exact for one in known),
            (float(squares), int(steps)),
        )

    @property
    def n_examples(self) -> int:
        return sum(self.sizes)

    @property
    def n_shards(self) -> int:
        """Those with examples."""
        return sum(size > 0 for size in self.sizes)

    @property
    def convex(self) -> bool:
        return self.objective.convex and self.exact and not self.latent

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """sum_i c_i f_i(w), and a (sub)gradient of it."""
        found: tuple[float, FloatArray] = self.shards.total(shard_value_and_gradient, self.changes, weights)
        return found

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """The same over the examples first..last-1. Each run is a question to all shards: for a few runs."""
        value, gradient = 0.0, np.zeros(self.dimension)
        for found in self.shards.ask_each(shard_run, self._parts(first, last), self.changes, weights):
            if found is not None:
                value += found[0]
                gradient += found[1]
        return value, gradient

    def batch_samples(
        self, weights: FloatArray, runs: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[float, float]]:
        """The mean of c_i f_i and the squared norm of its gradient, of each run of examples, by one question.
        A run that ends in another shard counts as two."""
        parts = [self._parts(*run) for run in runs]
        each = [[one[s] for one in parts if one[s] is not None] for s in range(len(self.sizes))]
        for found in self.shards.ask_each(shard_samples, each, self.changes, weights):
            yield from found

    def updates(self, weights: FloatArray, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        found = self.shards.ask_each(shard_updates, self._parts(first, last), self.changes, weights)
        moved, gold = zip(*(one for one in found if one is not None), strict=True)
        return np.concatenate(moved), np.concatenate(gold)

    def task_losses(self, weights: FloatArray) -> FloatArray:
        """L of the best output of each example, in the order of the shards."""
        return np.concatenate(self.shards.ask(shard_values, "task_losses", self.changes, weights))

    def mean_loss(self, weights: FloatArray) -> float:
        return float(self.task_losses(weights).mean())

    def score_gaps(self, weights: FloatArray) -> FloatArray:
        return np.concatenate(self.shards.ask(shard_values, "score_gaps", self.changes, weights))

    def completed(self, weights: FloatArray) -> Completion:
        """The best gold output of each example, see :mod:`trellis.objectives.latent`."""
        value, gradient = self.shards.total(shard_completion, self.changes, weights)
        shards = self.shards.change(shard_completed, self.changes, weights)
        convex: Any = replace(self, shards=shards, latent=False, changes={})
        return Completion(value, gradient, convex)

    def surrogate(self, objective: Objective, l2: float) -> ShardedProblem:
        """The same examples under a convex objective, in states of their own."""
        shards = self.shards.change(shard_surrogate, self.changes, objective)
        return ShardedProblem.of(shards, l2, self.l1)

    def with_(self, **changes: Any) -> Self:
        """The same examples with other options."""
        asked = {name: value for name, value in changes.items() if name in ("objective", "epsilon")}
        return replace(self, **changes, changes={**self.changes, **asked})

    def _parts(self, first: int, last: int) -> list[tuple[int, int] | None]:
        """The part of a run of examples that each shard has, in its own numbers."""
        parts: list[tuple[int, int] | None] = []
        begin = 0
        for size in self.sizes:
            low, high = max(first - begin, 0), min(last - begin, size)
            parts.append((low, high) if low < high else None)
            begin += size
        return parts


class _WithMargins(ShardedProblem):
    def gold_margins(self, weights: FloatArray) -> FloatArray:
        """s(y*) - max over y != y* of s(y) for each example."""
        return np.concatenate(self.shards.ask(shard_values, "gold_margins", self.changes, weights))


def as_it_is(state: Any) -> Any:
    """A source that is a state already."""
    return state


# -- questions -------------------------------------------------------------------------------------------


def shard_size(shard: ProblemShard) -> int:
    return 0 if shard.problem is None else int(shard.problem.n_examples)


def _facts(shard: ProblemShard) -> _Facts | None:
    problem = shard.problem
    if problem is None:
        return None
    return _Facts(
        problem.dimension,
        problem.objective,
        problem.epsilon,
        problem.latent,
        getattr(problem, "exact", True),
        getattr(problem, "squared_features", (0.0, 0)),
        hasattr(problem, "gold_margins"),
    )


def shard_value_and_gradient(
    shard: ProblemShard, changes: Mapping[str, Any], weights: FloatArray
) -> tuple[float, FloatArray]:
    if shard.problem is None:
        return 0.0, np.zeros_like(weights)
    with said_where(shard):
        found: tuple[float, FloatArray] = shard.asked(changes).value_and_gradient(weights)
    return found


def shard_run(
    shard: ProblemShard, run: tuple[int, int] | None, changes: Mapping[str, Any], weights: FloatArray
) -> tuple[float, FloatArray] | None:
    if run is None:
        return None
    with said_where(shard):
        found: tuple[float, FloatArray] = shard.asked(changes).run_value_and_gradient(weights, *run)
    return found


def shard_samples(
    shard: ProblemShard, runs: Sequence[tuple[int, int]], changes: Mapping[str, Any], weights: FloatArray
) -> list[tuple[float, float]]:
    samples = []
    for first, last in runs:
        with said_where(shard):
            value, gradient = shard.asked(changes).run_value_and_gradient(weights, first, last)
        n = last - first
        samples.append((value / n, float(gradient @ gradient) / n**2))
    return samples


def shard_updates(
    shard: ProblemShard, run: tuple[int, int] | None, changes: Mapping[str, Any], weights: FloatArray
) -> tuple[BoolArray, BoolArray] | None:
    if run is None:
        return None
    found: tuple[BoolArray, BoolArray] = shard.asked(changes).updates(weights, *run)
    return found


def shard_values(
    shard: ProblemShard, name: str, changes: Mapping[str, Any], weights: FloatArray
) -> FloatArray:
    """What a method answers for each example."""
    if shard.problem is None:
        return np.zeros(0)
    with said_where(shard):
        values: FloatArray = getattr(shard.asked(changes), name)(weights)
    return values


def shard_completion(
    shard: ProblemShard, changes: Mapping[str, Any], weights: FloatArray
) -> tuple[float, FloatArray]:
    if shard.problem is None:
        return 0.0, np.zeros_like(weights)
    with said_where(shard):
        found = shard.asked(changes).completed(weights)
    return found.value, found.gradient


def shard_completed(shard: ProblemShard, changes: Mapping[str, Any], weights: FloatArray) -> ProblemShard:
    if shard.problem is None:
        return shard
    return replace(shard, problem=shard.asked(changes).completed(weights).convex)


def shard_surrogate(shard: ProblemShard, changes: Mapping[str, Any], objective: Objective) -> ProblemShard:
    if shard.problem is None:
        return shard
    problem = shard.asked(changes).surrogate(objective, 0.0)
    if hasattr(problem, "arrange"):
        problem.arrange()
    return replace(shard, problem=problem)


@contextmanager
def said_where(shard: ProblemShard) -> Iterator[None]:
    """A message about an example, which the shard numbers from 0, names the shard."""
    try:
        yield
    except InfeasibleError as error:
        raise InfeasibleError(f"{shard.where}: {error}") from error
