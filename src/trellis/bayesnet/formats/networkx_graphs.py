"""Networks and factor graphs as networkx graphs, and back from them (extra ``graph``).

A network becomes a ``DiGraph`` whose nodes have the attributes ``states``, ``parents`` (in the order of the
axes of the table) and ``table``. A factor graph becomes a bipartite ``Graph`` of variables and of factors
``("factor", number)`` with ``values`` and ``variables``.
"""

from __future__ import annotations

from typing import Any

from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.factor_model import FactorModel
from trellis.core.errors import DataError, MissingExtraError


def network_to_networkx(network: DirectedModel) -> Any:
    """A ``DiGraph`` with everything that the network has."""
    graph = _networkx().DiGraph()
    for i, name in enumerate(network.names):
        graph.add_node(
            name,
            states=network.states[i],
            parents=tuple(network.parents(name)),
            table=network.tables[i],
        )
    graph.add_edges_from((parent, name) for name in network.names for parent in network.parents(name))
    return graph


def network_from_networkx(graph: Any) -> DirectedModel:
    """A network from a ``DiGraph``; where no node has a table, all tables are uniform.

    Nodes without ``states`` have the states "no" and "yes". ``parents`` only orders the axes of the table, as
    the order in which edges were added does where it is missing.
    """
    networkx = _networkx()
    if not isinstance(graph, networkx.DiGraph) or graph.is_multigraph():
        raise DataError("expected a networkx.DiGraph: directed edges, at most one between two nodes")
    states, parents, tables = {}, {}, {}
    for node, attributes in graph.nodes(data=True):
        name = str(node)
        if name in states:
            raise DataError(f"two nodes are written as {name!r}; give them different names")
        states[name] = attributes.get("states", ("no", "yes"))
        above = [str(parent) for parent in graph.predecessors(node)]
        parents[name] = [str(parent) for parent in attributes.get("parents", above)]
        if sorted(parents[name]) != sorted(above):
            raise DataError(
                f"the attribute 'parents' of {name!r} and the edges into it do not agree; correct one of them"
            )
        if "table" in attributes:
            tables[name] = attributes["table"]
    return DirectedModel(states, parents, tables or "uniform")


def graph_to_networkx(graph: FactorModel) -> Any:
    """The bipartite graph of variables and factors."""
    result = _networkx().Graph()
    for name, states in zip(graph.names, graph.states, strict=True):
        result.add_node(name, bipartite=0, states=states)
    for number, factor in enumerate(graph.factors()):
        scope = tuple(graph.names[v] for v in factor.variables)
        result.add_node(("factor", number), bipartite=1, variables=scope, values=factor.values)
        result.add_edges_from((("factor", number), name) for name in scope)
    return result


def graph_from_networkx(graph: Any) -> FactorModel:
    """A factor graph from what :func:`graph_to_networkx` makes: every node has ``states``, or ``variables``
    (the axes of its factor, which are its neighbours) and ``values``."""
    if not isinstance(graph, _networkx().Graph) or graph.is_directed():
        raise DataError("expected a networkx.Graph of variables and factors, without directions")
    states, factors = {}, []
    for node, attributes in graph.nodes(data=True):
        if "states" in attributes:
            states[str(node)] = tuple(attributes["states"])
        elif not {"variables", "values"} <= attributes.keys():
            raise DataError(
                f"the node {node!r} has neither 'states', as variables have, nor 'variables' and 'values'"
            )
        else:
            scope = [str(v) for v in attributes["variables"]]
            if sorted(scope) != sorted(str(v) for v in graph[node]):
                raise DataError(
                    f"the attribute 'variables' of {node!r} and its neighbours do not agree; correct one of "
                    "them"
                )
            factors.append((scope, attributes["values"]))
    sizes = [len(values) for values in states.values()]
    return FactorModel(sizes, factors, list(states), list(states.values()))


def _networkx() -> Any:
    try:
        import networkx
    except ImportError as error:
        raise MissingExtraError(
            "this needs networkx, which is not installed; run: pip install 'trellis-learn[graph]'"
        ) from error
    return networkx
