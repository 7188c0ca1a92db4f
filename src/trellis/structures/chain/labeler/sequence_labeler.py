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
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from trellis.core.arrays import FloatArray
from trellis.core.estimator import check_fitted
from trellis.core.parameters import fitted, parameter
from trellis.core.stage_times import StageTimes
from trellis.data.constraints import legal_transitions
from trellis.data.labels import EncodedLabels, flatten_labels
from trellis.data.latent_labels import LatentLabels, LatentStates
from trellis.data.shard_files import encoding_stage
from trellis.data.user_input import as_lists
from trellis.features.encoded import Encoded, FeatureEncoder
from trellis.losses.labelings import Loss
from trellis.objectives.records import Objective
from trellis.objectives.sharded_problem import ShardedProblem
from trellis.solvers import Solver, get_solver
from trellis.solvers.online.parameter_mixing import said_of_mixing
from trellis.structures.chain.labeler import inspection
from trellis.structures.chain.labeler.chain_labeler import ChainLabeler
from trellis.structures.chain.labeler.chain_training import (
    one_label_test,
)
from trellis.structures.chain.labeler.latent_start import split_states
from trellis.structures.chain.labeler.warm_start import carried_over
from trellis.structures.chain.oracle.many_labels.sparse_chain import SparseChain
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.linear_chain_scores import linear_chain_scores
from trellis.structures.chain.scores.sparse_layout import SparseLayout
from trellis.structures.chain.scores.transition_pairs import TransitionPairs, allowed_pairs, check_pairs
from trellis.training import declarations as declared
from trellis.training.checkpoints import open_checkpoints
from trellis.training.direct_recipe import Parts
from trellis.training.fit import convex_start, latent_start, train
from trellis.training.holdout import refits
from trellis.training.one_label import warn_of_one_label, warn_of_single_label
from trellis.training.options import automatic_solver, checked_options


class SequenceLabeler(ChainLabeler):
    """Label the steps of sequences with a linear chain, trained for any objective and loss.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> X, y = [["the", "cat"], ["a", "dog"]], [["D", "N"], ["D", "N"]]
    >>> tagger = SequenceLabeler("log", l2=0.1).fit(X, y)
    >>> tagger.predict([["a", "cat"]])
    [['D', 'N']]
    """

    objective: str | Objective = parameter(
        default="log",
        doc="What is minimised: a name in :data:`trellis.objectives.OBJECTIVES` (log is the CRF, margin the "
        "structural SVM), or an object of :mod:`trellis.objectives` where options are needed, such as "
        "``Direct(epsilon=1.1)``.",
        kw_only=False,
    )
    loss: str | Loss | Any = parameter(
        default="hamming",
        doc='The task loss: "hamming", "zero_one", "span_f1", an object of :mod:`trellis.losses`, or a '
        "function of two lists of labels.",
        kw_only=False,
    )
    solver: str | Solver = parameter(default=declared.SOLVER, kw_only=False)
    random_state: Any = parameter(default=declared.RANDOM_STATE)
    transitions: Any = parameter(default=declared.TRANSITIONS)
    latent_states: LatentStates = parameter(default=declared.LATENT_STATES)
    class_weight: Any = parameter(default=declared.CLASS_WEIGHT)
    holdout: Any = parameter(default=declared.HOLDOUT)
    patience: int = parameter(default=declared.PATIENCE)
    warm_start: bool = parameter(
        default=declared.WARM_START,
        doc="Whether to start from the weights of the last ``fit``, carried over by the names of features "
        "and labels.",
    )

    solver_: str = fitted("The name of the solver that was used.")
    epsilon_: float | None = fitted("The epsilon of the direct objective.")
    epsilon_losses_: dict[float, float] | None = fitted(
        "The hold-out loss of each epsilon that was tried, where it was searched."
    )
    one_symbol_: bool = fitted()
    online_: Any = fitted(saved=False)

    def fit(
        self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None, sample_weight: Any = None
    ) -> Self:
        """Learn from sequences ``X`` and their labels ``y``.

        ``X``: a list of sequences of feature dicts, lists of strings, strings, or arrays (or frames of
        numbers); or one array (or CSR matrix, or frame) with ``lengths``. ``y``: a list of label sequences;
        ``None`` is an unknown label, a set means "one of these". Or ``X`` is a :class:`trellis.ShardFiles`,
        and ``y`` None: files are read, encoded and worked on shard by shard.
        """
        stages = StageTimes()
        options = checked_options(self)
        objective = options.objective
        data = self._training_data(options, X, y, lengths, sample_weight)
        latent, penalties, encoder = data.latent, data.penalties, data.encoder
        stages.done(encoding_stage(X))
        checkpoints = open_checkpoints(self, {**data.identity, "the start": self._starting_point()})
        seed = checkpoints.seed(self.random_state)
        splits = data.split(seed)
        refit = refits(objective) and len(splits[0].kept) < len(data.whole)
        everything = data.whole if refit else splits[0].kept
        sample = data.sample(everything)
        # features that only held-out sequences have get no weight before these are trained on
        layout = data.arrange(everything)
        problem = data.problem(everything)
        solver = options.solver or automatic_solver(
            options,
            self.l2,
            self.l1,
            convex=problem.convex,
            latent=not latent.plain,
            large_planes=data.pairs is not None or isinstance(problem, ShardedProblem),
        )
        losses = [data.held_out(one) for one in splits if one.held is not None]
        parts = None
        if losses and objective.fine_tuned:
            one_label = one_label_test(sample, layout, penalties, latent, self._threads())
            folds = [
                data.fold(one, measured, None if refit else problem)
                for one, measured in zip(splits, losses, strict=True)
            ]
            parts = Parts(folds, problem if refit else None, one_label)
        start = self._start(layout, latent, encoder)
        warm_start = None if start.any() else convex_start(problem, self.l2)
        if self._has_new_states(latent):
            start = split_states(start, layout, latent, seed)
            warm_start = latent_start(objective, get_solver("perceptron"))
        del everything, splits
        data.release()
        stages.done("arranging")
        trained = train(
            problem,
            solver,
            start,
            max_iter=self.max_iter,
            seed=seed,
            held_out=losses[-1] if losses else None,
            patience=self.patience,
            show=self.verbose,
            warm_start=warm_start,
            keep_interrupted=True,
            parts=parts,
            checkpoints=checkpoints,
        )
        checkpoints.close()
        self._keep(encoder, latent, layout, penalties, trained.solution.weights)
        self.one_symbol_ = data.one_symbol
        self.status_ = said_of_mixing(trained.solution.status, problem, trained.solution.history)
        self.history_ = trained.solution.history
        self.n_iter_ = trained.solution.n_iter
        self.solver_ = solver.name
        self.epsilon_, self.epsilon_losses_ = trained.epsilon, trained.epsilon_losses
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        if len(sample):
            found = self._chain().best(self._input_scores(sample.inputs)).labels
            warn_of_one_label(sample.labels, latent.collapse(found), data.names)
        warn_of_single_label(data.names)
        stages.done("checking")
        return self._finished(trained.solution.interrupted)

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

        continue_training(self, as_lists(X), flatten_labels(y, lengths), classes, lengths, sample_weight)
        return self

    def _starting_point(self) -> Any:
        """What ``_start`` depends on beside the data, for checkpoints."""
        return getattr(self, "weights_", None) if self.warm_start else None

    def _start(self, layout: LinearLayout, latent: LatentLabels, encoder: FeatureEncoder) -> FloatArray:
        if self.warm_start and hasattr(self, "weights_"):
            return carried_over(self, layout, latent.states, encoder)
        return np.zeros(layout.dimension)

    def _has_new_states(self, latent: LatentLabels) -> bool:
        """Whether training begins with states that nothing tells apart."""
        known = self.latent_.states.labels if self.warm_start and hasattr(self, "weights_") else ()
        return not (latent.plain or set(latent.states.labels) <= set(known))

    def _keep(
        self,
        encoder: FeatureEncoder,
        latent: LatentLabels,
        layout: LinearLayout,
        penalties: Penalties,
        weights: FloatArray,
    ) -> None:
        super()._keep(encoder, latent, layout, penalties, weights)
        self.online_ = None  # what partial_fit goes on from

    @property
    def state_names_(self) -> list[Any]:
        check_fitted(self, "weights_")
        return list(self.latent_.states.labels)

    def predict_states(self, X: Any, *, lengths: ArrayLike | None = None) -> list[list[Any]]:
        """The best latent states of each sequence, by their names; their labels are those of ``predict``."""
        scores = self.scores(X, lengths=lengths)
        return self.latent_.states.decode(self._chain().best(scores).labels, scores.offsets)

    def scores(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """The part scores of new sequences: what :class:`trellis.structures.chain.Chain` takes, or
        :class:`trellis.structures.chain.SparseChain` where ``transitions`` is not "all"."""
        check_fitted(self, "weights_")
        return self._input_scores(self.encoder_.transform(X, lengths))

    def _pairs(self, latent: LatentLabels, labels: EncodedLabels) -> TransitionPairs | None:
        if isinstance(self.transitions, str) and self.transitions == "all":
            return None
        pairs = allowed_pairs(self.transitions, labels, latent.labels)
        if self.constraints is not None:
            legal = legal_transitions(self.constraints, latent.labels, labels)
            kept = legal.pair[pairs.source, pairs.target]
            pairs = TransitionPairs.of(pairs.source[kept], pairs.target[kept], pairs.n_labels)
        check_pairs(labels, pairs, latent.labels)
        return pairs.expand(latent.label_of)

    def _saved_parameters(self) -> dict[str, Any]:
        kept = super()._saved_parameters()
        if issparse(self.transitions):  # a file names the labels
            names, stored = self.labels_.labels, self.transitions.tocoo()
            kept["transitions"] = [(names[j], names[k]) for j, k in zip(stored.row, stored.col, strict=True)]
        return kept

    def _chain(self) -> Any:
        sparse = isinstance(self.layout_, SparseLayout)
        return SparseChain(self._threads()) if sparse else super()._chain()

    def _input_scores(self, inputs: Encoded) -> Any:
        design = self.layout_.design(inputs, sort=False)
        if isinstance(self.layout_, SparseLayout):
            return self.layout_.scores(design, self.penalties_, self.weights_)
        return linear_chain_scores(self.layout_, design, self.penalties_, self.weights_, self._threads())

    def to_hmm(self, length: int | None = None) -> inspection.HMMProbabilities:
        """The hidden Markov model with the same distribution, see :func:`inspection.to_hmm`."""
        check_fitted(self, "weights_")
        return inspection.to_hmm(self, length)
