"""``HMMDescription``: a hidden Markov model as it is described, by options and by what learning found.

The model is what ``fit`` has left, or what the user gave, if that is complete.
"""

from __future__ import annotations

import copy
from difflib import get_close_matches
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import as_floats
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, ModelFileError
from trellis.core.estimator import not_fitted
from trellis.core.file_checks import check_array, check_size
from trellis.core.parameters import choice, fitted, integer, number, parameter
from trellis.core.status import Status
from trellis.hmm.emissions import Emission
from trellis.hmm.emissions.emission_checks import check_distributions, check_order
from trellis.hmm.hmm_inference import HMMInference
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.learning.online_em import OnlineState
from trellis.hmm.transition_constraints import TransitionConstraints, check_probabilities
from trellis.training import declarations as declared

_EMISSIONS = {
    "gaussian": "Gaussian()",
    "normal": "Gaussian()",
    "gaussianmixture": "GaussianMixture(n_components)",
    "gmm": "GaussianMixture(n_components)",
    "categorical": "Categorical(n_symbols)",
    "discrete": "Categorical(n_symbols)",
    "multinomial": "Multinomial(n_symbols)",
    "poisson": "Poisson()",
}


class HMMDescription(HMMInference):
    """The options of :class:`~trellis.HMM` and the model that they, or ``fit``, describe."""

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
        doc="How fast ``partial_fit`` forgets, between 0.5 (fast) and 1; see "
        ":mod:`trellis.hmm.learning.online_em`.",
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
            raise DataError(
                f"emission is {self.emission!r}; give an object of trellis.emissions, such as "
                f"{_emission_meant(self.emission)}"
            )

    @property
    def n_parameters(self) -> int:
        """Free parameters among those that are learned: of the chain within its constraints, and of the
        emission."""
        constraints = self._constraints()
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

    def permute(self, order: ArrayLike) -> Self:
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


def _emission_meant(given: Any) -> str:
    """The emission of this name, or of this class, as it is written."""
    name = given.__name__ if isinstance(given, type) else str(given)
    near = get_close_matches(name.replace("_", "").lower(), _EMISSIONS, 1)
    return f"emissions.{_EMISSIONS[near[0] if near else 'gaussian']}"
