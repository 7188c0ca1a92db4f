"""Which graphs are held out, what problem the others make, and what the held-out ones are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.backends import Backend
from trellis.objectives.records import Objective, Perceptron
from trellis.structures.graph.labeler.graph_shards import in_shards
from trellis.structures.graph.labeler.graph_training import GraphOptions, for_best
from trellis.structures.graph.labeler.labelled_graphs import (
    LabelledGraphs,
    checked_graphs,
    flat_labels,
    graph_examples,
)
from trellis.structures.graph.problem.graph_candidates import GraphCandidateProblem
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.problem.graph_problem import GraphProblem
from trellis.training.direct_recipe import Fold, Parts
from trellis.training.holdout import hold_out_in_turn, refits
from trellis.training.one_label import sample_with_several_labels


class Split(NamedTuple):
    """The examples to learn from and those held out, by number, and these themselves, if any. The user may
    have given them besides; then they have no numbers."""

    kept: list[int]
    numbers: list[int] | None
    held: list[GraphExample] | None


def hold_out_graphs(holdout: Any, data: LabelledGraphs, options: GraphOptions, seed: int) -> list[Split]:
    """One split; several where parts are held out in turn."""
    splits = []
    n, nodes = len(data.examples), sum(one.graph.n_nodes for one in data.examples)
    for parts in hold_out_in_turn(holdout, n, nodes, "graph", seed, options.objective):
        numbers = None if parts.held is None else parts.held.tolist()
        held = None if numbers is None else [data.examples[i] for i in numbers]
        if parts.given is not None:
            graphs = checked_graphs(parts.given[0])
            held = graph_examples(graphs, flat_labels(graphs, parts.given[1]), data.names, options.loss)
        splits.append(Split(parts.kept.tolist(), numbers, held))
    return splits


@dataclass(frozen=True, eq=False)
class GraphTask:
    """What is minimised, and what held-out graphs say of it.

    ``whole``: the problem in one piece, and ``problem``: the same, in shards where a backend is named.
    ``held_out(weights)``: the mean loss of what is held out, if anything is. ``parts``: what the recipe of
    the direct objective learns from in turn.
    """

    whole: GraphProblem
    problem: Any
    held_out: Callable[[FloatArray], float] | None
    parts: Parts | None


def graph_task(
    data: LabelledGraphs,
    splits: list[Split],
    objective: Objective,
    new_problem: Callable[[list[int]], GraphProblem],
    backend: Backend | None,
) -> GraphTask:
    """``new_problem(numbers)``: the problem of some of the examples, in one piece."""

    def placed(problem: GraphProblem) -> Any:
        return problem if backend is None else in_shards(problem, backend)

    refit = refits(objective) and len(splits[0].kept) < len(data.examples)
    whole = new_problem(list(range(len(data.examples))) if refit else splits[0].kept)
    problem = placed(whole)
    folds, held_out = [], None
    for kept, numbers, held in splits:
        if held is None:
            continue
        question = _held_out_problem(held, whole)
        held_out = question.mean_loss
        if objective.fine_tuned:
            counted = np.ones(len(held)) if numbers is None else data.weight[numbers]
            own = placed(new_problem(kept)) if refit else problem
            folds.append(Fold(own, question, question.task_losses, counted))
    if not folds:
        return GraphTask(whole, problem, held_out, None)
    several = [data.examples[i] for i in sample_with_several_labels(data.labels)]
    parts = Parts(folds, problem if refit else None, _one_label_test(several, whole))
    return GraphTask(whole, problem, held_out, parts)


def _held_out_problem(held: list[GraphExample], problem: GraphProblem) -> GraphProblem:
    """The held-out graphs, for their losses and scores at given weights."""
    changes: dict[str, Any] = {"examples": held, "weight": None, "inference": for_best(problem.inference)}
    if isinstance(problem, GraphCandidateProblem):
        return problem.with_(**changes)
    return GraphProblem(
        objective=Perceptron(), loss=problem.loss, layout=problem.layout, n_jobs=problem.n_jobs, **changes
    )


def _one_label_test(sample: list[GraphExample], problem: GraphProblem) -> Callable[[FloatArray], bool]:
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
