"""CRFsuite's attribute files: escapes, values, round trips, errors."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.data.attributes import iter_attribute_blocks, read_attributes, write_attributes
from trellis.features.indexer import FeatureIndexer

names = st.text(alphabet="ab:\\ é=", min_size=1, max_size=5).filter(lambda s: s.strip())
steps = st.dictionaries(names, st.sampled_from([1.0, 0.5, -2.0]), max_size=4)


def test_escapes_and_values() -> None:
    data = read_attributes(io.StringIO("B\tw\\:x\ta\\\\b:1.5\tplain\n\nI\tplain:2\nO\n"))
    assert data.labels() == [["B"], ["I", "O"]]
    assert data.names == ["w:x", "a\\b", "plain"]
    assert data.indptr.tolist() == [0, 3, 4, 4]
    assert data.codes.tolist() == [0, 1, 2, 2]
    assert data.values.tolist() == [1.0, 1.5, 1.0, 2.0]
    assert data.tagged(np.array([1, 0, 0]), ["X", "Y"]) == b"Y\n\nX\nX\n\n"


@given(st.lists(st.lists(steps, min_size=1, max_size=3), min_size=1, max_size=3))
def test_write_then_read(sequences) -> None:
    target = io.StringIO()
    write_attributes(target, sequences, [["L"] * len(s) for s in sequences])
    for data in (
        read_attributes(io.StringIO(target.getvalue())),
        *([next(iter_attribute_blocks(io.StringIO(target.getvalue()), 99))]),
    ):
        values = np.broadcast_to(data.values, data.codes.shape)
        found = [
            {data.names[data.codes[i]]: values[i] for i in range(data.indptr[t], data.indptr[t + 1])}
            for t in range(data.n_steps)
        ]
        assert found == [step for sequence in sequences for step in sequence]
        assert len(data) == len(sequences)


def test_the_indexer_reads_them_like_dictionaries() -> None:
    text = "A\tx\ty:2\nB\tx\n\nA\tz\tx:0.5\n"
    dicts = [[{"x": 1, "y": 2}, {"x": 1}], [{"z": 1, "x": 0.5}]]
    a, b = FeatureIndexer(), FeatureIndexer()
    found, expected = a.fit(read_attributes(io.StringIO(text))), b.fit(dicts)
    assert a.feature_names() == b.feature_names()
    assert (found.nodes.to_csr() != expected.nodes.to_csr()).nnz == 0
    assert found.nodes.offsets.tolist() == [0, 2, 3]


@pytest.mark.parametrize("field", ["a:b", "a:", "a:1:2", "a:nan", "a\\"])
def test_bad_attributes_are_named_with_their_line(field) -> None:
    with pytest.raises(DataError, match="<stream>:3: attribute"):
        read_attributes(io.StringIO(f"A\tok\n\nB\tok\t{field}\n"))


def test_empty_and_unwritable() -> None:
    with pytest.raises(DataError, match="contains no sequences"):
        read_attributes(io.StringIO("\n"))
    with pytest.raises(DataError, match="contains no sequences"):
        list(iter_attribute_blocks(io.StringIO("")))
    with pytest.raises(DataError, match="has a tab or a line break"):
        write_attributes(io.StringIO(), [[{"a\tb": 1.0}]], [["A"]])
