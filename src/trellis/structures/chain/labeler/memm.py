"""``MEMM``: label sequences with transitions that are normalised one by one.

    p(y | x) = prod_t p(y_t | y_{t-1}, x_t),      p(k | j, x_t) proportional to
    exp(<W[k], x_t> + A[j, k] + <B[j, k], z_t>),  start[k] in place of A and B at the first step

    min_w  sum_i c_i (-log p(y_i | x_i; w)) + (l2 / 2) ||w||^2 + l1 ||w||_1

The weights and features are those of :class:`~trellis.SequenceLabeler` (without end scores); the difference
is where the normaliser stands. Training needs no dynamic programme, and is convex. The price is label bias:
a label with few successors passes its probability on whatever the input says (see docs/label-bias.md).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.estimator import check_fitted
from trellis.core.parameters import parameter
from trellis.core.progress import progress_bar
from trellis.core.stage_times import StageTimes
from trellis.data.shard_files import encoding_stage
from trellis.features.encoded import Encoded
from trellis.losses.labelings import Hamming
from trellis.objectives.records import Log
from trellis.solvers import default_iterations, get_solver
from trellis.structures.chain.labeler.chain_labeler import ChainLabeler
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.local_chain import local_problem
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.local_chain_scores import local_chain_scores
from trellis.training import declarations as declared
from trellis.training.checkpoints import open_checkpoints
from trellis.training.driver import minimise
from trellis.training.one_label import warn_of_one_label, warn_of_single_label
from trellis.training.options import Options


class MEMM(ChainLabeler):
    """A maximum-entropy Markov model on the features of :class:`~trellis.SequenceLabeler`.

    Scores of labellings, as in ``predict_k_best``, are their log-probabilities. ``predict_marginals`` gives
    P(y_t | x), which here does not depend on the inputs after step t. The solver is L-BFGS, or OWL-QN where
    ``l1`` is above 0.

    Examples
    --------
    >>> from trellis import MEMM
    >>> X, y = [["the", "cat"], ["a", "dog"]], [["D", "N"], ["D", "N"]]
    >>> MEMM(l2=0.1).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    constraints: Any = parameter(
        default=declared.CONSTRAINTS,
        doc='"bio", "bioes", or the allowed pairs of labels. What is forbidden has probability 0, and the '
        "rest is normalised without it.",
    )
    boundaries: bool = parameter(
        default=declared.BOUNDARIES, doc="Whether the first label has scores of its own."
    )

    latent_states, transitions, class_weight, holdout = 1, "all", None, None  # of SequenceLabeler alone
    _new_problem = staticmethod(local_problem)

    def fit(
        self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None, sample_weight: Any = None
    ) -> Self:
        """Learn from sequences ``X`` and their labels ``y``, in the forms that ``SequenceLabeler`` takes, or
        from files (:class:`trellis.ShardFiles`, a path or a pattern)."""
        stages = StageTimes()
        self._check_parameters()
        data = self._training_data(Options(Log(), Hamming(), None), X, y, lengths, sample_weight)
        stages.done(encoding_stage(X))
        sample, layout = data.sample(data.whole), data.arrange(data.whole)
        problem = data.problem(data.whole)
        checkpoints = open_checkpoints(self, data.identity)
        data.release()
        stages.done("arranging")
        name = "owlqn" if self.l1 > 0 else "lbfgs"
        solver = get_solver(name, self.tol, delta=self.delta, period=self.period)
        max_iter = default_iterations(solver) if self.max_iter is None else self.max_iter
        with progress_bar(f"MEMM by {solver.name}", max_iter, self.verbose) as on_iteration:
            solution = minimise(
                solver,
                problem,
                np.zeros(layout.dimension),
                max_iter=max_iter,
                rng=np.random.default_rng(0),  # neither solver draws from it
                on_iteration=on_iteration,
                keep_interrupted=True,
                checkpoints=checkpoints,
            )
        checkpoints.close()
        self._keep(data.encoder, data.latent, layout, data.penalties, solution.weights)
        self.status_, self.history_, self.n_iter_ = solution.status, solution.history, solution.n_iter
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        if len(sample):
            found = Chain(self._threads()).best(self._input_scores(sample.inputs)).labels
            warn_of_one_label(sample.labels, found, data.names)
        warn_of_single_label(data.names)
        stages.done("checking")
        return self._finished(solution.interrupted)

    def scores(self, X: Any, *, lengths: ArrayLike | None = None) -> ChainScores:
        """Part scores that add up to the log-probability of a labelling."""
        check_fitted(self, "weights_")
        return self._input_scores(self.encoder_.transform(X, lengths))

    def _input_scores(self, inputs: Encoded) -> ChainScores:
        design = self.layout_.design(inputs, sort=False)
        return local_chain_scores(self.layout_, design, self.penalties_, self.weights_, self._threads())
