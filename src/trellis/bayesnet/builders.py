"""Ways to write a network: one variable at a time, or a well-known shape at once.

    naive Bayes                 P(c) prod_i P(x_i | c)
    full Bayes                  prod_i P(x_i | x_1, ..., x_{i-1}), which can be any distribution
    Markov chain of order k     prod_t P(x_t | x_{t-k}, ..., x_{t-1})
    hidden Markov model         P(y_1) P(x_1 | y_1) prod_{t>1} P(y_t | y_{t-1}) P(x_t | y_t)

Tables that are not given are uniform, as a start for learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from trellis.bayesnet.model.conditional_tables import TOLERANCE, Family
from trellis.bayesnet.model.variables import Variables, numbered_states
from trellis.bayesnet.models import BayesianNetwork
from trellis.core.arguments import check_choice, check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError

if TYPE_CHECKING:
    from trellis.hmm import HMM


class NetworkBuilder:
    """A network written one variable at a time; :meth:`build` checks it and gives the network.

    Examples
    --------
    >>> from trellis.bayesnet import NetworkBuilder
    >>> NetworkBuilder().variable("Rain", ["yes", "no"], [0.2, 0.8]).variable(
    ...     "Wet", ["yes", "no"], {"yes": [0.9, 0.1], "no": [0.1, 0.9]}, given="Rain"
    ... ).build()
    BayesianNetwork(2 variables, 1 edges, 3 free parameters)
    """

    def __init__(self) -> None:
        self._states: dict[str, Sequence[Any]] = {}
        self._parents: dict[str, Sequence[str]] = {}
        self._tables: dict[str, Any] = {}

    def variable(
        self, name: str, states: Sequence[Any], table: Any = None, *, given: str | Sequence[str] = ()
    ) -> Self:
        """Add a variable with its states and, if known already, its table and parents (``given``)."""
        if name in self._states:
            raise DataError(f"the variable {name!r} is defined twice; give each variable a name of its own")
        self._states[name] = states
        if table is not None or given:
            self.table(name, table, given=given)
        return self

    def table(self, name: str, table: Any, *, given: str | Sequence[str] = ()) -> Self:
        """Set P(name | given): an array, or rows by the states of the parents; the parents may come later."""
        self._parents[name] = [given] if isinstance(given, str) else list(given)
        if table is not None:
            self._tables[name] = table
        return self

    def build(self, *, missing: str = "error") -> BayesianNetwork:
        """The network. ``missing="uniform"`` makes the tables uniform that were not given."""
        check_choice("missing", missing, ("error", "uniform"))
        tables = dict(self._tables)
        if missing == "uniform":
            uniform = BayesianNetwork(self._states, self._parents)
            tables = {name: tables.get(name, uniform.table(name)) for name in uniform.names} | tables
        return BayesianNetwork(self._states, self._parents, tables)


def naive_bayes(
    target: str,
    classes: Sequence[Any],
    features: Mapping[str, Sequence[Any]],
    *,
    prior: ArrayLike | None = None,
    tables: Mapping[str, Any] | None = None,
) -> BayesianNetwork:
    """The class ``target`` is the parent of every feature. ``tables`` are by feature: rows by class.

    Examples
    --------
    >>> from trellis.bayesnet import naive_bayes
    >>> words = {"offer": ["yes", "no"]}
    >>> tables = {"offer": [[0.6, 0.4], [0.1, 0.9]]}
    >>> spam = naive_bayes("Spam", ["spam", "ham"], words, prior=[0.5, 0.5], tables=tables)
    >>> round(spam.query("Spam", {"offer": "yes"})["spam"], 4)
    0.8571
    """
    network = NetworkBuilder().variable(target, classes, prior)
    given = tables or {}
    if not isinstance(features, Mapping):
        raise DataError(
            "features must be a dictionary from features to their states, as in {'offer': ['yes', 'no']}, "
            f"got {type(features).__name__}"
        )
    for name in given:
        if name not in features:
            raise DataError(f"there is a table for {name!r}, which is not one of the features")
    for name, states in features.items():
        network.variable(name, states, given.get(name), given=target)
    return network.build(missing="uniform")


def full_bayes(states: Mapping[str, Sequence[Any]], joint: ArrayLike | None = None) -> BayesianNetwork:
    """Every variable has all earlier ones as parents. ``joint``: the distribution, one axis per variable.

    Examples
    --------
    >>> from trellis.bayesnet import full_bayes
    >>> full_bayes({"A": [0, 1], "B": [0, 1], "C": [0, 1]}).factorisation
    'P(A) P(B | A) P(C | A, B)'
    """
    variables = Variables(list(states), list(states.values()))
    parents = [range(i) for i in range(len(variables))]
    last = len(variables) - 1
    shape = Family(variables, last, parents[last]).shape if len(variables) else ()
    if joint is None:
        table = np.full(shape, 1.0 / np.prod(shape))
    else:
        table = _distribution("joint", joint, shape)
    return BayesianNetwork.assemble(variables, parents, _chain_rule(table))


def markov_chain(
    states: Sequence[Any],
    length: int,
    order: int = 1,
    *,
    transitions: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    name: str = "x",
) -> BayesianNetwork:
    """``x1`` to ``x<length>``, each with the ``order`` variables before it as parents.

    ``transitions``: P(x_t | x_{t-order}, ..., x_{t-1}), one axis for each of these and the last for x_t.
    ``initial``: the joint distribution of the first ``order`` variables, one axis for each.

    Examples
    --------
    >>> from trellis.bayesnet import markov_chain
    >>> weather = markov_chain(["sun", "rain"], 3, transitions=[[0.8, 0.2], [0.4, 0.6]], initial=[1.0, 0.0])
    >>> round(weather.query("x3")["sun"], 4)
    0.72
    """
    k = check_int("order", order, 0)
    steps = check_int("length", length, max(k, 1))
    variables = Variables([f"{name}{t + 1}" for t in range(steps)], [states] * steps)
    size = len(states)
    parents = [range(max(0, t - k), t) for t in range(steps)]
    widest = min(k, steps - 1)
    shape = Family(variables, widest, parents[widest]).shape
    rows = np.full(shape, 1.0 / size) if transitions is None else transitions
    if initial is None:
        first = np.full((size,) * k, float(size) ** -k)
    else:
        first = _distribution("initial", initial, (size,) * k)
    starts = _chain_rule(first)
    return BayesianNetwork.assemble(variables, parents, [starts[t] if t < k else rows for t in range(steps)])


def from_hmm(
    hmm: HMM,
    length: int,
    *,
    states: Sequence[Any] | None = None,
    symbols: Sequence[Any] | None = None,
) -> BayesianNetwork:
    """``length`` steps of a hidden Markov model over symbols: ``y1``, ``x1``, ``y2``, ``x2``, ...

    ``y`` are the hidden states and ``x`` the symbols; their states are numbers unless names are given.

    Examples
    --------
    >>> from trellis import HMM, emissions
    >>> from trellis.bayesnet import from_hmm
    >>> coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    >>> hmm = HMM(2, coins, initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    >>> from_hmm(hmm, 2).factorisation
    'P(y1) P(x1 | y1) P(y2 | y1) P(x2 | y2)'
    """
    from trellis.hmm.emissions import Categorical

    parameters = hmm.parameters()
    emission = parameters.emission
    if not isinstance(emission, Categorical) or emission.probabilities is None:
        raise UnsupportedError(
            "a network has discrete variables, and the emissions of this model are "
            f"{type(emission).__name__}; use "
            "emissions.Categorical, or ask the HMM itself (smooth, decode, ...)"
        )
    n_states, n_symbols = emission.probabilities.shape
    steps = check_int("length", length, 1)
    hidden = numbered_states(n_states) if states is None else tuple(states)
    visible = numbered_states(n_symbols) if symbols is None else tuple(symbols)
    names, values, parents, tables = [], [], [], []
    for t in range(steps):
        names += [f"y{t + 1}", f"x{t + 1}"]
        values += [hidden, visible]
        parents += [[2 * t - 2] if t else [], [2 * t]]
        tables += [parameters.transitions if t else parameters.initial, emission.probabilities]
    return BayesianNetwork.assemble(Variables(names, values), parents, tables)


def _chain_rule(joint: FloatArray) -> list[FloatArray]:
    """P(x_i | x_1, ..., x_{i-1}) for each axis of a joint distribution; uniform where the condition has
    probability 0, since no answer depends on it."""
    tables = []
    for i in range(joint.ndim):
        together = joint.sum(axis=tuple(range(i + 1, joint.ndim)))
        before = together.sum(axis=-1, keepdims=True)
        uniform = np.full_like(together, 1.0 / together.shape[-1])
        tables.append(np.divide(together, before, out=uniform, where=before > 0))
    return tables


def _distribution(name: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not an array of numbers ({error})") from None
    if array.shape != shape:
        raise DataError(f"{name} has shape {array.shape} and needs {shape}")
    if not (array >= 0).all() or not abs(array.sum() - 1.0) <= TOLERANCE:
        raise DataError(f"{name} must not be negative and must sum to 1; its sum is {array.sum():.9g}")
    return array
