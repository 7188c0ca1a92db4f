"""Grammars of spans against a spelled-out automaton; violations are named."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.data.constraints import check_legal, legal_transitions
from trellis.data.labels import EncodedLabels, LabelSet


def is_bio(tags: tuple[str, ...]) -> bool:
    previous = "O"
    for tag in tags:
        if tag[0] == "I" and previous not in ("B" + tag[1:], tag):
            return False
        previous = tag
    return True


def is_bioes(tags: tuple[str, ...]) -> bool:
    inside = None  # type of the open span
    for tag in tags:
        if tag[0] in "IE":
            if inside != tag[1:]:
                return False
            inside = None if tag[0] == "E" else inside
        elif inside is not None:
            return False
        elif tag[0] == "B":
            inside = tag[1:]
    return inside is None


@pytest.mark.parametrize(
    ("scheme", "accepts", "labels"),
    [
        ("bio", is_bio, ["O", "B-x", "I-x", "B-y", "I-y", "B", "I"]),
        ("bioes", is_bioes, ["O", "B-x", "I-x", "E-x", "S-x", "I-y", "E-y", "B-y-z", "E-y-z"]),
    ],
)
def test_the_grammar_accepts_what_the_automaton_does(scheme, accepts, labels) -> None:
    label_set = LabelSet(labels)
    start, pair, end = legal_transitions(scheme, label_set)
    legal = 0
    for n in (1, 2, 3):
        for codes in product(range(len(labels)), repeat=n):
            allowed = start[codes[0]] and end[codes[-1]] and all(pair[a, b] for a, b in pairwise(codes))
            assert allowed == accepts(tuple(labels[c] for c in codes))
            legal += allowed
            encoded = EncodedLabels(np.array(codes, np.int32), None, np.array([0, n]))
            if allowed:
                check_legal(encoded, legal_transitions(scheme, label_set), label_set)
            else:
                with pytest.raises(DataError, match="sequence 0"):
                    check_legal(encoded, legal_transitions(scheme, label_set), label_set)
    assert legal > 10


def test_pairs() -> None:
    labels = LabelSet(["a", "b"])
    start, pair, end = legal_transitions([("a", "b"), ("b", "b")], labels)
    assert pair.tolist() == [[False, True], [False, True]]
    assert start.all()
    assert end.all()
    with pytest.warns(UserWarning, match="constraints names the label 'c', which does not occur"):
        assert legal_transitions([("a", "b"), ("a", "c")], labels).pair.tolist() == [
            [False, True],
            [False, False],
        ]
    with pytest.raises(DataError, match="cannot be a label"):
        legal_transitions([("a", [])], labels)
    with pytest.raises(DataError, match="is not a pair"):
        legal_transitions([("a", "b", "a")], labels)
    with pytest.raises(DataError, match="is not a pair"):
        legal_transitions(["ab"], labels)


def test_the_first_violation_is_named() -> None:
    labels = LabelSet(["O", "B-x", "I-x"])
    legal = legal_transitions("bio", labels)
    for y, message in [
        ([["O"], [], ["B-x", "O", "I-x"], ["I-x"]], r"step 2 of sequence 2: 'I-x' may not follow 'O'"),
        ([["O"], ["I-x", "I-x"]], r"step 0 of sequence 1: 'I-x' may not begin"),
    ]:
        with pytest.raises(DataError, match=message):
            check_legal(labels.encode(y), legal, labels)
    check_legal(labels.encode([["O", None, "I-x"], [None]]), legal, labels)
    bioes = LabelSet(["O", "B-x", "E-x"])
    with pytest.raises(DataError, match=r"step 1 of sequence 0: 'B-x' may not end"):
        check_legal(bioes.encode([["O", "B-x"]]), legal_transitions("bioes", bioes), bioes)


@pytest.mark.parametrize("label", ["NOUN", "E-x", "", 3, "O-x", "BI-x"])
def test_labels_outside_the_scheme(label) -> None:
    with pytest.raises(DataError, match="does not fit constraints='bio'"):
        legal_transitions("bio", LabelSet(["O", label]))


def test_an_unknown_scheme() -> None:
    with pytest.raises(DataError, match="'bio', 'bioes'"):
        legal_transitions("iob", LabelSet(["O"]))


@pytest.mark.parametrize(
    ("scheme", "y", "message"),
    [
        (
            "bio",
            [["O"], ["O", "PER"]],
            r"^step 1 of sequence 1: label 'PER' .* write 'B-PER', inside it 'I-PER'",
        ),
        ("bio", [["S-x", "O"]], r"^step 0 of sequence 0: label 'S-x' .*; all labels fit constraints='bioes'"),
        ("bioes", [["B-x", "L-x"]], r"^step 1 of sequence 0: label 'L-x' .* write E for L and S for U"),
        ("bio", [["O-x"]], "label 'O-x' does not fit"),
    ],
)
def test_a_label_outside_the_scheme_is_found_and_explained(
    scheme: str, y: list[list[str]], message: str
) -> None:
    labels = LabelSet.of(y)
    encoded = labels.encode(y)
    with pytest.raises(DataError, match=message) as caught:
        legal_transitions(scheme, labels, encoded)
    assert caught.value.step is not None


def test_older_tags_are_explained() -> None:
    y = [["I-x", "O"]]
    labels = LabelSet.of(y)
    with pytest.raises(DataError, match=r"a span begins with 'B-x'; in IOB1, an older scheme, with 'I-x'"):
        check_legal(labels.encode(y), legal_transitions("bio", labels), labels)
