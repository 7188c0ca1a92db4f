"""``SequenceLabeler``: label the steps of sequences with a linear chain, trained for any objective.

    score(x, y) = start[y_1] + sum_t <W[y_t], x_t> + sum_{t>1} (A[y_{t-1}, y_t] + <B[y_{t-1}, y_t], z_t>) + end[y_n]

    min_w  sum_i c_i f(x_i, y_i; w) + (l2 / 2) ||w||^2 + l1 ||w||_1

Sums, not means: CRFsuite's c2 is l2 / 2 and its c1 is l1; the structural SVM's C is 1 / l2. ``f`` is the objective
(:mod:`trellis.objectives`), which may contain the task loss (:mod:`trellis.losses`).
"""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from trellis.data.constraints import check_legal, legal_transitions
from trellis.data.labels import LabelSet
from trellis.data.sequences import IntArray
from trellis.errors import DataError, UnsupportedError
from trellis.estimators import inspection
from trellis.estimators.training import (
    Examples,
    holdout_loss,
    linear_problem,
    sequence_weights,
    split,
    train,
    weighted_loss,
)
from trellis.features.arrays import ArrayEncoder
from trellis.features.encoded import Encoded, FeatureEncoder
from trellis.features.encoders import encoder_for
from trellis.features.template_encoder import TemplateEncoder
from trellis.inference.chain import Chain
from trellis.inference.shards import n_threads
from trellis.losses import Loss, loss_of
from trellis.objectives.linear_chain import linear_chain_scores, no_penalties, penalties_of
from trellis.objectives.modes import Direct, Objective, objective_of
from trellis.scores.linear import LinearLayout
from trellis.scores.parts import ChainScores, FloatArray
from trellis.solvers import Solver, Status, default_iterations, solver_of


def one_symbol_per_step(inputs: Encoded) -> bool:
    """Whether every step has exactly one feature, of value 1: what an HMM with categorical emissions needs."""
    nodes = inputs.nodes
    return inputs.edges is None and bool((nodes.values == 1.0).all() and (np.diff(nodes.indptr) == 1).all())


class SequenceLabeler(BaseEstimator):  # type: ignore[misc]
    """Label the steps of sequences.

    Parameters
    ----------
    objective : "log" (CRF), "perceptron", "margin" (structural SVM), "slack", "softmax_margin", "direct", "ramp", "risk", or an object
        of :mod:`trellis.objectives` where options are needed, such as ``Direct(epsilon=1.1)``.
    loss : "hamming", "zero_one", "span_f1", an object of :mod:`trellis.losses`, or a function of two lists of labels.
    solver : "auto", a name in :data:`trellis.solvers.SOLVERS`, or a solver object.
    l2, l1 : weights of the regulariser, see the formula above.
    max_iter, tol : iterations (passes, for online solvers) and tolerance; ``None`` leaves the solver's own.
    n_jobs : threads; ``None`` is 1, -1 all cores. Results agree to rounding for any number.
    random_state : the seed of everything that is random.
    constraints : "bio", "bioes" or allowed pairs of labels, in training and decoding.
    template : a CRF++ template (path or ``Template``) for inputs made of columns of strings.
    transition_features : names of features (columns of arrays) that also score transitions; ``True`` for all.
    min_count : features that occur less often are dropped.
    weights : "observed" gives weights to the (feature, label) pairs that occur, "all" to every pair; "auto" takes "all" for arrays.
    boundaries : whether the first and the last label have scores of their own.
    class_weight : "balanced" or {label: weight}. Multiplies the costs of the loss; for objectives without a loss ("log", "perceptron") each
        sequence counts by the mean weight of its labels.
    holdout : a fraction of the sequences, or ``(X, y)``, for early stopping; "auto" holds out a tenth for the direct objective only, whose
        regulariser it is.
    patience : iterations without a smaller hold-out loss before stopping.
    warm_start : start from the weights of the last ``fit`` on the same features and labels.
    verbose : progress bar; ``None`` shows it on a terminal.

    Attributes
    ----------
    classes_ : the labels, in the order of the columns of ``predict_marginals``.
    status_ : why training stopped, in a sentence. history_ : what was measured at each iteration. n_iter_ : their number.
    """

    def __init__(
        self,
        objective: str | Objective = "log",
        loss: str | Loss | Any = "hamming",
        solver: str | Solver = "auto",
        *,
        l2: float = 1.0,
        l1: float = 0.0,
        max_iter: int | None = None,
        tol: float | None = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        constraints: Any = None,
        template: Any = None,
        transition_features: Any = (),
        min_count: int = 1,
        weights: str = "auto",
        boundaries: bool = True,
        class_weight: Any = None,
        holdout: Any = "auto",
        patience: int = 5,
        warm_start: bool = False,
        verbose: bool | None = None,
    ) -> None:
        self.objective = objective
        self.loss = loss
        self.solver = solver
        self.l2 = l2
        self.l1 = l1
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.constraints = constraints
        self.template = template
        self.transition_features = transition_features
        self.min_count = min_count
        self.weights = weights
        self.boundaries = boundaries
        self.class_weight = class_weight
        self.holdout = holdout
        self.patience = patience
        self.warm_start = warm_start
        self.verbose = verbose

    # -- learning ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None) -> Self:
        """Learn from sequences ``X`` and their labels ``y``.

        ``X``: a list of sequences of feature dicts, lists of strings, strings, or arrays; or one array (or CSR matrix) with ``lengths``.
        ``y``: a list of label sequences; ``None`` is an unknown label, a set means "one of these".
        """
        objective, loss = self._checked_options()
        encoder = self._new_encoder(X, lengths)
        inputs = encoder.fit(X, lengths)
        names = LabelSet.of(y, lengths)
        labels = names.encode(y, lengths, like=inputs.nodes.offsets)
        penalties = no_penalties(len(names))
        if self.constraints is not None:
            legal = legal_transitions(self.constraints, names)
            check_legal(labels, legal, names)
            penalties = penalties_of(*legal)

        loss = weighted_loss(loss, self.class_weight) if objective.uses_loss else loss
        everything = Examples(inputs, labels)
        if len(everything) == 0 or len(labels.codes) == 0:
            raise DataError("there is nothing to learn from: no sequence has a step")
        weight = sequence_weights(len(everything), sample_weight, self.class_weight, objective, labels, names)
        cost = loss.costs(labels, names) if objective.uses_loss and loss.kind == "costs" else None
        seed = self._seed()
        held, kept = self._hold_out(everything, objective, encoder, names, seed)
        if kept is not None:
            if cost is not None:
                steps = np.repeat(np.isin(np.arange(len(everything)), kept), np.diff(labels.offsets))
                cost = np.ascontiguousarray(cost[steps])
            everything, weight = everything.take(kept), weight[kept]

        layout = self._layout(everything, encoder, len(names))
        n_jobs = n_threads(self.n_jobs or 1)
        options = {"l2": self.l2, "l1": self.l1, "n_jobs": n_jobs}
        if isinstance(objective, Direct):
            options["l2"] = 0.0
        problem = linear_problem(
            everything, layout, penalties, names, objective, loss, weight, cost, **options
        )
        solver = self._solver(objective, loss, problem)
        trained = train(
            problem,
            solver,
            self._start(layout, names, encoder),
            max_iter=default_iterations(solver) if self.max_iter is None else self.max_iter,
            seed=seed,
            held_out=None if held is None else holdout_loss(held, layout, penalties, names, loss, n_jobs),
            patience=self.patience,
            show=self.verbose,
        )
        self._keep(encoder, names, layout, penalties, trained.solution.weights)
        self.one_symbol_ = one_symbol_per_step(inputs)
        self.status_: Status = trained.solution.status
        self.history_ = trained.solution.history
        self.n_iter_ = trained.solution.n_iter
        self.solver_ = solver.name
        self.epsilon_, self.epsilon_losses_ = trained.epsilon, trained.epsilon_losses
        return self

    def _checked_options(self) -> tuple[Objective, Loss]:
        for name in ("l2", "l1"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise UnsupportedError(f"{name}={value} must be finite and not negative")
        if self.max_iter is not None and self.max_iter < 1:
            raise UnsupportedError(f"max_iter={self.max_iter} must be at least 1")
        if self.weights not in ("auto", "observed", "all"):
            raise UnsupportedError(f"weights={self.weights!r}: give 'observed', 'all' or 'auto'")
        return objective_of(self.objective), loss_of(self.loss)

    def _seed(self) -> int:
        if self.random_state is None:
            return int(np.random.SeedSequence().generate_state(1)[0])
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return int(self.random_state)

    def _new_encoder(self, X: Any, lengths: ArrayLike | None) -> FeatureEncoder:
        if self.template is not None:
            return TemplateEncoder(self.template, self.min_count)
        return encoder_for(X, self.min_count, self.transition_features, flat=lengths is not None)

    def _layout(self, examples: Examples, encoder: FeatureEncoder, n_labels: int) -> LinearLayout:
        if self.weights == "all" or (self.weights == "auto" and isinstance(encoder, ArrayEncoder)):
            return LinearLayout.all_pairs(examples.inputs, n_labels, boundaries=self.boundaries)
        labels = examples.labels
        return LinearLayout.observed(
            examples.inputs, labels.codes, labels.allowed, n_labels, boundaries=self.boundaries
        )

    def _hold_out(
        self, examples: Examples, objective: Objective, encoder: FeatureEncoder, names: LabelSet, seed: int
    ) -> tuple[Examples | None, NDArray[np.int64] | None]:
        """The hold-out set, and the sequences left to learn from (``None``: all)."""
        holdout = self.holdout
        if isinstance(holdout, str):
            if holdout != "auto":
                raise UnsupportedError(f"holdout={holdout!r}: give a fraction, (X, y), None or 'auto'")
            holdout = 0.1 if isinstance(objective, Direct) and len(examples) >= 10 else None
        if holdout is None:
            return None, None
        if isinstance(holdout, tuple):
            inputs = encoder.transform(holdout[0])
            return Examples(inputs, names.encode(holdout[1], like=inputs.nodes.offsets)), None
        kept, held = split(examples, float(holdout), np.random.default_rng(seed))
        return examples.take(held), kept

    def _solver(self, objective: Objective, loss: Loss, problem: Any) -> Solver:
        name = self.solver
        if name == "auto":
            name = {"perceptron": "perceptron", "direct": "sgd", "ramp": "subgradient"}.get(objective.name, "lbfgs")
            if objective.name in ("margin", "slack"):
                name = "frank_wolfe" if problem.convex and self.l2 > 0 else "subgradient"
            if name == "lbfgs" and self.l1 > 0:
                name = "owlqn"
            if objective.uses_loss and loss.kind == "candidates":
                name = "minibatch"
        return solver_of(name, self.tol)

    def _start(self, layout: LinearLayout, names: LabelSet, encoder: FeatureEncoder) -> FloatArray:
        """Zeros; or, with ``warm_start``, the last weights, carried over by feature name and label."""
        if not (self.warm_start and hasattr(self, "weights_")):
            return np.zeros(layout.dimension)
        if self.labels_.labels != names.labels or self.encoder_.feature_names() != encoder.feature_names():
            raise DataError(
                "warm_start needs the features and labels of the last fit, in the same data; they differ (set warm_start=False)"
            )
        return layout.from_dense(*self.layout_.to_dense(self.weights_))

    def _keep(
        self, encoder: FeatureEncoder, names: LabelSet, layout: LinearLayout, penalties: Any, weights: FloatArray
    ) -> None:
        self.encoder_ = encoder
        self.labels_ = names
        self.layout_ = layout
        self.penalties_ = penalties
        self.weights_ = weights
        self.classes_ = np.empty(len(names), dtype=object)
        self.classes_[:] = names.labels

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """One pass of an online solver over (more) data.

        The first call fixes the features and the labels (``classes``, or those in ``y``): later features that were not there are ignored, and
        later labels that were not there are an error. Every pair of feature and label gets a weight.
        """
        from trellis.estimators.online import continue_training

        continue_training(self, X, y, classes, lengths)
        return self

    # -- prediction --------------------------------------------------------------------------------------------------

    def scores(self, X: Any, *, lengths: ArrayLike | None = None) -> ChainScores:
        """The part scores of new sequences: what the oracles of :class:`trellis.inference.Chain` take."""
        check_is_fitted(self, "weights_")
        encoded = self._encode(X, lengths)
        design = self.layout_.design(encoded, sort=False)
        return linear_chain_scores(self.layout_, design, self.penalties_, self.weights_, self._threads())

    def _encode(self, X: Any, lengths: ArrayLike | None) -> Encoded:
        encoded: Encoded = self.encoder_.transform(X, lengths)
        return encoded

    def _threads(self) -> int:
        return n_threads(self.n_jobs or 1)

    def predict(
        self, X: Any, *, lengths: ArrayLike | None = None, decoding: str = "best"
    ) -> list[list[Any]]:
        """Labels of each sequence: the best labelling, or with ``decoding="minimum_risk"`` the most probable label of each step."""
        codes, offsets = self.predict_codes(X, lengths=lengths, decoding=decoding)
        return self.labels_.decode(codes, offsets)

    def predict_codes(
        self, X: Any, *, lengths: ArrayLike | None = None, decoding: str = "best"
    ) -> tuple[NDArray[np.int32], IntArray]:
        """The same as indices into ``classes_``, packed, with the offsets of the sequences."""
        scores = self.scores(X, lengths=lengths)
        chain = Chain(self._threads())
        if decoding == "best":
            return chain.best(scores).labels, scores.offsets
        if decoding == "minimum_risk":
            return chain.minimum_risk(scores), scores.offsets
        raise UnsupportedError(f"decoding={decoding!r}: give 'best' or 'minimum_risk'")

    def predict_marginals(self, X: Any, *, lengths: ArrayLike | None = None) -> list[FloatArray]:
        """P(y_t = k | x) under the log-linear model of the scores: one (length, n_labels) array per sequence."""
        scores = self.scores(X, lengths=lengths)
        return np.split(Chain(self._threads()).marginals(scores).unary, scores.offsets[1:-1])

    def predict_k_best(
        self, X: Any, k: int, *, lengths: ArrayLike | None = None
    ) -> list[list[tuple[list[Any], float]]]:
        """For each sequence its k best labellings with their scores, best first (fewer where fewer are allowed)."""
        scores = self.scores(X, lengths=lengths)
        ranked = Chain(self._threads()).k_best(scores, k)
        counts = ranked.counts
        found: list[list[tuple[list[Any], float]]] = [[] for _ in range(scores.n_sequences)]
        for rank in range(k):
            some = np.flatnonzero(counts > rank)
            decoded = self.labels_.decode(np.maximum(ranked.labels[rank], 0), scores.offsets)
            for i in some:
                found[i].append((decoded[i], float(ranked.scores[i, rank])))
        return found

    def predict_log_proba(self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None) -> FloatArray:
        """log p(y | x) of whole labellings, (n_sequences,): of the given ones, or of the predicted ones."""
        scores = self.scores(X, lengths=lengths)
        chain = Chain(self._threads())
        if y is None:
            return chain.best(scores).scores - chain.log_partition(scores)
        labels = self.labels_.encode(y, lengths, like=scores.offsets)
        if labels.allowed is not None:
            allowed = chain.log_partition(scores.restricted(labels.allowed))
            return np.asarray(allowed - chain.log_partition(scores))
        return chain.score(scores, labels.codes) - chain.log_partition(scores)

    def score(self, X: Any, y: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None) -> float:
        """The fraction of steps with the right label (sequences weighted by ``sample_weight``)."""
        codes, offsets = self.predict_codes(X, lengths=lengths)
        gold = self.labels_.encode(y, lengths, like=offsets)
        weight = np.ones(len(offsets) - 1) if sample_weight is None else np.asarray(sample_weight, float)
        if len(weight) != len(offsets) - 1:
            raise DataError(f"sample_weight has {len(weight)} entries; there are {len(offsets) - 1} sequences")
        steps = np.repeat(weight, np.diff(offsets)) * (gold.codes >= 0)
        if steps.sum() == 0:
            raise DataError("there is no step with a known label to score")
        return float((steps * (gold.codes == codes)).sum() / steps.sum())

    # -- inspection and storage --------------------------------------------------------------------------------------

    def strongest_weights(self, n: int = 10) -> dict[Any, list[tuple[str, float]]]:
        """For each label the ``n`` features with the largest weights in absolute value."""
        check_is_fitted(self, "weights_")
        return inspection.strongest_weights(self, n)

    def transition_table(self) -> FloatArray:
        """Scores of moving from label j (row) to label k (column); -inf where the constraints forbid it."""
        check_is_fitted(self, "weights_")
        table: FloatArray = self.layout_.views(self.weights_).transitions + self.penalties_.transitions
        return table

    def to_hmm(self, length: int | None = None) -> inspection.HMMProbabilities:
        """The hidden Markov model with the same distribution over labellings, see :func:`inspection.to_hmm`."""
        check_is_fitted(self, "weights_")
        return inspection.to_hmm(self, length)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file; :func:`trellis.load` reads it. No code is stored in it."""
        from trellis.estimators.persistence import save

        check_is_fitted(self, "weights_")
        save(self, path)
