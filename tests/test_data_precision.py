"""Data in single precision, or in small whole numbers, give the model of the same values in double precision.

Nothing is computed in the type of the data: sums would lose digits or overflow, and before NumPy 2 a number
times an array in single precision is such an array, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from trellis import HMM, IOHMM, MEMM, Graph, GraphLabeler, LinearGaussian, SequenceLabeler, emissions

RNG = np.random.default_rng(0)
LENGTHS = [30, 17, 44]
X = [np.rint(40 * RNG.random((n, 2)) + 160) for n in LENGTHS]  # sums of two do not fit into a byte
SHARES = [x / 7 for x in X]
LABELS = [np.where(x[:, 0] > x[:, 1], "up", "down").tolist() for x in X]
FRAMES = np.concatenate(LABELS)

Change = Callable[[np.ndarray], np.ndarray]
Values = list[np.ndarray]


def graph(values: np.ndarray) -> Graph:
    path = np.stack([np.arange(len(values) - 1), np.arange(1, len(values))], axis=1)
    return Graph(values, path, values[1:])


FITS: dict[str, Callable[[Values], Any]] = {
    "HMM": lambda x: HMM(2, emissions.Gaussian("full"), max_iter=5, random_state=0).fit(x),
    "HMM in shards": lambda x: HMM(
        2, emissions.Gaussian("diag"), max_iter=5, random_state=0, backend="threads"
    ).fit(x),
    "online HMM": lambda x: HMM(2, emissions.Gaussian("diag"), random_state=0).partial_fit(x).partial_fit(x),
    "IOHMM": lambda x: IOHMM(2, max_iter=3, n_init=1, random_state=0).fit(
        [one[:, :1] for one in x], [one[:, 1:] for one in x]
    ),
    "LinearGaussian": lambda x: LinearGaussian(2, max_iter=3, random_state=0).fit(x),
    "SequenceLabeler": lambda x: SequenceLabeler(max_iter=8).fit(x, LABELS),
    "sparse": lambda x: SequenceLabeler(max_iter=8).fit(
        csr_array(np.concatenate(x)), FRAMES, lengths=LENGTHS
    ),
    "weighted": lambda x: SequenceLabeler(max_iter=8).fit(
        SHARES, LABELS, sample_weight=np.array([one[0, 0] for one in x])
    ),
    "MEMM": lambda x: MEMM(max_iter=8).fit(x, LABELS),
    "GraphLabeler": lambda x: GraphLabeler("log", max_iter=8, random_state=0).fit(
        [graph(one) for one in x], LABELS
    ),
}


@pytest.mark.parametrize("kind", [np.float32, np.uint8, np.int16])
@pytest.mark.parametrize("name", FITS)
def test_the_type_of_the_data_changes_nothing(name: str, kind: type) -> None:
    given = [x.astype(kind) for x in (SHARES if kind is np.float32 else X)]
    found, expected = (
        FITS[name](values).to_state()[1] for values in (given, [x.astype(np.float64) for x in given])
    )
    assert found.keys() == expected.keys()
    for key in found.keys() - {key for key in found if key.endswith("seconds")}:
        assert found[key].dtype == expected[key].dtype, key
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-12, err_msg=key)
