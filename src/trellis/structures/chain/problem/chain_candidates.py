"""Chains under a loss that does not decompose: over candidate labellings, and so approximate.

The candidates of a sequence are the k best labellings under the current weights, or the best one and samples
from p(y) ~ exp s(y), and the gold labelling y*; how objectives read them is in
:mod:`trellis.objectives.candidates`. y_hat is the true argmax of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.oracle import Labels, Oracle
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import sum_by_sequence
from trellis.losses.labelings import CandidateLoss, Loss
from trellis.objectives.candidates import CandidateList, updates_of_candidates
from trellis.objectives.records import Log, Objective
from trellis.objectives.special_cases import fixed_epsilon
from trellis.objectives.structured_problem import BoolArray
from trellis.objectives.wrapped_problem import WrappedProblem
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.candidate_kernels import add_candidates
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.problem.chain_task import check_feasible
from trellis.structures.chain.scores.chain_scores import ChainScores


@dataclass(frozen=True, eq=False)
class CandidateProblem(WrappedProblem):
    """The data term of a linear chain model under a loss that re-ranks candidates (see above).

    The same weights give the same value: samples are drawn from ``seed`` and the run of sequences alone.
    """

    problem: LinearChainProblem
    loss: CandidateLoss
    labels: LabelSet
    seed: int = 0

    exact = False
    convex = False

    @classmethod
    def of(cls, problem: LinearChainProblem, loss: Loss, labels: LabelSet) -> CandidateProblem:
        """Check that the gold labels are known and that the loss of a right labelling is 0."""
        if not isinstance(loss, CandidateLoss):
            raise UnsupportedError(
                f"the loss {loss.name!r} is exact without candidates; use LinearChainProblem"
            )
        if not problem.objective.uses_loss:
            raise UnsupportedError(f"the objective {problem.objective.name!r} does not look at the loss")
        unknown, gold = np.flatnonzero(problem.task.ambiguous), _gold(problem)
        if unknown.size:
            raise UnsupportedError(
                f"the loss {loss.name!r} needs every label, but sequence {unknown[0]} has unknown ones; "
                "use loss='hamming'"
            )
        wrong = np.flatnonzero(loss.per_sequence(gold, gold.codes, labels) != 0)
        if wrong.size:
            raise DataError(
                f"the loss {loss.name!r} of sequence {wrong[0]} is not 0 for its own gold labels; it must be"
            )
        return cls(problem, loss, labels)

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """sum c_i f_i over the sequences first..last-1, and its gradient."""
        problem, layout = self.problem, self.problem.layout
        run, candidates = self._candidates(weights, first, last)
        epsilon = fixed_epsilon(problem.objective, problem.epsilon)
        values, coefficients = problem.objective.over_candidates(candidates, epsilon)
        check_feasible(values, first)
        gradient = np.zeros(self.dimension)
        coefficients *= run.sample_weight
        add_candidates(
            run.design, layout.rows, layout.views(gradient), layout.mask, candidates.labellings, coefficients
        )
        return float(values @ run.sample_weight), layout.masked(gradient)

    def _candidates(
        self, weights: FloatArray, first: int, last: int
    ) -> tuple[LinearChainProblem, CandidateList]:
        run, rng = self.problem.run(first, last), np.random.default_rng([self.seed, first, last])
        scores, gold = run.scores(weights), _gold(run)
        return run, list_candidates(scores, gold, self.loss, self.labels, rng, run.n_jobs)

    def updates(self, weights: FloatArray, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        return updates_of_candidates(self.objective, self._candidates(weights, first, last)[1], self.epsilon)

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        return self.run_value_and_gradient(weights, index, index + 1)

    def oracle(self, index: int, weights: FloatArray) -> Oracle:
        raise UnsupportedError(
            f"the loss {self.loss.name!r} re-ranks candidates, which no exact oracle takes into account; use "
            "solver='minibatch'"
        )

    def score_gaps(self, weights: FloatArray) -> FloatArray:
        return self.problem.score_gaps(weights)

    def task_losses(self, weights: FloatArray) -> FloatArray:
        best = Chain(self.n_jobs).best(self.scores(weights)).labels
        return np.asarray(self.loss.per_sequence(_gold(self.problem), best, self.labels))

    def scores(self, weights: FloatArray) -> ChainScores:
        return self.problem.scores(weights)

    def surrogate(self, objective: Objective, l2: float) -> LinearChainProblem:
        """The log objective, whatever ``objective`` is: it asks for no loss, and so for no candidates."""
        return self.problem.with_(objective=Log(), l2=l2)

    def with_(self, **changes: Any) -> CandidateProblem:
        """The same problem with other options of the linear one (``l2``, ``epsilon``, ...)."""
        return replace(self, problem=self.problem.with_(**changes))


def list_candidates(
    scores: ChainScores,
    gold: EncodedLabels,
    loss: CandidateLoss,
    labels: LabelSet,
    rng: np.random.Generator,
    n_jobs: int = 1,
) -> CandidateList:
    """The candidates of each sequence: ``loss.n_candidates`` of the model, and the gold labelling."""
    chain = Chain(n_jobs)
    if loss.candidates == "k_best":
        ranked = chain.k_best(scores, loss.n_candidates)
        found, values = ranked.labels, np.ascontiguousarray(ranked.scores.T)
    else:
        best = chain.best(scores)
        sampled = chain.sample(scores, loss.n_candidates - 1, rng)
        found = np.concatenate([best.labels[None], sampled])
        values = np.stack([best.scores, *(chain.score(scores, row) for row in sampled)])
        for r in range(1, len(found)):
            for earlier in range(r):
                values[r, _equal(found[r], found[earlier], gold.offsets)] = -np.inf
    found = np.where(found < 0, gold.codes, found)  # places past the last labelling: any labels will do
    gold_scores = chain.score(scores, gold.codes)
    listed = np.zeros(scores.n_sequences, dtype=np.bool_)
    for r, row in enumerate(found):
        listed |= _equal(row, gold.codes, gold.offsets) & (values[r] > -np.inf)
    labellings = np.concatenate([found, gold.codes[None]]).astype(np.int32)
    return CandidateList(
        labellings,
        np.concatenate([values, np.where(listed, -np.inf, gold_scores)[None]]),
        _losses(loss, gold, labellings, labels),
        gold_scores,
    )


def _losses(loss: CandidateLoss, gold: EncodedLabels, labellings: Labels, labels: LabelSet) -> FloatArray:
    """(R, S) the loss of each of R labellings in each sequence; all of them in one question."""
    n_labellings, n_steps = labellings.shape
    offsets = n_steps * np.arange(n_labellings)[:, None] + gold.offsets[:-1]
    repeated = EncodedLabels(
        np.tile(gold.codes, n_labellings), None, np.append(offsets, n_labellings * n_steps)
    )
    return np.asarray(loss.per_sequence(repeated, labellings.ravel(), labels)).reshape(n_labellings, -1)


def _gold(problem: LinearChainProblem) -> EncodedLabels:
    return EncodedLabels(problem.task.gold, None, problem.design.offsets)


def _equal(a: Labels, b: Labels, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(S,) whether two labellings of each sequence are the same."""
    return np.asarray(sum_by_sequence(a != b, offsets) == 0)
