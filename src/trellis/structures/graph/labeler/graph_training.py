"""From graphs and options to a problem and a solver: what ``GraphLabeler.fit`` does before it trains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import LabelSet
from trellis.losses.labelings import Custom, Hamming, Loss, get_loss
from trellis.objectives.records import Log, Margin, Objective, get_objective
from trellis.solvers import Solver, get_solver
from trellis.solvers.online.minibatch import MiniBatch
from trellis.structures.graph.labeler.graph_shards import pseudo_likelihood_of
from trellis.structures.graph.oracle.graph_oracle import BEST_METHODS, SUM_METHODS, GraphInference
from trellis.structures.graph.problem.graph_candidates import GraphCandidateProblem
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.problem.graph_problem import GraphProblem
from trellis.structures.graph.problem.pseudo_likelihood import PseudoLikelihoodProblem
from trellis.structures.graph.scores.graph_features import Graph
from trellis.structures.graph.scores.linear_graph import GraphLayout
from trellis.training.fit import NEAR, WarmStart, latent_start
from trellis.training.options import check_minimum, fine_tuning

if TYPE_CHECKING:
    from trellis.structures.graph.labeler.graph_labeler import GraphLabeler

FEW = 200  # weights up to which planes of the whole sum need fewer passes (7 weights: 22 against 500)
PERCEPTRON_PASSES = 5  # of the warm start with hidden labels
CONVEX_PASSES = 50  # of the warm start from a convex objective, at most
# one graph at a time: an oracle call costs far more than an update
ONE_BY_ONE = MiniBatch(batch_size=1)
WARM_UP = MiniBatch(batch_size=1, schedule="constant")  # forgets its first passes, unlike the perceptron


@dataclass(frozen=True, eq=False)
class GraphOptions:
    """The objects behind the names; ``solver`` is ``None`` where the problem decides."""

    objective: Objective
    pseudo: bool
    loss: Loss
    solver: Solver | None
    inference: GraphInference
    max_iter: int | None = None

    @property
    def uses_candidates(self) -> bool:
        return self.objective.uses_loss and self.loss.kind != "costs"


def graph_options(model: GraphLabeler) -> GraphOptions:
    """Checked before any work is done."""
    model._check_parameters()
    pseudo = isinstance(model.objective, str) and model.objective == "pseudo_likelihood"
    objective = Log() if pseudo else get_objective(model.objective)
    automatic = isinstance(model.solver, str) and model.solver == "auto"
    if not isinstance(model.solver, str) and not hasattr(model.solver, "start"):
        raise DataError(f"solver={model.solver!r}: give a name or an object of trellis.solvers")
    solver = None if automatic else get_solver(model.solver, model.tol)
    check_minimum(objective, solver)
    given: Any = model.loss
    raw = callable(given) and not isinstance(given, Loss | str)
    loss = Custom(function=given, candidates="samples") if raw else get_loss(given)
    if loss.kind == "zero_one":
        raise UnsupportedError(
            "the 0-1 loss of graphs is not exact; use loss='hamming', or a function such as "
            "lambda gold, found: float(gold != found)"
        )
    return GraphOptions(objective, pseudo, loss, solver, get_inference(model.inference), model.max_iter)


def get_inference(given: Any) -> GraphInference:
    """By name, or as given."""
    if isinstance(given, GraphInference):
        return given
    if not isinstance(given, str):
        raise DataError(f"inference={given!r}: give the name of a method, or a GraphInference")
    return GraphInference(given)


def for_best(inference: GraphInference) -> GraphInference:
    """The same for questions about best labellings, if its method answers only those about sums."""
    return inference if inference.method in BEST_METHODS else replace(inference, method="auto")


def for_sums(inference: GraphInference) -> GraphInference:
    """The same for questions about sums: exact ones, if its method has none."""
    return inference if inference.method in SUM_METHODS else replace(inference, method="auto")


def new_layout(graphs: Sequence[Graph], n_labels: int, directed: Any, bias: bool) -> GraphLayout:
    """The shape of the weights: that of the features of the first graph (with edges)."""
    n_types = 1 + max(int(graph.edge_types.max(initial=0)) for graph in graphs)
    if isinstance(directed, bool | np.bool_):
        directed = (directed,) * n_types
    kinds = tuple(directed) if isinstance(directed, Iterable) else ()
    if len(kinds) != n_types or not all(isinstance(d, bool | np.bool_) for d in kinds):
        raise DataError(
            f"directed={directed!r}: give True, False, or one of them for each of the {n_types} edge types"
        )
    with_edges = next((graph for graph in graphs if len(graph.edges)), graphs[0])
    return GraphLayout(
        n_labels,
        graphs[0].nodes.shape[1],
        with_edges.edge_features.shape[1],
        tuple(bool(d) for d in kinds),
        bool(bias),
    )


def graph_problem(
    options: GraphOptions,
    examples: Sequence[GraphExample],
    layout: GraphLayout,
    names: LabelSet,
    seed: int,
    weight: FloatArray,
    *,
    l2: float,
    l1: float,
    n_jobs: int,
) -> GraphProblem:
    shared: dict[str, Any] = {
        "l2": 0.0 if options.objective.scale_free else l2,  # scaling w does not change the loss
        "l1": l1,
        "weight": weight,
        "n_jobs": n_jobs,
        "layout": layout,
        "inference": options.inference,
    }
    if options.pseudo:
        return PseudoLikelihoodProblem(examples, options.objective, options.loss, **shared)
    if options.uses_candidates:
        return GraphCandidateProblem(
            examples, options.objective, options.loss, labels=names, seed=seed, **shared
        ).checked()
    return GraphProblem(examples, options.objective, options.loss, **shared)


def automatic_graph_solver(options: GraphOptions, problem: Any, tol: float | None) -> Solver:
    """One with a certificate where there is one."""
    objective, l2, l1 = problem.objective, problem.l2, problem.l1
    if objective.fine_tuned:
        return fine_tuning(options.max_iter, tol=tol)
    if objective.smooth and not options.uses_candidates:
        return get_solver("owlqn" if l1 > 0 else "lbfgs", tol)
    if objective.piecewise_linear and not objective.uses_loss:
        return get_solver("perceptron", tol)
    certified = not options.uses_candidates and l2 > 0 and l1 == 0
    if certified and problem.latent and objective.margin_rescaling:
        return get_solver("cccp", tol)
    if certified and problem.convex:
        one_by_one = hasattr(problem, "example_plane")
        many = objective.piecewise_linear and problem.dimension > FEW and one_by_one
        return get_solver("frank_wolfe" if many else "cutting_plane", tol)
    return get_solver(ONE_BY_ONE, tol)


def graph_warm_starts(options: GraphOptions, problem: Any, start: FloatArray, l2: float) -> list[WarmStart]:
    """What to minimise before the problem, one of these; nothing where training starts at given weights.

    With hidden labels, a short latent perceptron: at w = 0 all their completions are equal, and what is
    completed at random stays so. For an objective that is not convex, the margin, for as many passes as
    bring it near its minimum; or, where it starts from the likelihood, whose sums are seldom exact on graphs,
    the pseudo-likelihood.
    """
    first = problem.objective.starts_from
    if start.any():
        return []
    if problem.latent:
        latent = latent_start(problem.objective, WARM_UP, PERCEPTRON_PASSES)
        return [] if latent is None else [latent]
    if first is None:
        return []
    margin: Any = problem.surrogate(Margin(), l2)
    solver = automatic_graph_solver(replace(options, objective=Margin(), loss=Hamming()), margin, None)
    starts = [WarmStart(margin.objective, solver, CONVEX_PASSES, margin)]
    if isinstance(first, Log):
        pseudo = pseudo_likelihood_of(problem, l2)
        solver = get_solver("lbfgs", delta=NEAR / 10)
        starts.append(WarmStart(first, solver, problem=pseudo, surrogate=pseudo_likelihood_of))
    return starts


def approximation(
    problem: GraphProblem, options: GraphOptions, weights: FloatArray
) -> tuple[float | None, str]:
    """How far the true objective can be from the reported one at these weights, and a note for the status."""
    method = problem.inference.method
    if options.pseudo:
        return None, "; approximate: the pseudo-likelihood stands for the likelihood"
    if options.uses_candidates:
        return None, f"; approximate: the loss {options.loss.name!r} looks at candidate labellings only"
    if not problem.objective.two_labelings:
        if method == "tree_reweighted":
            return None, "; approximate: a tree-reweighted upper bound stands for the log-partition function"
        if method == "loopy":
            return None, "; approximate: Bethe's estimate stands for the log-partition function"
        return 0.0, ""
    if not problem.objective.convex:
        return None, ""
    excess = problem.excess(weights)
    if excess == 0.0:
        return excess, ""
    if excess == np.inf:
        return excess, f"; approximate: inference by {method!r} has no bound, so the objective may be larger"
    smaller = "smaller" if method == "lp" else "larger"
    smaller = "smaller or larger" if problem.latent else smaller
    return (
        excess,
        f"; approximate: inference leaves open whether the objective is up to {excess:.3g} {smaller}",
    )
