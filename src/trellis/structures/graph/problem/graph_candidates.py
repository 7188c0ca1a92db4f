"""Graphs under a loss that does not add up over nodes: over candidate labellings, and so approximate.

The candidates of a graph are the best labelling, ``n_candidates - 1`` others, and the gold one; how
objectives read them is in :mod:`trellis.objectives.candidates`. The others are

* ``candidates="k_best"``: the next best ones, where exact inference is possible, and the graph small (k N
  questions);
* ``candidates="samples"``: best labellings after Gumbel noise was added to the unary scores, which are close
  to samples of the model where edges are weak, and ask nothing of inference but best labellings.

The same weights give the same value: noise is drawn from ``seed`` and the graph alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.losses.labelings import CandidateLoss, Hamming
from trellis.objectives.candidates import CandidateList, updates_of_candidates
from trellis.objectives.records import Objective
from trellis.objectives.structured_problem import BoolArray
from trellis.structures.graph.oracle.graph_oracle import GraphInference
from trellis.structures.graph.problem.graph_problem import Batches, GraphProblem
from trellis.structures.graph.scores.graph_scores import GraphScores, Labels


@dataclass(frozen=True, eq=False)
class GraphCandidateProblem(GraphProblem):
    labels: LabelSet = field(kw_only=True)
    seed: int = field(default=0, kw_only=True)

    exact = False

    def checked(self) -> Self:
        """The problem, if its loss is for graphs whose labels are all known, and 0 for the right ones."""
        loss = self.loss
        if not isinstance(loss, CandidateLoss) or loss.name == "span_f1":
            raise UnsupportedError(
                f"the loss {loss.name!r} is not for graphs; use 'hamming', WeightedHamming or a function of "
                "two lists of labels"
            )
        for example in self.examples:
            if example.latent:
                raise UnsupportedError(
                    f"the loss {loss.name!r} needs the label of every node, and {example.name} has unknown "
                    "ones; use loss='hamming'"
                )
            if self._losses(example.gold[None], example.gold)[0] != 0:
                raise DataError(
                    f"the loss {loss.name!r} of {example.name} is not 0 for its own gold labels; it must be"
                )
        return self

    def surrogate(self, objective: Objective, l2: float) -> GraphProblem:
        """The convex objective with the Hamming loss, which needs no candidates."""
        every = np.arange(self.layout.n_labels)
        examples = [replace(one, cost=(one.gold[:, None] != every).astype(float)) for one in self.examples]
        return GraphProblem(
            examples,
            objective,
            Hamming(),
            l2=l2,
            weight=self.weight,
            n_jobs=self.n_jobs,
            layout=self.layout,
            inference=self.inference,
        )

    def _check_objective(self) -> None:
        """Every objective reads candidates."""

    @property
    def convex(self) -> bool:
        return False

    def batches(self, first: int, last: int) -> Batches:
        return (), range(first, last)

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        """c_i f_i over the candidates of graph i, and its gradient with the candidates held fixed."""
        example = self.examples[index]
        candidates = self.candidates(index, weights)
        values, coefficients = self.objective.over_candidates(candidates, self.epsilon)
        gradient = np.zeros(self.dimension)
        for row, (coefficient,) in enumerate(coefficients):
            if coefficient != 0.0:
                gradient += coefficient * self.layout.of_labels(example.graph, candidates.labellings[row])
        c = 1.0 if self.weight is None else float(self.weight[index])
        return c * float(values[0]), c * gradient

    def updates(self, weights: FloatArray, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        def one(i: int) -> tuple[BoolArray, BoolArray]:
            return updates_of_candidates(self.objective, self.candidates(i, weights), self.epsilon)

        moved, gold = zip(*self.over_examples(one, first, last), strict=True)
        return np.concatenate(moved), np.concatenate(gold)

    def candidates(self, index: int, weights: FloatArray) -> CandidateList:
        example = self.examples[index]
        scores = self.layout.scores(example.graph, weights)
        rng = np.random.default_rng([self.seed, index])
        found = candidate_labellings(self.inference, scores, self._candidate_loss, rng)
        rows = np.concatenate([found, example.gold[None]]).astype(np.int32)
        values = np.array([scores.score(row) for row in rows])
        gold_score = values[-1:].copy()
        _, first = np.unique(rows, axis=0, return_index=True)
        repeats = np.ones(len(rows), dtype=np.bool_)
        repeats[first] = False
        values[repeats] = -np.inf
        return CandidateList(rows, values[:, None], self._losses(rows, example.gold)[:, None], gold_score)

    def task_losses(self, weights: FloatArray) -> FloatArray:
        def one(index: int) -> float:
            example = self.examples[index]
            best = self.inference.best(self.layout.scores(example.graph, weights)).labels
            return float(self._losses(best[None], example.gold)[0])

        return np.array(self.over_examples(one))

    @property
    def _candidate_loss(self) -> CandidateLoss:
        loss = self.loss
        if not isinstance(loss, CandidateLoss):
            raise UnsupportedError(f"the loss {loss.name!r} needs no candidates")
        return loss

    def _losses(self, rows: Labels, gold: Labels) -> FloatArray:
        known = EncodedLabels(gold, None, np.array([0, len(gold)], dtype=np.int64))
        return np.array([self.loss.per_sequence(known, row, self.labels)[0] for row in rows])


def candidate_labellings(
    inference: GraphInference, scores: GraphScores, loss: CandidateLoss, rng: np.random.Generator
) -> Labels:
    """The best labelling and up to ``n_candidates - 1`` others, (R, N)."""
    if loss.candidates == "k_best":
        return inference.k_best(scores, loss.n_candidates)[0]
    noise = rng.gumbel(size=(loss.n_candidates - 1, *scores.unary.shape))
    perturbed = [inference.best(replace(scores, unary=scores.unary + one)).labels for one in noise]
    return np.stack([inference.best(scores).labels, *perturbed])
