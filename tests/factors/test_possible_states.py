"""Arc consistency: exact on trees."""

from __future__ import annotations

import numpy as np
import pytest

from small_networks import joint
from trellis import FactorGraph
from trellis.factors.possible_states import ContradictionError, PossibleStates
from trellis.factors.tables import Table


def test_possible_states_are_those_of_the_joint_on_a_tree() -> None:
    rng = np.random.default_rng(1)
    chain = FactorGraph([3] * 4, [([i, i + 1], (rng.random((3, 3)) < 0.4) * 1.0) for i in range(3)])
    support = joint(chain) > 0
    allowed = PossibleStates([3] * 4, chain.factors()).without_evidence
    for i in range(4):
        np.testing.assert_array_equal(allowed[i], support.any(axis=tuple(a for a in range(4) if a != i)))


def test_contradictions_name_a_variable_where_there_is_one() -> None:
    tables = [Table((0, 1), np.array([[0.0, 1.0], [0.0, 0.0]])), Table((0,), np.array([0.0, 1.0]))]
    with pytest.raises(ContradictionError) as error:
        _ = PossibleStates([2, 2], tables).without_evidence
    assert error.value.variable in (0, 1)
    with pytest.raises(ContradictionError) as error:
        _ = PossibleStates([2, 2], [Table((), np.zeros(()))]).without_evidence
    assert error.value.variable is None
