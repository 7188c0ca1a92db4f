"""Factor graphs: what they take and what they refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

from small_networks import joint
from trellis import FactorGraph
from trellis.core.errors import DataError


def test_a_factor_graph_takes_names_or_numbers() -> None:
    pair = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    graph = FactorGraph([2, 3], [(["A", "B"], pair), ("A", [1, 0])], names=["A", "B"])
    same = FactorGraph([2, 3], [([0, 1], pair), ([0], [1, 0])], names=["A", "B"])
    assert graph == same
    assert joint(graph).tolist() == [[1, 2, 3], [0, 0, 0]]
    assert repr(graph) == "FactorGraph(2 variables, 2 factors)"


@pytest.mark.parametrize(
    ("sizes", "factors", "options", "message"),
    [
        ([2, 0], [], {}, "variable 1 has cardinality 0"),
        ([2], [([1], [1, 1])], {}, "factor 0 names variable 1, and the variables are 0 to 0"),
        ([2], [([0, 0], np.ones((2, 2)))], {}, "the same variable on two axes"),
        ([2], [([0], [1, 1, 1])], {}, "factor 0 has shape (3,) and needs (2,)"),
        ([2], [([0], [1, -1])], {}, "negative or not finite"),
        ([2], [([0], [1, np.nan])], {}, "negative or not finite"),
        ([2], [([0], [1, np.inf])], {}, "negative or not finite"),
        ([2], [], {"names": ["A", "B"]}, "1 cardinalities, 2 names"),
        ([2], [], {"states": [["a"]]}, "as many states as its cardinality"),
        ([2], [("B", [1, 1])], {}, "there is no variable 'B'"),
        (["two"], [], {}, "variable 0 has cardinality 'two'"),
        ([np.nan], [], {}, "variable 0 has cardinality nan"),
        ([10**12], [], {}, "variable 0 has cardinality 1000000000000; give a whole number from 1 to"),
        ([2], [[1, 2, 3]], {}, "factor 0 is not a pair of variables and values"),
        ([2, 2], [([0.7], [1, 2])], {}, "factor 0 names the variable 0.7"),
        ([2, 2], [([0, 1], [[1], [1, 2]])], {}, "the values of factor 0 are not an array of numbers"),
        ([1] * 70, [(range(70), [1])], {}, "factor 0 has 70 variables; the limit is"),
    ],
)
def test_a_bad_factor_graph_is_refused(sizes, factors, options, message) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        FactorGraph(sizes, factors, **options)
