"""One call for all of inference: P(targets | evidence), exact or approximate.

    P(t | e) = P(t, e) / P(e),      P(t, e) = sum over everything else of the product of all tables

Exact methods:

* ``"junction_tree"``: the tree is planned once for each model and kept with it; each question runs two
  passes. One target, or each variable by itself.
* ``"elimination"``: variables that cannot matter are dropped, the others are summed out for this question
  alone. One target, or several jointly.
* ``"conditioning"``: a junction tree for each assignment of a few variables (a cutset): less memory, more
  time.
* ``"auto"``: the tree for one target or all variables, and elimination for several targets, or for one target
  where the tree of the whole model is costly.

Approximate methods (``"loopy"``, ``"rejection"``, ``"likelihood_weighting"``, ``"gibbs"``) are never chosen
automatically, and their answers are marked. Memory is forecast before anything runs.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypedDict, Unpack

from trellis.bayesnet.inference.estimates import Estimate
from trellis.bayesnet.inference.exact_inference import ExactInference
from trellis.bayesnet.inference.loopy_propagation import loopy
from trellis.bayesnet.inference.most_probable import most_probable
from trellis.bayesnet.inference.posterior import MostProbableAssignment
from trellis.bayesnet.inference.question import Evidence, Likelihoods, Question, Targets
from trellis.bayesnet.inference.sampling.forward_sampling import likelihood_weighting, rejection
from trellis.bayesnet.inference.sampling.gibbs import gibbs
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.core.arguments import check_choice
from trellis.core.errors import ApproximationWarning as ApproximationWarning
from trellis.core.errors import DataError
from trellis.factors.junction_tree.plan import Forecast

EXACT = ("auto", "junction_tree", "elimination", "conditioning")
APPROXIMATE: Mapping[str, Callable[..., Estimate]] = {
    "loopy": loopy,
    "rejection": rejection,
    "likelihood_weighting": likelihood_weighting,
    "gibbs": gibbs,
}
METHODS = (*EXACT, *APPROXIMATE)


class ExactOptions(TypedDict, total=False):
    """The options of exact methods: see :func:`query`."""

    order: str | Sequence[str]
    memory_limit: float


def query(
    model: DiscreteModel,
    targets: Targets = None,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    method: str = "auto",
    **options: Any,
) -> Any:
    """P(targets | evidence): a ``Posterior``, or a dictionary of them where ``targets`` is None.

    Parameters
    ----------
    targets : a variable, several (their joint distribution), or None for each unobserved variable by itself.
    evidence : ``{variable: state}``.
    likelihoods : soft evidence, ``{variable: one weight for each state}``; a dictionary of states will do.
    method : "auto", "junction_tree", "elimination" and "conditioning" are exact; "loopy", "rejection",
        "likelihood_weighting" and "gibbs" are approximate.
    options : ``order`` (an elimination heuristic, or the variables to be summed out, in order) and
        ``memory_limit`` (bytes) of exact methods; those of approximate methods are in their modules.
    """
    check_choice("method", method, METHODS)
    solve = APPROXIMATE.get(method)
    if options:
        _check_options(method, solve or ExactInference, options)
    question = Question(model, targets, evidence, likelihoods)
    if solve is None:
        exact = ExactInference(question, **options)
        method = exact.choose_method() if method == "auto" else method
        return question.exact_answer(method, exact.solve(method))
    found = solve(question, **options)
    if found.warning:
        warnings.warn(f"{method.replace('_', ' ')}: {found.report}", ApproximationWarning, stacklevel=2)
    return question.approximate_answer(method, found)


def mpe(
    model: DiscreteModel,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    method: str = "auto",
    **options: Unpack[ExactOptions],
) -> MostProbableAssignment:
    """The most probable assignment of all variables given the evidence; arguments as for :func:`query`.

    ``method``: "junction_tree" is exact; "message_passing" works for models of any size, and often proves
    its answer by an upper bound; "auto" is the tree where that is cheap, and otherwise messages first, then
    the tree if they prove nothing and it fits into memory. The answer says which it was, and whether it is
    exact.
    """
    found = most_probable(_exact(model, evidence, likelihoods, options), method)
    if not found.exact:
        warnings.warn(f"mpe: {found.report}", ApproximationWarning, stacklevel=2)
    return found


def log_probability(
    model: DiscreteModel,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    **options: Unpack[ExactOptions],
) -> float:
    """log P(evidence), -inf if impossible; in a factor graph Z with the evidence divided by Z without it."""
    found = log_partition(model, evidence, likelihoods, **options)
    return found if model.directed else found - log_partition(model, **options)


def log_partition(
    model: DiscreteModel,
    evidence: Evidence = None,
    likelihoods: Likelihoods = None,
    **options: Unpack[ExactOptions],
) -> float:
    """log of the sum of the product of all tables at the evidence: in a Bayesian network log P(evidence)."""
    return _exact(model, evidence, likelihoods, options).log_partition()


def forecast(
    model: DiscreteModel,
    evidence: Evidence = None,
    *,
    targets: Targets = None,
    **options: Unpack[ExactOptions],
) -> Forecast:
    """What the junction tree needs for all marginals given the evidence, without running it.

    ``targets``: what elimination needs for their joint distribution instead, the joint table included.
    """
    _check_options("exact", ExactInference, options)
    exact = ExactInference(Question(model, targets, evidence), **options)
    if targets is not None:
        return exact.forecast_joint()
    return exact.tree().forecast(exact.question.evidence)


def _exact(
    model: DiscreteModel, evidence: Evidence, likelihoods: Likelihoods, options: ExactOptions
) -> ExactInference:
    _check_options("exact", ExactInference, options)
    return ExactInference(Question(model, None, evidence, likelihoods), **options)


def _check_options(method: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    allowed = _option_names(function)
    for name in options:
        if name not in allowed:
            raise DataError(f"method={method!r} has no option {name!r}; its options are {', '.join(allowed)}")


@cache
def _option_names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[1:]
