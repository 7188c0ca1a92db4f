"""Graphs in shards: the problem of a sum over runs of graphs, which are cut by their nodes alone."""

from __future__ import annotations

from dataclasses import replace

from trellis.core.backends import Backend
from trellis.core.shards import shard_bounds
from trellis.data.sequences import offsets_from_lengths
from trellis.objectives.sharded_problem import ProblemShard, ShardedProblem, as_it_is
from trellis.structures.graph.problem.graph_problem import GraphProblem
from trellis.structures.graph.problem.pseudo_likelihood import PseudoLikelihoodProblem, pseudo_likelihood

SHARDS = 16


def in_shards(problem: GraphProblem, backend: Backend) -> ShardedProblem:
    """The same problem, whose graphs are worked on by the backend."""
    cut = shard_bounds(offsets_from_lengths([one.graph.n_nodes for one in problem.examples]), SHARDS)
    weight = problem.sample_weight
    shards = [
        ProblemShard(
            problem.with_(
                examples=problem.examples[a:b], weight=weight[a:b].copy(), l2=0.0, l1=0.0, n_jobs=1
            ),
            i,
            f"counted from graph {a}",
        )
        for i, (a, b) in enumerate(cut)
    ]
    return ShardedProblem.of(backend.place(as_it_is, shards), problem.l2, problem.l1)


def pseudo_likelihood_of(
    problem: GraphProblem | ShardedProblem, l2: float
) -> PseudoLikelihoodProblem | ShardedProblem:
    """Of the examples of a problem."""
    if isinstance(problem, ShardedProblem):
        return ShardedProblem.of(problem.shards.change(_pseudo_likelihood_shard), l2)
    return pseudo_likelihood(problem, l2)


def _pseudo_likelihood_shard(shard: ProblemShard) -> ProblemShard:
    return shard if shard.problem is None else replace(shard, problem=pseudo_likelihood(shard.problem, 0.0))
