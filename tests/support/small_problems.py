"""Small problems of every structure, with sample weights other than 1."""

from __future__ import annotations

from typing import Any

import numpy as np

import small_chains
from small_segments import all_paths, random_features, random_graph
from trellis import Graph
from trellis.losses.labelings import Hamming
from trellis.objectives import get_objective
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.problem.graph_problem import GraphProblem
from trellis.structures.graph.scores.linear_graph import GraphLayout
from trellis.structures.segments.problem.alignment_losses import TauInsensitive
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem

STRUCTURES = ["compiled chains", "chains", "segments", "graphs"]
LAYOUT = GraphLayout(3, 2, 1, (False,))


def make(structure: str, objective: Any, seed: int = 5, l2: float = 1.0) -> Any:
    """A small problem with sample weights other than 1."""
    if structure.endswith("chains"):
        return small_chains.small_problem(
            objective, seed, l2=l2, weighted=True, compiled=structure.startswith("compiled")
        )
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.5, 2.0, 6)
    objective = get_objective(objective)
    if structure == "graphs":
        return GraphProblem(graphs(rng), objective, Hamming(), l2=l2, weight=weight, layout=LAYOUT)
    return SegmentProblem(utterances(rng), objective, TauInsensitive(0.0), l2=l2, weight=weight)


def graphs(rng: np.random.Generator) -> list[GraphExample]:
    examples = []
    for _ in range(6):
        graph = Graph(rng.normal(size=(4, 2)), [[0, 1], [1, 2], [2, 3], [3, 0]], rng.normal(size=(4, 1)))
        gold = rng.integers(0, 3, 4).astype(np.int32)
        examples.append(GraphExample(graph, gold, 3, cost=1.0 - np.eye(3)[gold]))
    return examples


def utterances(rng: np.random.Generator) -> list[SegmentExample]:
    examples: list[SegmentExample] = []
    while len(examples) < 6:
        graph, frames = random_graph("chain", rng), int(rng.integers(6, 9))
        paths = all_paths(graph, frames)
        if len(paths) > 3:
            features = random_features(graph, frames, rng, shared=True)
            examples.append(SegmentExample(features, paths[rng.integers(len(paths))]))
    return examples
