"""``HMM``: a hidden Markov model for known, unknown and partly known states.

    p(x, y) = initial[y_1] p(x_1 | y_1) prod_{t>1} transitions[y_{t-1}, y_t] p(x_t | y_t)

Unknown states are summed over, known ones are counted, and one EM serves any mixture of both.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.errors import UnsupportedError
from trellis.core.stage_times import StageTimes
from trellis.core.status import Status
from trellis.data.row_checks import check_observed
from trellis.data.sequence_shards.sharded_sequences import files_and_backend
from trellis.data.shard_files import encoding_stage
from trellis.data.user_input import as_lists
from trellis.hmm.e_step import count_known_states
from trellis.hmm.hmm_description import HMMDescription
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.learning.baum_welch import BaumWelch, m_step
from trellis.hmm.learning.em_starts import starting_points
from trellis.hmm.learning.online_em import OnlineState, online_step
from trellis.hmm.observations import Observations
from trellis.hmm.shards.sharded_observations import ShardedObservations
from trellis.hmm.transition_constraints import PARTS, TransitionConstraints
from trellis.hmm.variance_floor import warn_of_flat_columns
from trellis.objectives.records import Objective
from trellis.solvers.run import Solver
from trellis.training.checkpoints import Checkpoints, open_checkpoints
from trellis.training.options import draw_seed
from trellis.training.restarts import run_em


class HMM(HMMDescription):
    """A hidden Markov model for known, unknown and partly known states.

    The objective of EM is the log-likelihood plus the log prior: sums, not means. A model whose ``initial``,
    ``transitions`` and emission are all given answers questions without ``fit``.

    Examples
    --------
    >>> from trellis import HMM, emissions
    >>> coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    >>> hmm = HMM(2, coins, initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    >>> hmm.decode([[0, 0, 0, 1, 1, 1]])[0].tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def fit(self, X: Any, states: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """Learn from observations ``X`` and, as far as they are known, their ``states``.

        ``X``: a list of arrays (length, ...), or one array, with ``lengths`` if it holds several sequences;
        NaN is missing. ``states``: None (EM), whole numbers for every step (counting, in closed form), or a
        mixture: None for a sequence and -1 for a step whose state is not known.

        ``X`` may also be files: a folder, a pattern such as ``"data/*.npz"``, a path, or a
        :class:`~trellis.ShardFiles`; labels in them are states. Files, and data with a ``backend``, are read
        in shards, and only sums of statistics leave these (:mod:`trellis.hmm.shards.sharded_observations`).
        """
        stages = StageTimes()
        observations, constraints = self._sharded_data(X, states, lengths)
        checkpoints = open_checkpoints(self, {} if self.checkpoint is None else observations.identity())
        seed = checkpoints.seed(self.random_state)
        stages.done(encoding_stage(X))
        if isinstance(observations, Observations) and not observations.all_known and self.n_states > 1:
            warn_of_flat_columns(observations.values, getattr(self.emission, "min_variance", 0.0))
        if observations.all_known:
            interrupted = self._count(observations, constraints, seed, checkpoints)
        else:
            n_init = 1 if self._given() is not None else self.n_init
            starts = self._starts(observations, constraints, n_init, seed)
            interrupted = self._run_em(observations, constraints, starts, n_init, checkpoints)
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        return self._finished(interrupted)

    def partial_fit(self, X: Any, states: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """Online EM: one step from a batch of sequences, see :mod:`trellis.hmm.learning.online_em`.

        The first call chooses a start from its batch, unless the model is fitted or given already.
        """
        observations, constraints = self._training_data(X, states, lengths)
        if hasattr(self, "initial_"):
            before = self.parameters()
        else:
            before = next(self._starts(observations, constraints, 1, draw_seed(self.random_state)))
        state: OnlineState | None = getattr(self, "online_", None)
        after, online, log_likelihood = online_step(
            before, observations, constraints, state, self.step_power, self._threads()
        )
        history = {"log_likelihood": [], "steps": []} if state is None else self.history_
        history["log_likelihood"].append(log_likelihood)  # of each batch, before learning from it
        history["steps"].append(float(observations.n_steps))
        status = Status(False, "online EM has no last batch; continue, or call fit", online.n_batches)
        self._keep(after, status, history)
        self.online_ = online
        return self

    def fit_discriminative(
        self,
        X: Any,
        states: Any,
        *,
        lengths: ArrayLike | None = None,
        objective: str | Objective = "log",
        loss: Any = "hamming",
        solver: str | Solver = "auto",
        l2: float = 1.0,
        max_iter: int | None = None,
        tol: float | None = None,
        holdout: Any = "auto",
        length: int | None = None,
    ) -> Self:
        """Learn to tell states from observations: fit by maximum likelihood, then train p(states | X), or
        the best states, with any objective of chains, and convert back to probabilities.

        ``objective``, ``loss``, ``solver``, ``l2``, ``max_iter``, ``tol`` and ``holdout`` are those of
        :class:`~trellis.SequenceLabeler`; ``l2`` pulls the states towards each other. Fixed zeros stay zero,
        priors concern the start only. ``length``: None for the transitions of long sequences, a number for
        sequences of that many steps. See :mod:`trellis.hmm.learning.discriminative`; ``status_`` and
        ``history_`` are the solver's.
        """
        stages = StageTimes()
        from trellis.hmm.learning.discriminative import train_discriminatively

        X, states = as_lists(X), as_lists(states)  # they are read twice
        observations, constraints = self._training_data(X, states, lengths)
        if constraints.learn != frozenset(PARTS):
            raise UnsupportedError(
                "discriminative training moves all parameters, so it cannot keep some out of learn; use fit, "
                'or learn="all"'
            )
        stages.done("encoding")
        source, first, second = copy.copy(self), None, None
        if self.checkpoint is not None:  # two fits, each with its own
            first, second = (os.path.join(self.checkpoint, name) for name in ("likelihood", "states"))
        source.set_params(checkpoint=first).fit(X, states, lengths=lengths)
        chain = train_discriminatively(
            source.parameters(),
            constraints,
            observations,
            objective=objective,
            loss=loss,
            solver=solver,
            l2=l2,
            max_iter=max_iter,
            tol=tol,
            holdout=holdout,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=self.verbose,
            checkpoint=second,
        )
        self._keep(chain.to_parameters(length), chain.status_, chain.history_)
        stages.done("training")
        self.fit_seconds_ = stages.seconds
        return self

    def _training_data(
        self, X: Any, states: Any, lengths: ArrayLike | None
    ) -> tuple[Observations, TransitionConstraints]:
        self._check_parameters()
        observations = Observations.pack(X, lengths, check=self.emission.check)
        constraints = self._constraints()
        observations = observations.with_states(states, self.n_states)
        if observations.known is None or self.emission.n_states is None:
            check_observed(self.emission.missing(observations.values))
        return observations, constraints

    def _sharded_data(
        self, X: Any, states: Any, lengths: ArrayLike | None
    ) -> tuple[Observations | ShardedObservations, TransitionConstraints]:
        """The same in shards, where data are files or a backend is named."""
        files, backend = files_and_backend(
            X, self.backend, self.n_jobs, self.max_memory, states=states, lengths=lengths
        )
        if files is None or backend is None:
            observations, constraints = self._training_data(X, states, lengths)
            if backend is None:
                return observations, constraints
            return ShardedObservations.of(observations, backend), constraints
        self._check_parameters()
        constraints = self._constraints()
        sharded = ShardedObservations.read(files, backend, self.emission, self.n_states)
        if not sharded.n_known or self.emission.n_states is None:
            sharded.check_observed(self.emission)
        return sharded, constraints

    def _run_em(
        self,
        observations: Observations | ShardedObservations,
        constraints: TransitionConstraints,
        starts: Iterable[HMMParameters],
        n_starts: int,
        checkpoints: Checkpoints,
    ) -> bool:
        """Whether Ctrl-C ended it."""
        solution, reached = run_em(
            BaumWelch(observations, constraints, self._threads()),
            starts,
            n_starts=n_starts,
            max_iter=self.max_iter,
            tol=self.tol * observations.n_steps,
            verbose=self.verbose,
            checkpoints=checkpoints,
        )
        checkpoints.close()
        self._keep(solution.point, solution.status, solution.history, [-primal for primal in reached])
        return bool(solution.interrupted)

    def _count(
        self,
        observations: Observations | ShardedObservations,
        constraints: TransitionConstraints,
        seed: int,
        checkpoints: Checkpoints,
    ) -> bool:
        """In closed form, unless the emission needs EM; whether Ctrl-C ended that."""
        began = time.perf_counter()
        before = next(self._starts(observations, constraints, 1, seed))
        if isinstance(observations, ShardedObservations):
            statistics = observations.count_known_states(before, constraints)
        else:
            known = np.asarray(observations.known)
            statistics = count_known_states(before, observations, known, constraints)
        after = m_step(statistics, constraints)
        if np.any(statistics.emission.get("entropy", 0.0)):
            # the emission hides something of its own: EM goes on for it
            return self._run_em(observations, constraints, [after], 1, checkpoints)
        value = statistics.expected_log_likelihood(after)
        primal = BaumWelch(observations, constraints).g(after) - value
        seconds = time.perf_counter() - began
        history = {"primal": [primal], "dual": [], "log_likelihood": [value], "seconds": [seconds]}
        self._keep(after, Status(True, "all states are known, so they were counted", 1), history, [-primal])
        return False

    def _starts(
        self,
        observations: Observations | ShardedObservations,
        constraints: TransitionConstraints,
        n_init: int,
        seed: int,
    ) -> Iterator[HMMParameters]:
        if isinstance(observations, ShardedObservations):
            observations = observations.start_sample(self.emission, self.n_states)
        return starting_points(
            observations, constraints, self.emission, start=self.start, n_init=n_init, seed=seed
        )

    def _keep(
        self,
        parameters: HMMParameters,
        status: Status,
        history: dict[str, list[float]],
        objectives: list[float] | None = None,
    ) -> None:
        self.initial_, self.transitions_ = parameters.initial, parameters.transitions
        self.emission_ = parameters.emission
        self.status_, self.n_iter_, self.history_ = status, status.n_iter, history
        self.objectives_, self.online_, self.fit_seconds_ = objectives or [], None, None
