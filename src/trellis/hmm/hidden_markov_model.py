"""``HMM``: a hidden Markov model for known, unknown and partly known states.

    p(x, y) = initial[y_1] p(x_1 | y_1) prod_{t>1} transitions[y_{t-1}, y_t] p(x_t | y_t)

Unknown states are summed over, known ones are counted, and one EM serves any mixture of both.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.estimator import Model
from trellis.core.status import Status
from trellis.data.sequences import offsets_from_lengths
from trellis.hmm import hmm_inference as inference
from trellis.hmm.baum_welch import BaumWelch, m_step
from trellis.hmm.em_starts import starting_points
from trellis.hmm.emissions import Emission
from trellis.hmm.emissions.emission_checks import check_order
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.hmm_state import hmm_from_state, hmm_to_state
from trellis.hmm.known_states import count_known_states
from trellis.hmm.observations import Observations
from trellis.hmm.online_em import OnlineState, online_step
from trellis.hmm.streaming_filter import StreamingFilter
from trellis.hmm.transition_constraints import TransitionConstraints, check_probabilities
from trellis.objectives.records import Objective
from trellis.solvers.run import Solver
from trellis.training.options import draw_seed
from trellis.training.restarts import run_em


class HMM(Model):
    """A hidden Markov model.

    Parameters
    ----------
    n_states : the number K of hidden states.
    emission : what a state emits, an object of ``emissions``; parameters that it has already are
        where EM starts.
    initial, transitions : probabilities (K,) and (K, K) where EM starts. Zeros in them stay zero, which is
    how
        a topology is fixed (:func:`~trellis.hmm.left_right`).
    tied_transitions : a group for each state; states of one group share one row of transitions.
    initial_pseudocount, transition_pseudocount : numbers or arrays, added to the counts (MAP under
        Dirichlet(1 + pseudo-count) priors).
    max_iter, tol : EM stops after ``max_iter`` iterations, or when one raises the objective by at most
    ``tol`` per
        time step. The objective is the log-likelihood plus the log prior.
    n_init : the number of starts; the best result is kept. A model that is given whole starts once.
    start : "auto" (k-means first, then random), "kmeans" or "random".
    step_power : how fast ``partial_fit`` forgets, between 0.5 (fast) and 1; see
        :mod:`trellis.hmm.online_em`.
    n_jobs : threads; None is 1, -1 all cores. Results agree to rounding for any number.
    random_state : the seed of everything that is random.
    verbose : progress bar; None shows it on a terminal.

    A model whose ``initial``, ``transitions`` and emission are all given answers questions without ``fit``.

    Attributes
    ----------
    initial_, transitions_, emission_ : the fitted model.
    status_ : why learning stopped, in a sentence. n_iter_ : the number of iterations.
    history_ : "primal" (minus the objective) and "log_likelihood" before the first iteration and after each;
        "dual" (minus the evidence lower bound) and "seconds" of each. Neither primal nor dual ever rises.
    objectives_ : the objective that each start reached.
    """

    objectives_: list[float]
    online_: OnlineState | None  # what partial_fit goes on from

    def __init__(
        self,
        n_states: int,
        emission: Emission,
        *,
        initial: ArrayLike | None = None,
        transitions: ArrayLike | None = None,
        tied_transitions: Any = None,
        initial_pseudocount: ArrayLike = 0.0,
        transition_pseudocount: ArrayLike = 0.0,
        max_iter: int = 200,
        tol: float = 1e-6,
        n_init: int = 1,
        start: str = "auto",
        step_power: float = 0.7,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.n_states = n_states
        self.emission = emission
        self.initial = initial
        self.transitions = transitions
        self.tied_transitions = tied_transitions
        self.initial_pseudocount = initial_pseudocount
        self.transition_pseudocount = transition_pseudocount
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.start = start
        self.step_power = step_power
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- learning ---------------------------------------------------------------------------------------

    def fit(self, X: Any, states: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """Learn from observations ``X`` and, as far as they are known, their ``states``.

        ``X``: a list of arrays (length, ...), or one array, with ``lengths`` if it holds several sequences;
        NaN is missing. ``states``: None (EM), whole numbers for every step (counting, in closed form), or a
        mixture: None for a sequence and -1 for a step whose state is not known.
        """
        self._check_options()
        observations = self._learnable(X, states, lengths)
        constraints = self._constraints()
        known = observations.known
        if known is not None and (known >= 0).all():
            return self._count(observations, constraints)
        n_init = 1 if self._given() is not None else self.n_init
        return self._run_em(
            observations, constraints, self._starts(observations, constraints, n_init), n_init
        )

    def partial_fit(self, X: Any, states: Any = None, *, lengths: ArrayLike | None = None) -> Self:
        """Online EM: one step from a batch of sequences, see :mod:`trellis.hmm.online_em`.

        The first call chooses a start from its batch, unless the model is fitted or given already.
        """
        self._check_options()
        observations = self._learnable(X, states, lengths)
        constraints = self._constraints()
        if hasattr(self, "initial_"):
            before = self.parameters()
        else:
            before = next(self._starts(observations, constraints, 1))
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
        the best states, with any objective of chains, and come back to probabilities.

        ``objective``, ``loss``, ``solver``, ``l2``, ``max_iter``, ``tol`` and ``holdout`` are those of
        :class:`~trellis.SequenceLabeler`; ``l2`` pulls the states towards each other. Fixed zeros stay zero,
        priors concern the start only. ``length``: None for the transitions of long sequences, a number for
        sequences of that many steps. See :mod:`trellis.hmm.discriminative`; ``status_`` and
        ``history_`` are the solver's.
        """
        from trellis.hmm.discriminative import train_discriminatively

        source = copy.copy(self).fit(X, states, lengths=lengths)
        chain = train_discriminatively(
            source.parameters(),
            self._constraints(),
            self._learnable(X, states, lengths),
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
        )
        self._keep(chain.to_parameters(length), chain.status_, chain.history_)
        self.objectives_ = []
        return self

    def _run_em(
        self, observations: Observations, constraints: TransitionConstraints, starts: Any, n_starts: int
    ) -> Self:
        solution, reached = run_em(
            BaumWelch(observations, constraints, self._threads()),
            starts,
            n_starts=n_starts,
            max_iter=self.max_iter,
            tol=self.tol * observations.n_steps,
            verbose=self.verbose,
        )
        self._keep(solution.point, solution.status, solution.history)
        self.objectives_ = [-primal for primal in reached]
        return self

    def _count(self, observations: Observations, constraints: TransitionConstraints) -> Self:
        began = time.perf_counter()
        before = next(self._starts(observations, constraints, 1))
        statistics = count_known_states(before, observations, np.asarray(observations.known), constraints)
        after = m_step(statistics, constraints)
        if "entropy" in statistics.emission and statistics.emission["entropy"].any():
            # the emission hides something of its own: EM goes on for it
            return self._run_em(observations, constraints, [after], 1)
        value = statistics.expected_log_likelihood(after)
        primal = BaumWelch(observations, constraints).g(after) - value
        seconds = time.perf_counter() - began
        history = {"primal": [primal], "dual": [], "log_likelihood": [value], "seconds": [seconds]}
        self._keep(after, Status(True, "all states are known, so they were counted", 1), history)
        self.objectives_ = [-primal]
        return self

    def _starts(
        self, observations: Observations, constraints: TransitionConstraints, n_init: int
    ) -> Iterator[HMMParameters]:
        return starting_points(
            observations,
            constraints,
            self.emission,
            start=self.start,
            n_init=n_init,
            seed=draw_seed(self.random_state),
        )

    def _keep(self, parameters: HMMParameters, status: Status, history: dict[str, list[float]]) -> None:
        self.initial_, self.transitions_ = parameters.initial, parameters.transitions
        self.emission_ = parameters.emission
        self.status_, self.n_iter_, self.history_ = status, status.n_iter, history
        self.online_ = None

    def _learnable(self, X: Any, states: Any, lengths: ArrayLike | None) -> Observations:
        observations = Observations.pack(X, lengths, check=self.emission.check)
        observations = observations.with_states(states, self.n_states)
        if observations.n_steps == 0:
            raise DataError("the sequences have no steps at all; there is nothing to learn from")
        return observations

    def _constraints(self) -> TransitionConstraints:
        return TransitionConstraints.from_options(
            self.n_states,
            self.initial,
            self.transitions,
            self.tied_transitions,
            self.initial_pseudocount,
            self.transition_pseudocount,
        )

    def _given(self) -> HMMParameters | None:
        """The model as the user gave it, if it is complete."""
        if self.initial is None or self.transitions is None or self.emission.n_states is None:
            return None
        if self.emission.n_states != self.n_states:
            raise DataError(
                f"the emission has parameters for {self.emission.n_states} states, but n_states is "
                f"{self.n_states}; they must be equal"
            )
        k = self.n_states
        return HMMParameters(
            check_probabilities("initial", self.initial, (k,)),
            check_probabilities("transitions", self.transitions, (k, k)),
            self.emission,
        )

    def _check_options(self) -> None:
        for name in ("n_states", "max_iter", "n_init"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise UnsupportedError(f"{name}={value!r} must be a whole number of at least 1")
        if not isinstance(self.emission, Emission):
            raise UnsupportedError(f"emission={self.emission!r}: give an object of trellis.hmm.emissions")
        if not isinstance(self.tol, int | float | np.number) or not 0 <= float(self.tol) < np.inf:
            raise UnsupportedError(f"tol={self.tol!r} must be a finite number that is not negative")
        if self.start not in ("auto", "kmeans", "random"):
            raise UnsupportedError(f"start={self.start!r}: give 'auto', 'kmeans' or 'random'")
        if not 0.5 < self.step_power <= 1.0:
            raise UnsupportedError(f"step_power={self.step_power!r} must be above 0.5 and at most 1")

    # -- questions --------------------------------------------------------------------------------------

    def parameters(self) -> HMMParameters:
        """The fitted model, or the given one, as one record."""
        if hasattr(self, "initial_"):
            if len(self.initial_) != self.n_states:
                raise UnsupportedError(
                    f"n_states is {self.n_states}, but this HMM was fitted with {len(self.initial_)} states; "
                    "set it back, or fit again"
                )
            return HMMParameters(self.initial_, self.transitions_, self.emission_)
        given = self._given()
        if given is None:
            raise NotFittedError(
                "this HMM is not fitted; call fit, or give initial, transitions and an emission with its "
                "parameters"
            )
        return given

    def _read(self, X: Any, lengths: ArrayLike | None) -> tuple[HMMParameters, Observations]:
        parameters = self.parameters()
        return parameters, Observations.pack(X, lengths, check=parameters.emission.check)

    def filter(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """p(y_t | x_1..x_t): (length, K) for each sequence."""
        parameters, observations = self._read(X, lengths)
        probabilities, _ = inference.posteriors(parameters, observations, self._threads(), smooth=False)
        return observations.unpack(probabilities)

    def smooth(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """p(y_t | x_1..x_T): (length, K) for each sequence."""
        parameters, observations = self._read(X, lengths)
        probabilities, _ = inference.posteriors(parameters, observations, self._threads(), smooth=True)
        return observations.unpack(probabilities)

    def predict_next(self, X: Any, steps: int = 1, *, lengths: ArrayLike | None = None) -> Any:
        """p(y_{T+h} | x_1..x_T) for h = 1..steps: (steps, K) for each sequence."""
        parameters, observations = self._read(X, lengths)
        ahead = inference.forecast(parameters, observations, check_int("steps", steps, 1), self._threads())
        return observations.unpack_each(ahead)

    def decode(self, X: Any, method: str = "viterbi", *, lengths: ArrayLike | None = None) -> Any:
        """States of each sequence: the most probable sequence ("viterbi"), or the most probable state of each
        step ("max_marginal"), which has the fewest expected errors and may be impossible as a whole.
        """
        if method not in ("viterbi", "max_marginal"):
            raise UnsupportedError(f"method={method!r}: give 'viterbi' or 'max_marginal'")
        parameters, observations = self._read(X, lengths)
        if method == "viterbi":
            states, _ = inference.decode(parameters, observations, self._threads())
        else:
            smoothed, _ = inference.posteriors(parameters, observations, self._threads(), smooth=True)
            states = smoothed.argmax(axis=1).astype(np.int32)
        return observations.unpack(states)

    def predict(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """The same as :meth:`decode`."""
        return self.decode(X, lengths=lengths)

    def decode_k_best(self, X: Any, k: int, *, lengths: ArrayLike | None = None) -> Any:
        """For each sequence its k most probable state sequences with log p(x, y), best first (fewer where
        fewer are possible); for one array without ``lengths`` that list alone.
        """
        parameters, observations = self._read(X, lengths)
        k = check_int("k", k, 1)
        states, scores = inference.decode_k_best(parameters, observations, k, self._threads())
        found = [
            [(ranked[r], float(own[r])) for r in range(k) if own[r] > -np.inf]
            for ranked, own in zip(np.split(states, observations.offsets[1:-1], axis=1), scores, strict=True)
        ]
        return observations.unpack_each(found)

    def log_likelihood(self, X: Any, *, lengths: ArrayLike | None = None) -> FloatArray:
        """log p(x) of each sequence, (n_sequences,); -inf where it is impossible under the model."""
        parameters, observations = self._read(X, lengths)
        return inference.log_likelihood(parameters, observations, self._threads())

    def log_joint(self, X: Any, states: Any, *, lengths: ArrayLike | None = None) -> FloatArray:
        """log p(x, y) of each sequence with the given states, (n_sequences,); -inf where it is impossible."""
        parameters, observations = self._read(X, lengths)
        given = observations.with_states(states, self.n_states).known
        if given is None:
            given = np.full(observations.n_steps, -1)
        return inference.log_joint(parameters, observations, given)

    def score(self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None) -> float:
        """The mean log-likelihood of a step, log p(X) / number of steps (``y``, which scikit-learn passes,
        is not used).

        A mean does not grow with the data, so that training, test and cross-validation scores can be
        compared; the total is ``log_likelihood(X).sum()``.
        """
        parameters, observations = self._read(X, lengths)
        return observations.mean_per_step(inference.log_likelihood(parameters, observations, self._threads()))

    def sample(self, lengths: Any, *, random_state: Any = None) -> tuple[Any, Any]:
        """Observations and states: of one sequence for a number, of several for a list of lengths."""
        one = isinstance(lengths, Integral)
        offsets = offsets_from_lengths([lengths] if one else lengths)
        seed = self.random_state if random_state is None else random_state
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(draw_seed(seed))
        values, states = inference.sample(self.parameters(), offsets, rng)
        if one:
            return values, states
        if len(offsets) == 1:  # np.split would make one piece of nothing
            return [], []
        return np.split(values, offsets[1:-1]), np.split(states, offsets[1:-1])

    def stationary(self) -> FloatArray:
        """The distribution p = p A over states; an error where there is more than one."""
        return inference.stationary(self.parameters().transitions)

    def streaming_filter(self) -> StreamingFilter:
        """A filter that takes one observation at a time."""
        return StreamingFilter(self.parameters())

    @property
    def n_parameters(self) -> int:
        """Free parameters: of the chain within its constraints, and of the emission."""
        return self._constraints().n_parameters + self.parameters().emission.n_parameters

    def aic(self, X: Any, *, lengths: ArrayLike | None = None) -> float:
        """2 n_parameters - 2 log p(X); smaller is better."""
        return 2.0 * self.n_parameters - 2.0 * float(self.log_likelihood(X, lengths=lengths).sum())

    def bic(self, X: Any, *, lengths: ArrayLike | None = None) -> float:
        """n_parameters log(number of steps) - 2 log p(X); smaller is better."""
        parameters, observations = self._read(X, lengths)
        value = inference.log_likelihood(parameters, observations, self._threads()).sum()
        return float(self.n_parameters * np.log(max(observations.n_steps, 1)) - 2.0 * value)

    def permute(self, order: ArrayLike) -> HMM:
        """The same fitted model with its states renumbered: state k of the result is state ``order[k]``."""
        permuted = self.parameters().permute(check_order(order, self.n_states))
        result = copy.copy(self)
        result.initial_, result.transitions_ = permuted.initial, permuted.transitions
        result.emission_ = permuted.emission
        result.online_ = None
        return result

    # -- storage ----------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The model as JSON values and arrays."""
        return hmm_to_state(self)

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> HMM:
        """The model that :meth:`to_state` described."""
        return hmm_from_state(cls, meta, arrays)
