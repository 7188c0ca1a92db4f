"""Template features against the strings that CRF++ and CRFsuite would make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec_copy import through_codec
from trellis.core.errors import DataError
from trellis.data.columns import ColumnData
from trellis.features import Features, Template, TemplateEncoder, encoder_for
from trellis.features.templates import word_shape

Rows = list[list[tuple[str, str]]]

TEMPLATE = """# words
U00:%x[-2,0]
U01:%x[0,0]
U02:%x[-1,0]/%x[0,1]

U03:%x[0,1]/%x[1,1]/%x[-2,0]/%x[2,1]
U04
U05:%x[1,0]%x[1,0]
U06:%x[-1,1]|%x[0,0]
B
B01:%x[-1,1]/%x[0,1]
"""

words = st.sampled_from(["a", "b", "Ab", "_B-1", "x1", "/"])
rows = st.lists(st.tuples(words, words), max_size=5)
data_sets = st.lists(rows, min_size=1, max_size=5).filter(lambda X: any(X))


def cell(sequence: list[tuple[str, str]], t: int, column: int, pad: bool) -> str | None:
    if t < 0:
        return f"_B{t}" if pad else None
    if t >= len(sequence):
        return f"_B+{t - len(sequence) + 1}" if pad else None
    return sequence[t][column]


def by_strings(X: Rows, lines: list[tuple[str, list[tuple[int, int]]]], pad: bool) -> list[list[str]]:
    """The features of each step as strings; ``lines``: format and (row, column) pairs."""
    out = []
    for sequence in X:
        for t in range(len(sequence)):
            step = []
            for form, macros in lines:
                cells = [cell(sequence, t + row, column, pad) for row, column in macros]
                if None not in cells:
                    step.append(form.format(*cells))
            out.append(step)
    return out


def by_name(features: Features, names: list[str]) -> list[list[str]]:
    return [
        [names[i] for i in features.indices[a:b]]
        for a, b in zip(features.indptr[:-1], features.indptr[1:], strict=True)
    ]


NODE_LINES = [
    ("U00:{}", [(-2, 0)]),
    ("U01:{}", [(0, 0)]),
    ("U02:{}/{}", [(-1, 0), (0, 1)]),
    ("U03:{}/{}/{}/{}", [(0, 1), (1, 1), (-2, 0), (2, 1)]),
    ("U04", []),
    ("U05:{}{}", [(1, 0), (1, 0)]),
    ("U06:{}|{}", [(-1, 1), (0, 0)]),
]
EDGE_LINES = [("B01:{}/{}", [(-1, 1), (0, 1)])]


@pytest.mark.parametrize("out_of_bounds", ["pad", "omit"])
@given(X=data_sets, other=data_sets)
def test_features_are_those_of_the_strings(out_of_bounds: str, X: Rows, other: Rows) -> None:
    encoder = TemplateEncoder(Template.parse(TEMPLATE, out_of_bounds))
    encoded = encoder.fit(X)
    names, edge_names = encoder.feature_names(), encoder.edge_feature_names()
    pad = out_of_bounds == "pad"
    assert by_name(encoded.nodes, names) == by_strings(X, NODE_LINES, pad)
    assert encoded.edges is not None
    assert by_name(encoded.edges, edge_names) == by_strings(X, EDGE_LINES, pad)
    assert encoder.n_features == len(names) == encoded.nodes.n_features

    again = through_codec(encoder)
    # ambiguous strings ("a/" "b" and "a" "/b") are different features, so seen pairs are compared, not texts
    for copy in (encoder, again):
        found = by_name(copy.transform(other).nodes, names)
        expected = by_strings(other, NODE_LINES, pad)
        seen = set(names)
        for got, step in zip(found, expected, strict=True):
            assert set(got) <= set(step)
            assert set(got) >= {f for f in step if f in seen and "//" not in f and f.count("/") < 3}
    assert again.feature_names() == names
    assert again.edge_feature_names() == edge_names
    assert np.array_equal(again.transform(X).nodes.indices, encoded.nodes.indices)


def test_frequency_order_and_min_count() -> None:
    X = [[("a", "x"), ("b", "x"), ("c", "x")]]
    encoder = TemplateEncoder(Template.parse("U0:%x[0,0]\nU1:%x[0,1]"))
    encoder.fit(X)
    assert encoder.feature_names() == ["U1:x", "U0:a", "U0:b", "U0:c"]
    rare = TemplateEncoder(Template.parse("U0:%x[0,0]\nU1:%x[0,1]"), min_count=2)
    assert rare.fit(X).nodes.indptr.tolist() == [0, 1, 2, 3]
    assert rare.feature_names() == ["U1:x"]


def test_templates_of_one_name_are_a_bag_of_words() -> None:
    encoder = TemplateEncoder(Template.parse("U:%x[-1,0]\nU:%x[1,0]", "omit"))
    encoded = encoder.fit([[("a",), ("b",), ("a",)]])
    assert by_name(encoded.nodes, encoder.feature_names()) == [["U:b"], ["U:a", "U:a"], ["U:b"]]
    far = TemplateEncoder(Template.parse("U:%x[0,0]/%x[1,0]\nU:%x[0,0]/%x[2,0]", "omit"))
    encoded = far.fit([[("a",), ("b",), ("b",)]])
    assert by_name(encoded.nodes, far.feature_names()) == [["U:a/b", "U:a/b"], ["U:b/b"], []]


def test_a_separator_inside_a_word_makes_no_collision() -> None:
    encoder = TemplateEncoder(Template.parse("U:%x[0,0]/%x[0,1]"))
    encoded = encoder.fit([[("a/b", "c"), ("a", "b/c")]])
    assert encoder.feature_names() == ["U:a/b/c", "U:a/b/c"]
    assert encoded.nodes.indices.tolist() == [0, 1]


def test_many_pairs_grow_the_table() -> None:
    rng = np.random.default_rng(0)
    X = [[(f"w{i}", f"p{j}") for i, j in rng.integers(0, 200, (3000, 2))]]
    encoder = TemplateEncoder(Template.parse("U:%x[0,0]/%x[0,1]"))
    encoded = encoder.fit(X)
    texts = [f"U:{w}/{p}" for w, p in X[0]]
    assert encoder.n_features == len(set(texts))
    assert [step[0] for step in by_name(encoded.nodes, encoder.feature_names())] == texts
    assert np.array_equal(encoder.transform(X).nodes.indices, encoded.nodes.indices)


def chunking_strings(sequence: list[tuple[str, str]]) -> list[list[str]]:
    """CRFsuite's chunking example, written out."""
    out = []
    n = len(sequence)
    shapes = [("w", 0, 1, range(-2, 3)), ("w", 0, 2, (-1, 0)), ("pos", 1, 1, range(-2, 3))]
    shapes += [("pos", 1, 2, range(-2, 2)), ("pos", 1, 3, range(-2, 1))]
    for t in range(n):
        step = []
        for name, column, size, starts in shapes:
            for start in starts:
                offsets = range(start, start + size)
                if all(0 <= t + o < n for o in offsets):
                    left = "|".join(f"{name}[{o}]" for o in offsets)
                    step.append(f"{left}=" + "|".join(sequence[t + o][column] for o in offsets))
        step += ["__BOS__"] * (t == 0) + ["__EOS__"] * (t == n - 1)
        out.append(step)
    return out


@given(data_sets)
def test_crfsuites_chunking_features(X: Rows) -> None:
    encoder = TemplateEncoder(Template.crfsuite_chunking())
    encoded = encoder.fit(X)
    names = [name.removeprefix("U:") for name in encoder.feature_names()]
    assert by_name(encoded.nodes, names) == [step for s in X for step in chunking_strings(s)]
    assert encoded.edges is None
    assert encoder.template.transitions


def test_functions_of_strings() -> None:
    text = "U1:%lower[0,0]\nU2:%shape[0,0]\nU3:%prefix2[0,0]\nU4:%suffix3[0,0]\nU5:%first%lower[1,0]"
    encoder = TemplateEncoder(Template.parse(text))
    encoded = encoder.fit([[("McGill-22",), ("a",)]])
    assert by_name(encoded.nodes, encoder.feature_names()) == [
        ["U1:mcgill-22", "U2:XxXx-d", "U3:Mc", "U4:-22", "U5:a"],
        ["U1:a", "U2:x"],
    ]
    assert word_shape("") == ""
    assert word_shape("É::é") == "X:x"


def test_the_built_in_template() -> None:
    X = ColumnData.from_sequences([[("The", "DT"), ("dog", "NN")], [("dogs", "NNS")]])
    encoder = encoder_for(X)
    encoded = encoder.fit(X)
    names = encoder.feature_names()
    step = by_name(encoded.nodes, names)[0]
    for expected in (
        "U:bias",
        "U:w[-1]=_B-1",
        "U:w[0]|w[1]=The|dog",
        "U:lower[0]=the",
        "U:suffix2=he",
        "U:shape[1]=x",
    ):
        assert expected in step
    for expected in ("U:c1[0]|c1[1]=DT|NN", "U:w|c1=The|DT"):
        assert expected in step
    assert Template.builtin(1).n_columns == 1
    assert Template.builtin(3).n_columns == 3
    with pytest.raises(DataError, match="at least one column"):
        Template.builtin(0)


def test_lengths_and_files(tmp_path) -> None:
    path = tmp_path / "chunk.tpl"
    path.write_text("U0:%x[-1,0]\n")
    encoder = TemplateEncoder(path)
    encoded = encoder.fit([("a",), ("b",), ("c",)], lengths=[2, 1])
    assert by_name(encoded.nodes, encoder.feature_names()) == [["U0:_B-1"], ["U0:a"], ["U0:_B-1"]]
    assert encoded.nodes.offsets.tolist() == [0, 2, 3]


def test_bad_templates_are_named_with_their_line(tmp_path) -> None:
    path = tmp_path / "bad.tpl"
    for line, message in [
        ("X:%x[0,0]", "a template starts with U, B or #"),
        ("U:%x[0]", "is not a macro"),
        ("U:100%", "is not a macro"),
        ("U:%y[0,0]", "is not a macro"),
        ("U:%x3[0,0]", "must read like"),
        ("U:%prefix[0,0]", "must read like"),
        ("U:%suffix0[0,0]", "must read like"),
        ("U:%x[0,-1]", "is not a macro"),
        ("U:%x[99,0]", "is 99 rows away"),
    ]:
        path.write_text(f"# first\n{line}\n")
        with pytest.raises(DataError, match=rf"bad.tpl:2: .*{message}"):
            Template.read(path)
    path.write_text("# nothing\n")
    with pytest.raises(DataError, match="contains no templates"):
        Template.read(path)
    with pytest.raises(DataError, match="out_of_bounds is 'wrap'"):
        Template.parse("U", "wrap")


def test_too_few_columns() -> None:
    with pytest.raises(DataError, match=r"the template reads column 1 .* has 1 input columns"):
        TemplateEncoder(Template.crfsuite_chunking()).fit([[("a",)]])
    with pytest.raises(DataError, match="a step must be a tuple of strings"):
        TemplateEncoder(Template.crfsuite_chunking()).fit([["ab"]])
