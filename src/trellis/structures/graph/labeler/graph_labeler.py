"""``GraphLabeler``: label the nodes of graphs with a pairwise model, trained for any objective.

    score(x, y) = sum_i (bias[y_i] + <W[y_i], X_i>) + sum_{e = (a, b)} sum_f Z[e, f] V[type of e, f, y_a, y_b]

    min_w  sum_g c_g f(x_g, y_g; w) + (l2 / 2) ||w||^2 + l1 ||w||_1        sums over graphs, not means

``f`` is the objective (``objectives``), at what inference (``graph_oracle``) finds.
Where inference is not exact, ``status_`` and ``excess_`` say what that means for the objective.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis.core.arguments import check_choice, check_sample_weight
from trellis.core.arrays import FloatArray
from trellis.core.backends import as_backend
from trellis.core.errors import ApproximationWarning, DataError, ModelFileError, UnsupportedError
from trellis.core.estimator import Model, check_fitted
from trellis.core.parameters import Flag, fitted, parameter
from trellis.core.shards import over_items
from trellis.core.stage_times import StageTimes
from trellis.core.status import Status
from trellis.data.answers import Answers
from trellis.data.labels import LabelSet
from trellis.losses.labelings import DECODINGS, Loss, get_loss
from trellis.objectives.records import Objective
from trellis.solvers import Solver
from trellis.solvers.online.parameter_mixing import said_of_mixing
from trellis.structures.graph.labeler import graph_training as training
from trellis.structures.graph.labeler.graph_holdout import graph_task, hold_out_graphs
from trellis.structures.graph.labeler.labelled_graphs import LabelledGraphs, checked_graphs, flat_labels
from trellis.structures.graph.oracle.graph_answers import GraphMarginals, RelaxedSolution
from trellis.structures.graph.oracle.graph_oracle import GraphInference
from trellis.structures.graph.oracle.unions.small_graphs import SmallGraphs, small_graphs
from trellis.structures.graph.problem.graph_problem import GraphProblem
from trellis.structures.graph.scores.graph_features import Graph
from trellis.structures.graph.scores.graph_scores import GraphScores
from trellis.structures.graph.scores.linear_graph import GraphLayout
from trellis.training import declarations as declared
from trellis.training.checkpoints import open_checkpoints
from trellis.training.fit import train
from trellis.training.one_label import sample_with_several_labels, warn_of_one_label, warn_of_single_label

INTEGRAL = 1e-6


@dataclass(frozen=True)
class RelaxedPrediction:
    """A labelling with what is known about it.

    ``labels``: as ``predict`` gives them. ``value`` <= best score <= ``bound``; ``gap``: their difference;
    ``exact``: the gap is closed. ``integral``: the relaxed answer is a labelling; ``integral_share``: the
    share of nodes of which this is so (NaN where the method has no relaxed marginals). ``method``: what was
    used.
    """

    labels: NDArray[Any]
    value: float
    bound: float
    gap: float
    exact: bool
    integral: bool
    integral_share: float
    method: str


_LARGEST_WEIGHT = 1e150


class GraphLabeler(Model):
    """Label the nodes of graphs with a pairwise model, trained for any objective and loss.

    Examples
    --------
    >>> from trellis import Graph, GraphLabeler
    >>> graphs = [Graph([[1.0], [-1.0], [0.5]], [(0, 1), (1, 2)]), Graph([[-2.0], [1.0]], [(0, 1)])]
    >>> model = GraphLabeler("margin", l2=0.1).fit(graphs, [[1, 0, 1], [0, 1]])
    >>> model.predict([Graph([[3.0], [-3.0]], [(0, 1)])])[0].tolist()
    [1, 0]
    """

    objective: str | Objective = parameter(
        default="margin",
        doc='What is minimised: a name in :data:`trellis.objectives.OBJECTIVES` ("margin" is the structural '
        'SVM, "log" the CRF), "pseudo_likelihood", or an object of :mod:`trellis.objectives` where options '
        "are needed.",
        kw_only=False,
    )
    loss: str | Loss | Any = parameter(
        default="hamming",
        doc='The task loss: "hamming", an object of :mod:`trellis.losses`, or a function of two lists of '
        "labels, which re-ranks candidate labellings and is approximate.",
        kw_only=False,
    )
    inference: str | GraphInference = parameter(
        default="auto", doc='"auto", another method of ``GraphInference``, or an object of it.', kw_only=False
    )
    solver: str | Solver = parameter(default=declared.SOLVER, kw_only=False)
    directed: Any = parameter(
        default=False, doc="Whether the order of an edge's ends counts, for all edges or for each edge type."
    )
    bias: bool = parameter(
        default=True, doc="Whether labels have weights without a feature.", constraint=Flag()
    )
    l2: float = parameter(default=declared.L2)
    l1: float = parameter(default=declared.L1)
    max_iter: int | None = parameter(default=declared.MAX_ITER)
    tol: float | None = parameter(default=declared.TOL)
    n_jobs: int | None = parameter(default=declared.N_JOBS)
    random_state: Any = parameter(default=declared.RANDOM_STATE)
    holdout: Any = parameter(default=declared.HOLDOUT)
    patience: int = parameter(default=declared.PATIENCE)
    warm_start: bool = parameter(
        default=declared.WARM_START,
        doc="Whether to start from the weights of the last ``fit``, of the same shape and labels.",
    )
    backend: Any = parameter(default=declared.BACKEND)
    max_memory: int | str | None = parameter(default=declared.MAX_MEMORY)
    verbose: bool | None = parameter(default=declared.VERBOSE)
    checkpoint: Any = parameter(default=declared.CHECKPOINT)

    labels_: LabelSet = fitted()
    classes_: NDArray[Any] = fitted(
        "The labels, in the order of the columns of ``predict_marginals``.", saved=False
    )
    layout_: GraphLayout = fitted("The shape of the weights.")
    weights_: FloatArray = fitted("The weights; ``layout_.edge_weights(weights_)`` is V.")
    status_: Status = fitted("Why training stopped and what is approximate about it, in a sentence.")
    history_: dict[str, list[float]] = fitted("What was measured at each iteration.")
    n_iter_: int = fitted("The number of iterations.")
    solver_: str = fitted("The name of the solver that was used.")
    excess_: float | None = fitted(
        "How far the true objective can be from the one reported, because of inference: 0 where every answer "
        "was proved exact at the learned weights; None where the objective has no such bound."
    )
    epsilon_: float | None = fitted("The epsilon of the direct objective.")
    epsilon_losses_: dict[float, float] | None = fitted(
        "The hold-out loss of each epsilon that was tried, where it was searched."
    )

    def fit(self, graphs: Any, labels: Any, *, sample_weight: Any = None) -> Self:
        """Learn from graphs and the labels of their nodes.

        ``labels``: for each graph a list or array of one label per node, or an array of the shape of an
        image. ``None`` is an unknown label, a set means "one of these".
        """
        stages = StageTimes()
        options = training.graph_options(self)
        data = LabelledGraphs.read(graphs, labels, sample_weight, options.loss)
        stages.done("encoding")
        backend = as_backend(self.backend, self.n_jobs, self.max_memory)
        start_from = getattr(self, "weights_", None) if self.warm_start else None
        learned_from = {**data.identity(), "the start": start_from}
        if backend is not None:
            learned_from["the shards"] = "by their nodes"
        checkpoints = open_checkpoints(self, learned_from)
        seed = checkpoints.seed(self.random_state)
        splits = hold_out_graphs(self.holdout, data, options, seed)
        layout = training.new_layout(data.graphs, len(data.names), self.directed, self.bias)

        def new_problem(numbers: list[int]) -> GraphProblem:
            return training.graph_problem(
                options, [data.examples[i] for i in numbers], layout, data.names, seed, data.weight[numbers],
                l2=self.l2, l1=self.l1, n_jobs=self._threads(),
            )  # fmt: skip

        task = graph_task(data, splits, options.objective, new_problem, backend)
        solver = options.solver or training.automatic_graph_solver(options, task.problem, self.tol)
        start = self._start(layout, data.names)
        starts = training.graph_warm_starts(options, task.problem, start, self.l2)
        stages.done("arranging")
        trained = train(
            task.problem,
            solver,
            start,
            max_iter=self.max_iter,
            seed=seed,
            held_out=task.held_out,
            patience=self.patience,
            show=self.verbose,
            warm_start=starts[0] if starts else None,
            other_starts=starts[1:],
            keep_interrupted=True,
            parts=task.parts,
            checkpoints=checkpoints,
        )
        checkpoints.close()
        self._keep(data.names, layout, trained.solution.weights)
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        self.excess_, note = training.approximation(task.whole, options, self.weights_)
        status = said_of_mixing(trained.solution.status, task.problem, trained.solution.history)
        self.status_ = Status(status.converged, status.reason + note, status.n_iter)
        self.history_, self.n_iter_ = trained.solution.history, trained.solution.n_iter
        self.solver_ = solver.name
        self.epsilon_, self.epsilon_losses_ = trained.epsilon, trained.epsilon_losses
        self._warn_of_one_label(data)
        stages.done("checking")
        return self._finished(trained.solution.interrupted)

    def _warn_of_one_label(self, data: LabelledGraphs) -> None:
        """Where a sample of the training graphs, which has several labels, gets one."""
        sample = sample_with_several_labels(data.labels)
        if len(sample):
            found = [one.labels for one in self._solve([data.graphs[i] for i in sample], None)]
            warn_of_one_label(data.labels.take(sample), np.concatenate(found), data.names)
        warn_of_single_label(data.names)

    def scores(self, graph: Graph, name: str = "the graph") -> GraphScores:
        """The part scores of one graph: what ``GraphInference`` takes."""
        check_fitted(self, "weights_")
        self.layout_.check(graph, name)
        return self.layout_.scores(graph, self.weights_)

    def predict(self, graphs: Any, *, decoding: str = "best", inference: Any = None) -> list[NDArray[Any]]:
        """The best labelling that inference finds for each graph: (nodes,), or the shape of the image.

        ``decoding="minimum_risk"``: the labelling with the smallest expected loss, of a loss that adds up
        over nodes. It has the label with the smallest expected cost at each node, by the marginals: exact,
        unless ``inference`` (that of the model, or given here) is "tree_reweighted" or "loopy".
        """
        check_choice("decoding", decoding, DECODINGS)
        graphs = checked_graphs(graphs)
        if decoding == "best":
            found = [one.labels for one in self._solve(graphs, inference)]
        else:
            found = self._least_risk(graphs, inference)
        return Answers(self._decode(labels, graph) for labels, graph in zip(found, graphs, strict=True))

    def predict_relaxed(self, graphs: Any, inference: Any = None) -> list[RelaxedPrediction]:
        """Labellings with their bounds; ``inference`` replaces that of the model, such as "lp"."""
        graphs = checked_graphs(graphs)
        predictions = Answers[RelaxedPrediction]()
        for one, graph in zip(self._solve(graphs, inference), graphs, strict=True):
            share = float("nan")
            if one.integral or one.relaxed is not None:
                share = float(np.mean(one.mu.unary.max(axis=1) >= 1.0 - INTEGRAL)) if graph.n_nodes else 1.0
            known = one.value, one.bound, one.gap, one.exact, one.integral
            predictions.append(RelaxedPrediction(self._decode(one.labels, graph), *known, share, one.method))
        return predictions

    def predict_marginals(self, graphs: Any, inference: Any = None) -> list[FloatArray]:
        """P(y_i = k | x) under the log-linear model of the scores, a (nodes, labels) array for each graph.

        Exact, or refused, unless ``inference`` (that of the model, or given here) is "tree_reweighted" or
        "loopy": approximate marginals come only when they are asked for by name.
        """
        return Answers(one.parts.unary for one in self.marginals(graphs, inference))

    def marginals(self, graphs: Any, inference: Any = None) -> list[GraphMarginals]:
        """The same with the marginals of edges, the log-partition function, and whether they are exact."""
        method = training.for_sums(training.get_inference(self.inference if inference is None else inference))
        graphs = checked_graphs(graphs)
        found = self._answers(graphs, method.method, SmallGraphs.marginals, method.marginals)
        unsure = [i for i, one in enumerate(found) if not one.status.converged]
        if unsure:
            warnings.warn(
                f"the marginals of {len(unsure)} of {len(graphs)} graphs have not converged; graph "
                f"{unsure[0]}: {method.method} {found[unsure[0]].status}",
                ApproximationWarning,
                stacklevel=2,
            )
        return found

    def score(self, graphs: Any, labels: Any, *, sample_weight: Any = None) -> float:
        """The fraction of right labels among the nodes whose label is known (graphs weighted by
        ``sample_weight``). A label that training did not see counts as known: every answer there is wrong."""
        graphs = checked_graphs(graphs)
        found = self._solve(graphs, None)
        flat = flat_labels(graphs, labels)
        gold = self.labels_.extended(flat).encode(flat)
        weight = check_sample_weight(sample_weight, len(graphs))
        nodes = np.repeat(weight, np.diff(gold.offsets)) * (gold.codes >= 0)
        if nodes.sum() == 0:
            raise DataError("there is no node with a known label (and a weight above 0) to score")
        codes = np.concatenate([one.labels for one in found])
        return float((nodes * (gold.codes == codes)).sum() / nodes.sum())

    def _check_loaded(self) -> None:
        layout, weights = self.layout_, self.weights_
        if layout.n_labels != len(self.labels_) or not layout.directed:
            raise ModelFileError("its weights do not fit its labels")
        if weights.dtype != np.float64 or weights.shape != (layout.dimension,):
            raise ModelFileError(
                f"its weights are {weights.dtype} of shape {weights.shape}; they should be float64 of shape "
                f"({layout.dimension},)"
            )
        if not (np.abs(weights) < _LARGEST_WEIGHT).all():  # nor NaN
            raise ModelFileError("some of its weights are not finite, or so large that scores would overflow")
        self._keep(self.labels_, layout, weights)

    # -- what these share -------------------------------------------------------------------------------

    def _keep(self, names: LabelSet, layout: GraphLayout, weights: FloatArray) -> None:
        self.labels_, self.layout_, self.weights_ = names, layout, weights
        self.classes_ = np.empty(len(names), dtype=object)
        self.classes_[:] = names.labels

    def _start(self, layout: GraphLayout, names: LabelSet) -> FloatArray:
        if not (self.warm_start and hasattr(self, "weights_")):
            return np.zeros(layout.dimension)
        if layout != self.layout_ or names.labels != self.labels_.labels:
            raise UnsupportedError(
                "warm_start=True, but the features or labels are not those of the last fit; give the same, "
                "or warm_start=False"
            )
        return self.weights_.copy()

    def _solve(self, graphs: list[Graph], inference: Any) -> list[RelaxedSolution]:
        method = training.for_best(training.get_inference(self.inference if inference is None else inference))
        return self._answers(graphs, method.method, SmallGraphs.solutions, method.best)

    def _least_risk(self, graphs: list[Graph], inference: Any) -> list[NDArray[np.int32]]:
        """The cheapest label of each node: a linear model forbids nothing, so they are allowed together."""
        loss = get_loss(self.loss)
        if loss.kind != "costs":
            raise UnsupportedError(
                f"decoding='minimum_risk' needs a loss that adds up over nodes, and {loss.name!r} does not; "
                "use decoding='best', or loss='hamming' or a WeightedHamming"
            )
        marginals = self.predict_marginals(graphs, inference)
        ends = np.cumsum([graph.n_nodes for graph in graphs])
        risks = loss.risks(np.concatenate(marginals), np.concatenate([[0], ends]), self.labels_)
        return np.split(risks.argmin(axis=1).astype(np.int32), ends[:-1])

    def _answers(self, graphs: list[Graph], method: str, of_many: Any, of_one: Any) -> list[Any]:
        """The answer about each graph: small ones together, others one by one."""
        check_fitted(self, "weights_")
        for i, graph in enumerate(graphs):
            self.layout_.check(graph, f"graph {i}")
        unions, others = small_graphs(method, graphs, self.layout_.n_labels)

        def work(j: int) -> list[Any]:
            if j < len(unions):
                return list(of_many(unions[j], self.layout_.scores(unions[j].union.graph, self.weights_)))
            return [of_one(self.layout_.scores(graphs[others[j - len(unions)]], self.weights_))]

        found = over_items(work, len(unions) + len(others), self._threads())
        answers: list[Any] = [None] * len(graphs)
        for numbers, part in zip(
            [*(u.indices.tolist() for u in unions), *([i] for i in others)], found, strict=True
        ):
            for i, answer in zip(numbers, part, strict=True):
                answers[i] = answer
        return answers

    def _decode(self, codes: NDArray[np.int32], graph: Graph) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes_[codes]
        if len({type(label) for label in self.labels_.labels}) == 1:  # an array of their own type
            plain = np.array(self.labels_.labels)
            labels = plain[codes] if plain.ndim == 1 else labels
        return labels if graph.shape is None else labels.reshape(graph.shape)
