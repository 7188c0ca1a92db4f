"""Networks and factor graphs as JSON values and arrays, and back. What is read is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.model.factor_graph import FactorGraph
from trellis.bayesnet.model.network import BayesianNetwork
from trellis.bayesnet.model.variables import Variables

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def network_to_state(network: BayesianNetwork) -> State:
    """Names in the description, all tables one after the other in one array."""
    meta = {
        "names": list(network.names),
        "states": [list(values) for values in network.states],
        "parents": [list(network.parents(i)) for i in range(len(network.names))],
    }
    return meta, {"tables": _flat(network.tables)}


def network_from_state(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> BayesianNetwork:
    variables = Variables(meta["names"], meta["states"])
    parents = [tuple(_number(p, len(variables)) for p in above) for above in meta["parents"]]
    shapes = [[len(variables.states[v]) for v in (*above, i)] for i, above in enumerate(parents)]
    return BayesianNetwork.assemble(variables, parents, _cut(arrays["tables"], shapes))


def graph_to_state(graph: FactorGraph) -> State:
    factors = graph.factors()
    meta = {
        "names": list(graph.names),
        "states": [list(values) for values in graph.states],
        "scopes": [list(factor.variables) for factor in factors],
    }
    return meta, {"values": _flat([factor.values for factor in factors])}


def graph_from_state(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FactorGraph:
    names, states = meta["names"], meta["states"]
    scopes = [tuple(_number(v, len(names)) for v in scope) for scope in meta["scopes"]]
    values = _cut(arrays["values"], [[len(states[v]) for v in scope] for scope in scopes])
    return FactorGraph([len(s) for s in states], zip(scopes, values, strict=True), names, states)


def _flat(tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *(np.ravel(table) for table in tables)])


def _cut(flat: NDArray[Any], shapes: Sequence[Sequence[int]]) -> list[NDArray[Any]]:
    """The tables of these shapes, which must use up the array."""
    ends = np.cumsum([0, *(int(np.prod(shape, dtype=np.int64)) for shape in shapes)])
    if flat.shape != (ends[-1],):
        raise ValueError(f"its tables have {flat.size} numbers and need {ends[-1]}")
    return [
        flat[start:end].reshape(shape) for start, end, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
    ]


def _number(value: Any, below: int) -> int:
    if not isinstance(value, int) or not 0 <= value < below:
        raise ValueError(f"{value!r} is not the number of a variable")
    return value
