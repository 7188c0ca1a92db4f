"""Objectives with a loss that does not decompose: formed over candidate labellings, and so approximate.

The candidates of a sequence are the k best labellings under the current weights, or the best one and samples
from p(y) ~ exp s(y), and the gold labelling y*. Over this list C (without repetitions), y_hat = argmax_C s,

    margin           max_C (s + L) - s(y*)
    slack            max_C L (1 + s - s(y*))
    softmax_margin   log sum_C exp(s + L) - s(y*)
    ramp             max_C (s + L) - s(y_hat)
    direct           L(y_hat), along +-(1[y_hat] - 1[y_direct]) / eps, y_direct = argmax_C s -+ eps L
    risk             sum_C p L,  p = exp s / sum_C exp s

Each has one coefficient per candidate, and the gradient in the weights is sum_C coefficient(y) Phi(x, y), the
candidates held fixed. The first four never exceed the exact objective. y_hat is the true argmax of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.oracle import Oracle
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.losses.labelings import CandidateLoss, Loss, sum_by_sequence
from trellis.objectives.records import Direct, Objective
from trellis.objectives.wrapped_problem import WrappedProblem
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.candidate_kernels import add_candidates
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.problem.score_objectives import fixed_epsilon
from trellis.structures.chain.scores.chain_scores import ChainScores

Labellings = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class CandidateList:
    """Labellings (R, N) of a run of sequences, their scores and losses (R, S); the last row is the gold one.

    A score of ``-inf`` marks a place that is empty or repeats another row. ``gold_scores`` (S,) are those of
    the last row, even where it repeats another.
    """

    labellings: Labellings
    scores: FloatArray
    losses: FloatArray
    gold_scores: FloatArray


@dataclass(frozen=True, eq=False)
class CandidateProblem(WrappedProblem):
    """The data term of a linear chain model under a loss that re-ranks candidates (see above).

    The same weights give the same value: samples are drawn from ``seed`` and the run of sequences alone.
    """

    problem: LinearChainProblem
    loss: CandidateLoss
    gold: EncodedLabels
    labels: LabelSet
    seed: int = 0

    exact = False
    convex = False

    @classmethod
    def of(
        cls, problem: LinearChainProblem, loss: Loss, gold: EncodedLabels, labels: LabelSet
    ) -> CandidateProblem:
        """Check that the gold labels are known and that the loss of a right labelling is 0."""
        if not isinstance(loss, CandidateLoss):
            raise UnsupportedError(
                f"the loss {loss.name!r} is exact without candidates; use LinearChainProblem"
            )
        if not problem.objective.uses_loss:
            raise UnsupportedError(f"the objective {problem.objective.name!r} does not look at the loss")
        unknown = np.flatnonzero(gold.ambiguous)
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
        return cls(problem, loss, gold, labels)

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """sum c_i f_i over the sequences first..last-1, and its gradient."""
        problem, layout = self.problem, self.problem.layout
        run = problem.run(first, last)
        scores = run.scores(weights)
        gold = run_of_labels(self.gold, first, last)
        rng = np.random.default_rng([self.seed, first, last])
        candidates = candidates_of(scores, gold, self.loss, self.labels, rng, problem.n_jobs)
        epsilon = fixed_epsilon(problem.objective, problem.epsilon)
        values, coefficients = over_candidates(problem.objective, candidates, epsilon)
        problem.check(values, first)
        gradient = np.zeros(self.dimension)
        add_candidates(
            run.design,
            layout.rows,
            layout.views(gradient),
            layout.mask,
            candidates.labellings,
            coefficients * run.sample_weight,
        )
        return float(values @ run.sample_weight), layout.masked(gradient)

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        return self.run_value_and_gradient(weights, index, index + 1)

    def oracle(self, index: int, weights: FloatArray) -> Oracle:
        raise UnsupportedError(
            f"the loss {self.loss.name!r} re-ranks candidates, which no exact oracle takes into account; use "
            "solver='minibatch'"
        )

    def task_losses(self, weights: FloatArray) -> FloatArray:
        best = Chain(self.n_jobs).best(self.scores(weights)).labels
        return np.asarray(self.loss.per_sequence(self.gold, best, self.labels))

    def scores(self, weights: FloatArray) -> ChainScores:
        return self.problem.scores(weights)

    def with_(self, **changes: Any) -> CandidateProblem:
        """The same problem with other options of the linear one (``l2``, ``epsilon``, ...)."""
        return replace(self, problem=self.problem.with_(**changes))


def candidates_of(
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
        np.stack([loss.per_sequence(gold, row, labels) for row in labellings]),
        gold_scores,
    )


def over_candidates(
    objective: Objective, candidates: CandidateList, epsilon: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Values (S,) and the coefficient of each candidate (R, S)."""
    s, L, gold = candidates.scores, candidates.losses, candidates.gold_scores
    every = np.arange(s.shape[1])
    coefficients = np.zeros_like(s)

    def add(row: NDArray[np.intp] | int, amount: FloatArray | float) -> None:
        coefficients[row, every] += amount

    y_hat = s.argmax(axis=0)
    augmented = (s + L).argmax(axis=0)
    values: FloatArray
    match objective.name:
        case "margin":
            add(augmented, 1.0)
            add(-1, -1.0)
            values = (s + L)[augmented, every] - gold
        case "slack":
            shifted = np.where(s > -np.inf, s, 0.0) - np.where(gold > -np.inf, gold, 0.0)
            product = np.where(s > -np.inf, L * (1.0 + shifted), -np.inf)
            chosen = product.argmax(axis=0)
            add(chosen, L[chosen, every])
            add(-1, -L[chosen, every])
            values = np.where(gold > -np.inf, product[chosen, every], np.inf)
        case "softmax_margin":
            p, log_sum = _softmax(s + L)
            coefficients += p
            add(-1, -1.0)
            values = log_sum - gold
        case "ramp":
            add(augmented, 1.0)
            add(y_hat, -1.0)
            values = (s + L)[augmented, every] - s[y_hat, every]
        case "risk":
            p, _ = _softmax(s)
            values = (p * L).sum(axis=0)
            coefficients = p * (L - values)
        case _ if isinstance(objective, Direct):
            sign = 1.0 if objective.sign == "better" else -1.0
            y_direct = (s - sign * epsilon * L).argmax(axis=0)
            add(y_hat, sign / epsilon)
            add(y_direct, -sign / epsilon)
            values = L[y_hat, every]
        case _:
            raise UnsupportedError(f"the objective {objective.name!r} does not look at the loss")
    return values, coefficients


def run_of_labels(gold: EncodedLabels, first: int, last: int) -> EncodedLabels:
    """The labels of the sequences first..last-1."""
    lo, hi = int(gold.offsets[first]), int(gold.offsets[last])
    allowed = None if gold.allowed is None else gold.allowed[lo:hi]
    return EncodedLabels(gold.codes[lo:hi], allowed, gold.offsets[first : last + 1] - lo)


def _equal(a: Labellings, b: Labellings, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(S,) whether two labellings of each sequence are the same."""
    return np.asarray(sum_by_sequence(a != b, offsets) == 0)


def _softmax(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """exp x / sum exp x over the rows, and log sum exp x; there is always a finite row."""
    top = x.max(axis=0)
    e = np.exp(x - top)
    total = e.sum(axis=0)
    return e / total, top + np.log(total)
