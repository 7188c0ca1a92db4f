"""``SequenceLabeler``: label the steps of sequences with a linear chain, trained for any objective.

    score(x, y) = start[y_1] + sum_t <W[y_t], x_t> + sum_{t>1} (A[y_{t-1}, y_t] + <B[y_{t-1}, y_t], z_t>)
                  + end[y_n]

    min_w  sum_i c_i f(x_i, y_i; w) + (l2 / 2) ||w||^2 + l1 ||w||_1

Sums, not means: CRFsuite's c2 is l2 / 2 and its c1 is l1; the structural SVM's C is 1 / l2. ``f`` is the
objective (:mod:`trellis.objectives`), which may contain the task loss (:mod:`trellis.losses.labelings`).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from trellis.core.arrays import FloatArray
from trellis.data.labels import LabelSet
from trellis.data.latent_labels import LatentLabels, LatentStates
from trellis.data.user_input import as_lists
from trellis.features.encoded import FeatureEncoder
from trellis.losses.labelings import Loss
from trellis.objectives.records import Direct, Objective
from trellis.solvers import Solver, default_iterations
from trellis.structures.chain.labeler import inspection
from trellis.structures.chain.labeler.chain_labeler import ChainLabeler
from trellis.structures.chain.labeler.chain_training import (
    Examples,
    WeightedExamples,
    hold_out,
    holdout_loss,
    linear_problem,
    train,
    weighted_examples,
    weighted_loss,
)
from trellis.structures.chain.labeler.latent_start import begin, refuse_candidates
from trellis.structures.chain.labeler.warm_start import carried_over
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.chain_problem import linear_chain_scores
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.training.options import automatic_solver, checked_options, draw_seed


class SequenceLabeler(ChainLabeler):
    """Label the steps of sequences.

    Parameters
    ----------
    objective : "log" (CRF), "perceptron", "margin" (structural SVM), "slack", "softmax_margin", "direct",
        "ramp", "risk", or an object of :mod:`trellis.objectives` where options are needed, such as
        ``Direct(epsilon=1.1)``.
    loss : "hamming", "zero_one", "span_f1", an object of ``labelings``, or a function of two lists of
        labels.
    solver : "auto", a name in :data:`trellis.solvers.SOLVERS`, or a solver object.
    l2, l1 : weights of the regulariser, see the formula above. The direct objective does not use ``l2``.
    max_iter, tol : iterations (passes, for online solvers) and tolerance; ``None`` leaves the solver's own.
    n_jobs : threads; ``None`` is 1, -1 all cores. Results agree to rounding for any number.
    random_state : the seed of everything that is random.
    constraints : "bio", "bioes" or allowed pairs of labels, in training and decoding.
    latent_states : hidden states that each label owns, a number or {label: number}; the chain runs over
        states, prediction maximises over them. Training is not convex then, and begins at random weights.
    template : a CRF++ template (path or ``Template``) for inputs made of columns of strings.
    transition_features : names of features (columns of arrays) that also score transitions; ``True`` for all.
    min_count : features that occur less often are dropped.
    weights : "observed" gives weights to the (feature, label) pairs that occur, "all" to every pair; "auto"
        takes "all" for arrays.
    boundaries : whether the first and the last label have scores of their own.
    class_weight : "balanced" or {label: weight}. Multiplies the costs of the loss; for objectives without a
        loss ("log", "perceptron") each sequence counts by the mean weight of its labels.
    holdout : a fraction of the sequences, or ``(X, y)``, for early stopping; "auto" holds out a tenth for the
        direct objective only, whose regulariser it is.
    patience : iterations without a smaller hold-out loss before stopping.
    warm_start : start from the weights of the last ``fit``, carried over by the names of features and labels.
    verbose : progress bar; ``None`` shows it on a terminal.

    Attributes
    ----------
    classes_ : the labels, in the order of the columns of ``predict_marginals``.
    status_ : why training stopped, in a sentence.
    history_ : what was measured at each iteration. n_iter_ : their number.
    state_names_ : the latent states, (label, number), or the label itself where it has one state.
    epsilon_, epsilon_losses_ : the epsilon of the direct objective, and the hold-out loss of each candidate.
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
        latent_states: LatentStates = 1,
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
        self.latent_states = latent_states
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

    def fit(self, X: Any, y: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None) -> Self:
        """Learn from sequences ``X`` and their labels ``y``.

        ``X``: a list of sequences of feature dicts, lists of strings, strings, or arrays (or frames of
        numbers); or one array (or CSR matrix, or frame) with ``lengths``. ``y``: a list of label sequences;
        ``None`` is an unknown label, a set means "one of these".
        """
        X, y = as_lists(X), as_lists(y)
        options = checked_options(self)
        objective = options.objective
        encoder = self._new_encoder(X, lengths)
        inputs = encoder.fit(X, lengths)
        names = self._label_set(y, lengths)
        latent = LatentLabels.of(names, self.latent_states)
        refuse_candidates(latent, objective, options.loss)
        labels = names.encode(y, lengths, like=inputs.nodes.offsets)
        penalties = self._penalties(latent, labels)
        loss = options.loss
        if objective.uses_loss:
            loss = weighted_loss(loss, self.class_weight, labels, names)
        data = weighted_examples(
            Examples(inputs, labels), names, objective, loss, sample_weight, self.class_weight
        )
        seed = draw_seed(self.random_state)
        data, held = hold_out(self.holdout, data, objective, encoder, names, seed)

        data = data.over_states(latent)
        layout = self._layout(data.examples, encoder, len(latent.label_of))
        problem = self._problem(data, layout, penalties, latent, objective, loss, self.l2)
        solver = options.solver or automatic_solver(
            options, self.l2, self.l1, self.tol, convex=problem.convex, latent=not latent.plain
        )
        evaluate = None
        if held is not None:
            evaluate = holdout_loss(held, layout, penalties, latent, loss, self._threads())
        start = self._start(layout, latent, encoder)
        learned = bool(start.any())
        if self._has_new_states(latent):
            start = begin(problem, start, latent, seed, self.verbose)
        one_symbol = inspection.one_symbol_per_step(inputs)
        del inputs, data  # the problem has an arrangement of its own: this is memory for the solver
        trained = train(
            problem,
            solver,
            start,
            max_iter=default_iterations(solver) if self.max_iter is None else self.max_iter,
            seed=seed,
            held_out=evaluate,
            patience=self.patience,
            show=self.verbose,
            learned=learned,
        )
        self._keep(encoder, latent, layout, penalties, trained.solution.weights)
        self.one_symbol_ = one_symbol
        self.status_ = trained.solution.status
        self.history_ = trained.solution.history
        self.n_iter_ = trained.solution.n_iter
        self.solver_ = solver.name
        self.epsilon_, self.epsilon_losses_ = trained.epsilon, trained.epsilon_losses
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        *,
        lengths: ArrayLike | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """One pass of an online solver over (more) data, see ``partial_fit``.

        The first call fixes the features and the labels (``classes``, or those in ``y``): later features that
        were not there are ignored, and later labels that were not there are an error. A model file keeps the
        weights but not the state of the solver: after ``load``, a new run begins at these weights.
        """
        from trellis.structures.chain.labeler.partial_fit import continue_training

        continue_training(self, as_lists(X), as_lists(y), classes, lengths, sample_weight)
        return self

    def _label_set(self, y: Any, lengths: ArrayLike | None) -> LabelSet:
        return LabelSet.of(y, lengths)

    def _start(self, layout: LinearLayout, latent: LatentLabels, encoder: FeatureEncoder) -> FloatArray:
        if self.warm_start and hasattr(self, "weights_"):
            return carried_over(self, layout, latent.states, encoder)
        return np.zeros(layout.dimension)

    def _has_new_states(self, latent: LatentLabels) -> bool:
        """Whether training begins with states that nothing tells apart."""
        known = self.latent_.states.labels if self.warm_start and hasattr(self, "weights_") else ()
        return not (latent.plain or set(latent.states.labels) <= set(known))

    def _problem(
        self,
        data: WeightedExamples,
        layout: LinearLayout,
        penalties: Penalties,
        latent: LatentLabels,
        objective: Objective,
        loss: Loss,
        l2: float,
    ) -> Any:
        l2 = 0.0 if isinstance(objective, Direct) else l2  # the loss does not change when w is scaled
        return linear_problem(
            data.examples,
            layout,
            penalties,
            latent.states,
            objective,
            loss,
            data.weight,
            data.cost,
            l2=l2,
            l1=self.l1,
            n_jobs=self._threads(),
        )

    def _keep(
        self,
        encoder: FeatureEncoder,
        latent: LatentLabels,
        layout: LinearLayout,
        penalties: Penalties,
        weights: FloatArray,
    ) -> None:
        super()._keep(encoder, latent, layout, penalties, weights)
        self.online_: Any = None  # what partial_fit goes on from

    @property
    def state_names_(self) -> list[Any]:
        check_is_fitted(self, "weights_")
        return list(self.latent_.states.labels)

    def predict_states(self, X: Any, *, lengths: ArrayLike | None = None) -> list[list[Any]]:
        """The best latent states of each sequence, by their names; their labels are those of ``predict``."""
        scores = self.scores(X, lengths=lengths)
        return self.latent_.states.decode(Chain(self._threads()).best(scores).labels, scores.offsets)

    def scores(self, X: Any, *, lengths: ArrayLike | None = None) -> ChainScores:
        """The part scores of new sequences: what the oracles of :class:`trellis.inference.Chain` take."""
        check_is_fitted(self, "weights_")
        design = self.layout_.design(self.encoder_.transform(X, lengths), sort=False)
        return linear_chain_scores(self.layout_, design, self.penalties_, self.weights_, self._threads())

    def to_hmm(self, length: int | None = None) -> inspection.HMMProbabilities:
        """The hidden Markov model with the same distribution, see :func:`inspection.to_hmm`."""
        check_is_fitted(self, "weights_")
        return inspection.to_hmm(self, length)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted model as JSON values and arrays."""
        from trellis.structures.chain.labeler.chain_state import labeler_to_state

        check_is_fitted(self, "weights_")
        return labeler_to_state(self)

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SequenceLabeler:
        """The model that :meth:`to_state` described."""
        from trellis.structures.chain.labeler.chain_state import labeler_from_state

        return labeler_from_state(meta, arrays)
