"""The most probable assignment, by what is at hand: a junction tree, or messages with an upper bound.

A junction tree is exact, and too large for many models in which the best assignment is easy to find. Messages
(:mod:`trellis.factors.best_assignment`) work at any size and bound the optimum from above; where the bound
meets the value of what they found, that is the proof.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.bayesnet.inference.exact_inference import ExactInference
from trellis.bayesnet.inference.posterior import MostProbableAssignment
from trellis.core.arguments import check_choice
from trellis.core.errors import UnsupportedError
from trellis.factors.best_assignment import BoundedAssignment, best_assignment
from trellis.factors.flat_factors import flatten, merge_nested
from trellis.factors.possible_states import ContradictionError

METHODS = ("auto", "junction_tree", "message_passing")
CHEAP = 1e8  # multiplications of a junction tree that are made without trying messages first
PLANNED = 1000  # variables above which planning a tree takes longer than messages
MAX_ITER, TOL = 200, 1e-6


def most_probable(exact: ExactInference, method: str = "auto") -> MostProbableAssignment:
    """The most probable assignment by ``method``; that of "auto" depends on what the tree would cost."""
    check_choice("method", method, METHODS)
    if method == "junction_tree":
        return exact.best_assignment()
    cheap = len(exact.question.variables) <= PLANNED and _is_cheap(exact)
    if method == "auto" and cheap:
        return exact.best_assignment()
    found = _by_messages(exact, exact.log_partition() if cheap else math.nan)
    if found.exact or method == "message_passing":
        return found
    try:
        return exact.best_assignment()
    except UnsupportedError as refused:  # the tree does not fit: the best that is known, with its bound
        if found.log_probability == -np.inf:
            raise UnsupportedError(f"{found.report}; {refused}") from refused
        return found


def _is_cheap(exact: ExactInference) -> bool:
    forecast = exact.tree().forecast(exact.question.evidence, thorough=False)
    return forecast.multiplications <= CHEAP and forecast.bytes <= exact.memory_limit


def _by_messages(exact: ExactInference, log_partition: float) -> MostProbableAssignment:
    question = exact.question
    tables, _ = question.reduced_factors()
    merged, log_scale = merge_nested(tables)
    factors = flatten(question.model.cardinalities, merged)
    try:
        if log_scale == -np.inf:
            raise ContradictionError
        found: BoundedAssignment = best_assignment(factors, MAX_ITER, TOL)
    except ContradictionError as error:
        raise question.impossible(error) from error
    states = found.states.copy()
    for v, state in question.evidence.items():
        states[v] = state
    return MostProbableAssignment(
        question.decode(states),
        found.value + log_scale,
        found.value + log_scale - log_partition,
        method=found.method,
        bound=found.bound + log_scale,
        exact=found.exact,
        report=f"{found.method.replace('_', ' ')} {found.status}",
    )
