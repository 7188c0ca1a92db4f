"""Networks made from others by removing variables or edges, or by changing names.

Intervention (Pearl 2009, 1.3): setting X to x by force removes what else decides it,

    p(v | do(X = x)) = 1[v_X = x] prod_{i != X} P(v_i | parents of i),

so that the edges into X go and its table is 1 at x. Queries of the new network are queries about effects.

The variables of an ancestral set have all their parents in it. Summing out the others, children first, leaves

    p(v) = prod_{i in the set} P(v_i | parents of i).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from trellis.bayesnet.model.directed_model import DirectedModel, Names
from trellis.bayesnet.model.variables import Variables

N = TypeVar("N", bound=DirectedModel)


def intervene(network: N, states: Mapping[str, Any]) -> N:
    """The network after an intervention: some variables are set to a state, whatever their parents are."""
    forced = network.variables.encode(states)
    parents, tables = list(network.parent_indices), list(network.tables)
    for i, state in forced.items():
        parents[i], tables[i] = (), np.eye(len(network.states[i]))[state]
    return network.assemble(network.variables, parents, tables)


def ancestral_network(network: N, names: Names) -> N:
    """The network of these variables and all their ancestors: the same distribution, all else summed out."""
    kept = sorted(network.closure(network.variables.indices(names)))
    number = {old: new for new, old in enumerate(kept)}
    variables = Variables([network.names[i] for i in kept], [network.states[i] for i in kept])
    parents = [[number[parent] for parent in network.parent_indices[i]] for i in kept]
    return network.assemble(variables, parents, [network.tables[i] for i in kept])


def rename(network: N, names: Mapping[str, str]) -> N:
    """The network with new names, as ``{old: new}``; variables that are left out keep theirs."""
    changed = {network.index(old): new for old, new in names.items()}
    variables = Variables([changed.get(i, name) for i, name in enumerate(network.names)], network.states)
    return network.assemble(variables, network.parent_indices, network.tables)
