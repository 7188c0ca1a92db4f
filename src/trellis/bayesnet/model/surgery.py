"""Networks made from others by taking away variables or arrows, or by changing names.

Intervention (Pearl 2009, 1.3): setting X to x by force removes what else decides it,

    p(v | do(X = x)) = 1[v_X = x] prod_{i != X} P(v_i | parents of i),

so that the arrows into X go and its table is 1 at x. Asking the new network is asking for effects.

The variables of an ancestral set have all their parents in it. Summing out the others, children first, leaves

    p(v) = prod_{i in the set} P(v_i | parents of i).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trellis.bayesnet.model.directed_graph import closure
from trellis.bayesnet.model.network import BayesianNetwork
from trellis.bayesnet.model.variables import Variables

Names = str | Iterable[str]


def ancestors(network: BayesianNetwork, names: Names) -> list[str]:
    start = network.variables.indices(names)
    return [network.names[i] for i in sorted(closure(start, network.parents).difference(start))]


def descendants(network: BayesianNetwork, names: Names) -> list[str]:
    start = network.variables.indices(names)
    return [network.names[i] for i in sorted(closure(start, network.children).difference(start))]


def intervened(network: BayesianNetwork, states: Mapping[str, Any]) -> BayesianNetwork:
    """The network in which some variables are set to a state, whatever their parents are."""
    forced = network.variables.encode(states)
    everyone = range(len(network.names))
    parents = [() if i in forced else network.parents(i) for i in everyone]
    tables = [
        np.eye(len(network.states[i]))[forced[i]] if i in forced else network.tables[i] for i in everyone
    ]
    return BayesianNetwork.assemble(network.variables, parents, tables)


def ancestral(network: BayesianNetwork, names: Names) -> BayesianNetwork:
    """The network of the variables named and of all their ancestors."""
    kept = sorted(closure(network.variables.indices(names), network.parents))
    number = {old: new for new, old in enumerate(kept)}
    variables = Variables([network.names[i] for i in kept], [network.states[i] for i in kept])
    parents = [[number[parent] for parent in network.parents(i)] for i in kept]
    return BayesianNetwork.assemble(variables, parents, [network.tables[i] for i in kept])


def renamed(network: BayesianNetwork, names: Mapping[str, str]) -> BayesianNetwork:
    """The network with new names, as ``{old: new}``; variables that are left out keep theirs."""
    changed = {network.index(old): new for old, new in names.items()}
    variables = Variables([changed.get(i, name) for i, name in enumerate(network.names)], network.states)
    parents = [network.parents(i) for i in range(len(variables))]
    return BayesianNetwork.assemble(variables, parents, network.tables)
