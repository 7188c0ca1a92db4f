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

from trellis.core.arguments import as_floats
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.core.estimator import not_fitted
from trellis.core.file_checks import check_array, check_size
from trellis.core.parameters import choice, fitted, integer, number, parameter
from trellis.core.status import Status
from trellis.data.row_checks import check_observed
from trellis.data.sequence_shards.sharded_sequences import files_and_backend
from trellis.data.user_input import as_lists
from trellis.hmm.baum_welch import BaumWelch, m_step
from trellis.hmm.e_step import count_known_states
from trellis.hmm.em_starts import starting_points
from trellis.hmm.emissions import Emission
from trellis.hmm.emissions.emission_checks import check_distributions, check_order
from trellis.hmm.hmm_inference import HMMInference
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.observations import Observations
from trellis.hmm.online_em import OnlineState, online_step
from trellis.hmm.shards.sharded_observations import ShardedObservations
from trellis.hmm.transition_constraints import PARTS, TransitionConstraints, check_probabilities
from trellis.objectives.records import Objective
from trellis.solvers.run import Solver
from trellis.training import declarations as declared
from trellis.training.checkpoints import Checkpoints, open_checkpoints
from trellis.training.options import draw_seed
from trellis.training.restarts import run_em


class HMM(HMMInference):
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

    emission: Emission = parameter(
        doc="What a state emits, an object of ``emissions``; parameters that it has already are where EM "
        "starts.",
        kw_only=False,
    )
    initial: ArrayLike | None = parameter(
        default=None, doc="Probabilities (K,) of the first state where EM starts. Zeros stay zero."
    )
    transitions: ArrayLike | None = parameter(
        default=None,
        doc="Probabilities (K, K) where EM starts. Zeros stay zero, which is how a topology is fixed "
        "(:func:`~trellis.hmm.left_right`).",
    )
    tied_transitions: Any = parameter(
        default=None, doc="A group for each state; states of one group share one row of transitions."
    )
    initial_pseudocount: ArrayLike = parameter(
        default=0.0,
        doc="A number or an array, added to the counts of first states: MAP under a Dirichlet(1 + "
        "pseudo-count) prior.",
    )
    transition_pseudocount: ArrayLike = parameter(
        default=0.0, doc="A number or an array, added to the counts of transitions."
    )
    learn: Any = parameter(
        default="all",
        doc='"all", or the names out of "initial", "transitions" and "emission" that ``fit`` may change. The '
        "rest stays as given, or as the start sets it from the data, and has no prior.",
    )
    max_iter: int = parameter(default=200, doc="EM iterations at most.", constraint=integer(1))
    tol: float = parameter(
        default=1e-6,
        doc="EM stops when an iteration raises the objective by at most this much per time step.",
        constraint=number(0.0),
    )
    n_init: int = parameter(
        default=1,
        doc="The number of starts, of which the best result is kept. A model that is given in full starts "
        "once.",
        constraint=integer(1),
    )
    start: str = parameter(
        default="auto",
        doc='Where EM starts: "auto" is k-means first, then random.',
        constraint=choice("auto", "kmeans", "random"),
    )
    step_power: float = parameter(
        default=0.7,
        doc="How fast ``partial_fit`` forgets, between 0.5 (fast) and 1; see :mod:`trellis.hmm.online_em`.",
        constraint=number(0.5, 1.0, above=True),
    )
    n_jobs: int | None = parameter(default=declared.N_JOBS)
    random_state: Any = parameter(default=declared.RANDOM_STATE)
    verbose: bool | None = parameter(default=declared.VERBOSE)
    backend: Any = parameter(default=declared.BACKEND)
    max_memory: int | str | None = parameter(default=declared.MAX_MEMORY)
    checkpoint: Any = parameter(default=declared.CHECKPOINT)

    initial_: FloatArray = fitted("Probabilities (K,) of the first state.")
    transitions_: FloatArray = fitted("Transition probabilities (K, K), from row to column.")
    emission_: Emission = fitted("The emission with its parameters.")
    status_: Status = fitted("Why learning stopped, in a sentence.")
    history_: dict[str, list[float]] = fitted(
        '"primal" (minus the objective) and "log_likelihood" before the first iteration and after each; '
        '"dual" (minus the evidence lower bound) and "seconds" of each. Neither primal nor dual ever rises.'
    )
    n_iter_: int = fitted("The number of iterations.")
    objectives_: list[float] = fitted("The objective that each start reached.")
    online_: OnlineState | None = fitted("What ``partial_fit`` goes on from.")

    # -- learning ---------------------------------------------------------------------------------------

    def fit(self, X: Any, states: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """Learn from observations ``X`` and, as far as they are known, their ``states``.

        ``X``: a list of arrays (length, ...), or one array, with ``lengths`` if it holds several sequences;
        NaN is missing. ``states``: None (EM), whole numbers for every step (counting, in closed form), or a
        mixture: None for a sequence and -1 for a step whose state is not known.

        ``X`` may also be files: a folder, a pattern such as ``"data/*.npz"``, a path, or a
        :class:`~trellis.ShardFiles`; labels in them are states. Files, and data with a ``backend``, are read
        in shards, and only sums of statistics leave these (:mod:`trellis.hmm.shards.sharded_observations`).
        """
        observations, constraints = self._sharded_data(X, states, lengths)
        checkpoints = open_checkpoints(self, {} if self.checkpoint is None else observations.identity())
        seed = checkpoints.seed(self.random_state)
        if observations.all_known:
            return self._count(observations, constraints, seed, checkpoints)
        n_init = 1 if self._given() is not None else self.n_init
        starts = self._starts(observations, constraints, n_init, seed)
        return self._run_em(observations, constraints, starts, n_init, checkpoints)

    def partial_fit(self, X: Any, states: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """Online EM: one step from a batch of sequences, see :mod:`trellis.hmm.online_em`.

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
        status = Status(False, "online EM has no last batch; go on, or call fit", online.n_batches)
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
        sequences of that many steps. See :mod:`trellis.hmm.discriminative`; ``status_`` and
        ``history_`` are the solver's.
        """
        from trellis.hmm.discriminative import train_discriminatively

        X, states = as_lists(X), as_lists(states)  # they are read twice
        observations, constraints = self._training_data(X, states, lengths)
        if constraints.learn != frozenset(PARTS):
            raise UnsupportedError(
                "discriminative training moves all parameters, so it cannot keep some out of learn; use fit, "
                'or learn="all"'
            )
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

    def _constraints(self) -> TransitionConstraints:
        """What the parameters say about transitions, checked."""
        return TransitionConstraints.from_options(
            self.n_states,
            self.initial,
            self.transitions,
            self.tied_transitions,
            self.initial_pseudocount,
            self.transition_pseudocount,
            self.learn,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.emission, Emission):
            raise DataError(f"emission is {self.emission!r}; give an object of trellis.hmm.emissions")

    def _run_em(
        self,
        observations: Observations | ShardedObservations,
        constraints: TransitionConstraints,
        starts: Iterable[HMMParameters],
        n_starts: int,
        checkpoints: Checkpoints,
    ) -> Self:
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
        return self._finished(solution.interrupted)

    def _count(
        self,
        observations: Observations | ShardedObservations,
        constraints: TransitionConstraints,
        seed: int,
        checkpoints: Checkpoints,
    ) -> Self:
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
        return self

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
        self.objectives_, self.online_ = objectives or [], None

    # -- the model --------------------------------------------------------------------------------------

    def parameters(self) -> HMMParameters:
        """The fitted model, or the given one, as one record."""
        if hasattr(self, "initial_"):
            self._check_unchanged("n_states", len(self.initial_))
            return HMMParameters(self.initial_, self.transitions_, self.emission_)
        given = self._given()
        if given is None:
            raise not_fitted(
                "this HMM is not fitted; call fit, or give initial, transitions and an emission with its "
                "parameters"
            )
        return given

    def _given(self) -> HMMParameters | None:
        """The model as the user gave it, if it is complete."""
        self._check_parameters()
        if self.initial is None or self.transitions is None or self.emission.n_states is None:
            return None
        k = self.n_states
        if self.emission.n_states != k:
            raise DataError(
                f"the emission has parameters for {self.emission.n_states} states, but n_states is {k}; they "
                "must be equal"
            )
        return HMMParameters(
            check_probabilities("initial", self.initial, (k,)),
            check_probabilities("transitions", self.transitions, (k, k)),
            self.emission,
        )

    @property
    def n_parameters(self) -> int:
        """Free parameters among those that are learned: of the chain within its constraints, and of the
        emission."""
        constraints = TransitionConstraints.from_options(
            self.n_states, self.initial, self.transitions, self.tied_transitions, learn=self.learn
        )
        emission = self.parameters().emission.n_parameters if "emission" in constraints.learn else 0
        return constraints.n_parameters + emission

    def aic(self, X: Any, *, lengths: ArrayLike | None = None) -> float:
        """2 n_parameters - 2 log p(X); smaller is better."""
        return 2.0 * self.n_parameters - 2.0 * float(self.log_likelihood(X, lengths=lengths).sum())

    def bic(self, X: Any, *, lengths: ArrayLike | None = None) -> float:
        """n_parameters log(number of steps) - 2 log p(X); smaller is better."""
        parameters, observations = self._read(X, lengths)
        value = self._log_likelihood(parameters, observations).sum()
        return float(self.n_parameters * np.log(max(observations.n_steps, 1)) - 2.0 * value)

    def permute(self, order: ArrayLike) -> HMM:
        """The same model with its states renumbered: state k of the result is state ``order[k]``.

        So are the parameters with a value for each state, and the means of online EM: a fit of the result is
        the fit of this model, renumbered.
        """
        order = check_order(order, self.n_states)
        before = self.parameters()
        after = before.permute(order)
        result = copy.copy(self)
        for name in ("initial", "transitions", "initial_pseudocount", "transition_pseudocount"):
            setattr(result, name, _permute_axes(name, getattr(self, name), order))
        if self.tied_transitions is not None:
            tied = list(self.tied_transitions)
            result.tied_transitions = [tied[k] for k in order]
        if self.emission.given_states is not None:
            result.emission = self.emission.permute(order)
        result.initial_, result.transitions_ = after.initial, after.transitions
        result.emission_ = after.emission
        online = getattr(self, "online_", None)
        result.online_ = None if online is None else online.permute(order, before.emission)
        return result

    # -- storage ----------------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        self.parameters()  # given ones are as good as fitted ones

    def _check_loaded(self) -> None:
        check_size("n_states", self.n_states)
        self._constraints()
        k = self.parameters().n_states
        if not hasattr(self, "initial_"):
            return
        for name, shape in (("initial_", (k,)), ("transitions_", (k, k))):
            check_array(name, getattr(self, name), shape)
            check_distributions(name, getattr(self, name))
        if not isinstance(self.emission_, Emission) or self.emission_.n_states != k:
            raise ModelFileError(f"its emission does not have {k} states")
        if self.online_ is not None:
            check_array("start", self.online_.start, (k,))
            check_array("pairs", self.online_.pairs, (k, k))


def _permute_axes(name: str, value: Any, order: IntArray) -> Any:
    """Every axis of an array in another order; a number, or None, has none."""
    if value is None or np.ndim(value) == 0:
        return value
    array = as_floats(name, value)
    if set(array.shape) != {len(order)}:
        raise DataError(f"{name} has shape {array.shape}, which does not fit {len(order)} states")
    return array[np.ix_(*[order] * array.ndim)]
