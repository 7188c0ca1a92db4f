"""From graphs and options to a problem and a solver: what ``GraphLabeler.fit`` does before it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import FlatLabels, LabelSet
from trellis.data.sequences import offsets_from_lengths
from trellis.data.user_input import as_arrays
from trellis.losses.labelings import Custom, Hamming, Loss, get_loss
from trellis.objectives.records import Log, Margin, Objective, Perceptron, get_objective
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
from trellis.training.holdout import hold_out_in_turn
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


def checked_graphs(graphs: Any) -> list[Graph]:
    if isinstance(graphs, Graph):
        raise DataError("one Graph was given; give a list of them")
    if not isinstance(graphs, Iterable):
        raise DataError(f"graphs are of type {type(graphs).__name__}; give a list of trellis.Graph")
    found = list(graphs)
    for i, graph in enumerate(found):
        if not isinstance(graph, Graph):
            raise DataError(
                f"graph {i} is of type {type(graph).__name__}; give objects of trellis.Graph, for an image "
                "trellis.Graph.grid(image)"
            )
    if not found:
        raise DataError("no graphs were given")
    return found


def flat_labels(graphs: Sequence[Graph], labels: Any) -> FlatLabels:
    """The labels of all graphs end to end; those of an image may have its shape."""
    if not isinstance(labels, Iterable) or (isinstance(labels, np.ndarray) and labels.ndim == 0):
        raise DataError(f"labels are of type {type(labels).__name__}; give those of each graph in a list")
    given = list(labels)
    if len(given) != len(graphs):
        raise DataError(f"there are {len(graphs)} graphs, but labels of {len(given)}")
    flat: list[Any] = []
    for i, (graph, one) in enumerate(zip(graphs, given, strict=True)):
        values = _node_labels(one, graph, i)
        if len(values) != graph.n_nodes:
            raise DataError(f"graph {i} has {graph.n_nodes} nodes, but {len(values)} labels")
        flat += values
    return FlatLabels(flat, offsets_from_lengths([graph.n_nodes for graph in graphs]))


def _node_labels(given: Any, graph: Graph, index: int) -> list[Any]:
    """The labels of one graph as a list; those of an image may come in rows, as an array or as lists."""
    labels = as_arrays(given)
    shape = (graph.n_nodes,) if graph.shape is None else graph.shape
    if isinstance(labels, np.ndarray):
        if labels.ndim > 1 and labels.shape != shape:
            raise DataError(f"the labels of graph {index} have shape {labels.shape}, and its nodes {shape}")
        return list(labels.ravel().tolist())
    if not isinstance(labels, Iterable) or isinstance(labels, Mapping | Set | bytes):
        raise DataError(
            f"the labels of graph {index} are of type {type(labels).__name__}; give one label for each node"
        )
    values = list(labels)
    if (
        graph.shape is not None
        and values
        and all(_is_row(row, len(values) < graph.n_nodes) for row in values)
    ):
        lengths = [len(row) for row in values]
        if lengths != [graph.shape[1]] * graph.shape[0]:
            raise DataError(
                f"the labels of graph {index} come in rows of {lengths} labels, and its image has the shape "
                f"{graph.shape}"
            )
        return [label for row in values for label in (row.tolist() if isinstance(row, np.ndarray) else row)]
    if any(isinstance(label, list | np.ndarray) for label in values):
        raise DataError(
            f"the labels of graph {index} hold lists; give one label for each of its {graph.n_nodes} nodes, "
            "or for an image one row of labels for each row of pixels"
        )
    return values


def _is_row(labels: Any, tuples: bool) -> bool:
    """Whether these are the labels of a row of pixels; ``tuples``: whether a tuple is no label."""
    if isinstance(labels, np.ndarray):
        return labels.ndim == 1
    return isinstance(labels, list) or (tuples and isinstance(labels, tuple))


def graph_examples(
    graphs: Sequence[Graph], flat: FlatLabels, names: LabelSet, loss: Loss
) -> list[GraphExample]:
    """Graphs with their labels and the costs of the loss. A label that is not among ``names`` (held-out
    graphs may have some) is no label that a node can have, and where the loss is a sum over nodes, each label
    is wrong there."""
    k = len(names)
    every = names.extended(flat) if loss.kind == "costs" else names
    encoded = every.encode(flat)
    codes = np.where(encoded.codes < k, encoded.codes, -1).astype(np.int32)
    allowed = None if encoded.allowed is None else encoded.allowed[:, :k]
    cost = np.ascontiguousarray(loss.costs(encoded, every)[:, :k]) if loss.kind == "costs" else None
    examples = []
    for i, graph in enumerate(graphs):
        own = slice(encoded.offsets[i], encoded.offsets[i + 1])
        sets = None if allowed is None else allowed[own]
        costs = None if cost is None else cost[own]
        examples.append(GraphExample(graph, codes[own], k, sets, costs, f"graph {i}"))
    return examples


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


def hold_out_graphs(
    holdout: Any, examples: list[GraphExample], options: GraphOptions, names: LabelSet, seed: int
) -> list[tuple[list[int], list[int] | None, list[GraphExample] | None]]:
    """The examples to learn from and those held out, by number, and these themselves, if any; several such
    where parts are held out in turn."""
    splits: list[tuple[list[int], list[int] | None, list[GraphExample] | None]] = []
    n, nodes = len(examples), sum(one.graph.n_nodes for one in examples)
    for parts in hold_out_in_turn(holdout, n, nodes, "graph", seed, options.objective):
        numbers = None if parts.held is None else parts.held.tolist()
        held = None if numbers is None else [examples[i] for i in numbers]
        if parts.given is not None:
            graphs = checked_graphs(parts.given[0])
            held = graph_examples(graphs, flat_labels(graphs, parts.given[1]), names, options.loss)
        splits.append((parts.kept.tolist(), numbers, held))
    return splits


def held_out_problem(held: list[GraphExample], problem: GraphProblem) -> GraphProblem:
    """The held-out graphs, for their losses and scores at given weights."""
    changes: dict[str, Any] = {"examples": held, "weight": None, "inference": for_best(problem.inference)}
    if isinstance(problem, GraphCandidateProblem):
        return problem.with_(**changes)
    return GraphProblem(
        objective=Perceptron(), loss=problem.loss, layout=problem.layout, n_jobs=problem.n_jobs, **changes
    )


def one_label_test(sample: list[GraphExample], problem: GraphProblem) -> Callable[[FloatArray], bool]:
    """Whether weights give every node of a sample of graphs the same label, where these have several."""
    if not sample:
        return lambda weights: False
    inference = for_best(problem.inference)

    def one_label(weights: FloatArray) -> bool:
        seen: set[int] = set()
        for example in sample:
            seen.update(
                np.unique(inference.best(problem.layout.scores(example.graph, weights)).labels).tolist()
            )
            if len(seen) > 1:
                return False
        return True

    return one_label


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
