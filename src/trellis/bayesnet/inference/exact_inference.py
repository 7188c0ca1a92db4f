"""Exact answers to one question, by a junction tree, by elimination, or by conditioning.

The junction tree of a model is planned once for each order and memory limit, and kept with the model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from numbers import Real
from typing import Any

import numpy as np

from trellis.bayesnet.inference.cutset_conditioning import condition_on_cutset
from trellis.bayesnet.inference.posterior import MostProbableAssignment
from trellis.bayesnet.inference.question import Question
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.factors.junction_tree.junction_tree import JunctionTree
from trellis.factors.junction_tree.plan import Forecast
from trellis.factors.junction_tree.plan_choice import MEMORY_LIMIT, check_joint
from trellis.factors.tables import Table
from trellis.factors.variable_elimination import eliminate, forecast_elimination


class ExactInference:
    """``order``: an elimination heuristic, or the variables to be summed out, in order. ``memory_limit``:
    bytes above which nothing runs."""

    def __init__(
        self, question: Question, *, order: str | Sequence[str] = "best", memory_limit: float = MEMORY_LIMIT
    ) -> None:
        given: Any = memory_limit
        if not isinstance(given, Real) or not float(given) > 0:
            raise DataError(f"memory_limit is {memory_limit!r}; give a positive number of bytes")
        self.question, self.memory_limit = question, memory_limit
        self.order: str | tuple[int, ...] = (
            order if isinstance(order, str) else question.variables.indices(order)
        )

    def choose_method(self) -> str:
        """The tree for one target or all variables, and elimination for several targets, or for one target
        where the tree of the whole model is costly."""
        question = self.question
        several = not question.each and len(question.scopes[0]) > 1
        return "elimination" if several or (not question.each and self.tree().is_costly) else "junction_tree"

    def solve(self, method: str) -> list[FloatArray]:
        """The distribution over each scope of the question."""
        if method == "elimination":
            return [self._eliminate(scope) for scope in self.question.scopes]
        if any(len(scope) > 1 for scope in self.question.scopes):
            raise UnsupportedError(
                f"method={method!r} answers for one target at a time; use method='elimination' for their "
                "joint distribution"
            )
        evidence, likelihoods = self.question.evidence, self.question.likelihoods
        if method == "conditioning":
            found = condition_on_cutset(self.tree(), evidence, likelihoods)
        else:
            found = self.tree().marginals(evidence, likelihoods)
        if found.log_partition == -np.inf:
            raise self.question.impossible()
        return [found.of[v] for (v,) in self.question.scopes]

    def best_assignment(self) -> MostProbableAssignment:
        """Max-product on the junction tree."""
        question, tree = self.question, self.tree()
        found = tree.best_assignment(question.evidence, question.likelihoods)
        if found.log_value == -np.inf:
            raise question.impossible()
        total = tree.log_partition(question.evidence, question.likelihoods)
        return MostProbableAssignment(question.decode(found.states), found.log_value, found.log_value - total)

    def log_partition(self) -> float:
        """log of the sum of the product of all tables at the evidence."""
        model = self.question.model
        tables, free = self.question.reduced_factors(())
        held = {v for table in tables for v in table.variables}
        total, _ = eliminate(
            model.cardinalities, tables, (), order=self._order_for(held), memory_limit=self.memory_limit
        )
        unheld = [] if model.directed else [v for v in free if v not in held]
        return total + float(np.log(model.cardinalities[unheld]).sum())  # a factor graph sums over these too

    @property
    def has_tree(self) -> bool:
        """Whether the model keeps its junction tree from an earlier question."""
        return (self.order, self.memory_limit) in self.question.model.junction_trees

    def tree(self) -> JunctionTree:
        """The junction tree of the model."""
        model, key = self.question.model, (self.order, self.memory_limit)
        if key not in model.junction_trees:
            order = self._order_for(range(len(model.names)))
            model.junction_trees[key] = JunctionTree(
                model.cardinalities, model.factors(), order=order, memory_limit=self.memory_limit
            )
        return model.junction_trees[key]

    def forecast_joint(self) -> Forecast:
        """What elimination needs for the joint distribution of the targets."""
        return forecast_elimination(*self._elimination(self.question.scopes[0]))

    def _elimination(
        self, targets: Sequence[int]
    ) -> tuple[IntArray, list[Table], list[int], str | list[int]]:
        """The cardinalities, the tables, the targets to keep, and the order of the others."""
        tables, _ = self.question.reduced_factors(targets)
        free = [v for v in targets if v not in self.question.evidence]
        order = self._order_for({v for table in tables for v in table.variables}.difference(free))
        return self.question.model.cardinalities, tables, free, order

    def _eliminate(self, targets: Sequence[int]) -> FloatArray:
        question, (sizes, tables, free, order) = self.question, self._elimination(targets)
        check_joint(question.model.shape(targets), self.memory_limit)  # observed targets have an axis, too
        log_scale, joint = eliminate(sizes, tables, free, order=order, memory_limit=self.memory_limit)
        if log_scale == -np.inf:
            raise question.impossible()
        values = joint.values
        values /= values.sum()
        return values if len(free) == len(targets) else question.spread(targets, values)

    def _order_for(self, summed: Collection[int]) -> str | list[int]:
        """The heuristic, or the variables to be summed out in the order given, which must hold them all."""
        if isinstance(self.order, str):
            return self.order
        missing = set(summed).difference(self.order)
        if missing:
            raise DataError(
                f"the elimination order leaves out {self.question.variables.names[min(missing)]!r}; name "
                "every variable that is summed out"
            )
        return [v for v in self.order if v in summed]
