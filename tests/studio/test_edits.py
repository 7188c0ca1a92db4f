"""Edits are pure and keep what holds of every alignment; undo leads back to the very same one."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval
from trellis.studio.edit_history import EditHistory, difference, phone_rows, word_rows
from trellis.studio.edits import SHORTEST, apply_edit, gapless

NAN = math.nan
WORDS = (Interval(0.2, 0.6, "one"), Interval(0.6, 0.8, "two"))
BASE = Alignment.from_starts(
    [0.0, 0.2, 0.4, 0.6, 0.8],
    ["sil", "a", "b", "c", "sil"],
    1.0,
    words=WORDS,
    confidence=(1.0, 0.9, 0.5, 0.7, NAN),
    flags=("odd",),
)


def _times(alignment: Alignment) -> list[float]:
    return [round(float(t), 6) for t in alignment.starts]


def _words(alignment: Alignment) -> list[tuple[float, float, str]]:
    return [(round(w.start, 6), round(w.end, 6), w.label) for w in alignment.words]


def test_a_moved_boundary_takes_its_words_along() -> None:
    moved = apply_edit(BASE, {"op": "move", "boundary": 3, "time": 0.65})
    assert _times(moved) == [0.0, 0.2, 0.4, 0.65, 0.8]
    assert _words(moved) == [(0.2, 0.65, "one"), (0.65, 0.8, "two")]
    assert moved.confidence is not None
    assert math.isnan(moved.confidence[3])  # no aligner vouches for it
    assert moved.confidence[:3] == (1.0, 0.9, 0.5)
    inside = apply_edit(BASE, {"op": "move", "boundary": 2, "time": 0.3})
    assert inside.words == WORDS
    assert inside.flags == ("odd",)


def test_split_and_merge() -> None:
    parted = apply_edit(BASE, {"op": "split", "phone": 1, "time": 0.3, "label": " x "})
    assert parted.labels == ("sil", "a", "x", "b", "c", "sil")
    assert _times(parted) == [0.0, 0.2, 0.3, 0.4, 0.6, 0.8]
    assert parted.confidence is not None
    assert math.isnan(parted.confidence[2])
    again = apply_edit(parted, {"op": "merge", "boundary": 2})
    assert (again.labels, _times(again)) == (BASE.labels, _times(BASE))
    assert phone_rows(again) == phone_rows(BASE)


@pytest.mark.parametrize(
    ("boundary", "labels", "words"),
    [
        (1, ("a", "b", "c", "sil"), [(0.0, 0.6, "one"), (0.6, 0.8, "two")]),  # a silence gives way
        (3, ("sil", "a", "b", "sil"), [(0.2, 0.8, "one")]),  # the word that had only this phone is gone
        (4, ("sil", "a", "b", "c"), [(0.2, 0.6, "one"), (0.6, 1.0, "two")]),
    ],
)
def test_a_merge_over_the_edge_of_a_word(
    boundary: int, labels: tuple[str, ...], words: list[tuple[float, float, str]]
) -> None:
    merged = apply_edit(BASE, {"op": "merge", "boundary": boundary})
    assert merged.labels == labels
    assert _words(merged) == words


def test_rename_and_confirm() -> None:
    assert apply_edit(BASE, {"op": "rename", "index": 2, "label": "ʃ"}).labels[2] == "ʃ"
    assert (
        apply_edit(BASE, {"op": "rename", "tier": "words", "index": 1, "label": "too"}).words[1].label
        == "too"
    )
    one = apply_edit(BASE, {"op": "confirm", "boundary": 2})
    assert [row[3] for row in phone_rows(one)] == [1.0, 0.9, None, 0.7, None]
    assert {row[3] for row in phone_rows(apply_edit(BASE, {"op": "confirm"}))} == {None}


@pytest.mark.parametrize(
    "edit",
    [
        {},
        {"op": "erase"},
        {"op": "move", "boundary": 0, "time": 0.1},
        {"op": "move", "boundary": 5, "time": 0.9},
        {"op": "move", "boundary": True, "time": 0.1},
        {"op": "move", "boundary": 1.0, "time": 0.1},
        {"op": "move", "boundary": 1, "time": 0.4},
        {"op": "move", "boundary": 1, "time": 0.0},
        {"op": "move", "boundary": 1, "time": NAN},
        {"op": "move", "boundary": 1, "time": "0.1"},
        {"op": "split", "phone": 1, "time": 0.5, "label": "x"},
        {"op": "split", "phone": 1, "time": 0.3},
        {"op": "rename", "index": 9, "label": "x"},
        {"op": "rename", "index": 1, "label": "x\ny"},
        {"op": "rename", "index": 1, "label": "\ud800"},
        {"op": "rename", "index": 1, "label": "x" * 201},
        {"op": "merge", "boundary": -1},
    ],
)
def test_what_makes_no_sense_is_refused(edit: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        apply_edit(BASE, edit)


def test_gaps_become_silences() -> None:
    found = gapless(
        Alignment((Interval(0.1, 0.2, "a"), Interval(0.4, 0.5, "b")), (Interval(0.0, 0.1, "sil"),), 1.0)
    )
    assert found.labels == ("", "a", "", "b", "")
    assert found.words == ()


@st.composite
def alignments(draw: st.DrawFn) -> Alignment:
    lengths = draw(st.lists(st.floats(SHORTEST, 0.5), min_size=1, max_size=8))
    times = [0.0]
    for length in lengths:
        times.append(times[-1] + length)
    labels = draw(
        st.lists(st.sampled_from(["a", "b", "sil", ""]), min_size=len(lengths), max_size=len(lengths))
    )
    sure = draw(
        st.none()
        | st.tuples(*[st.sampled_from([0.0, 0.25, 1.0, NAN]) for _ in lengths])  # ties, and nothing known
    )
    cuts = sorted(draw(st.sets(st.integers(0, len(lengths)), max_size=6)))
    pairs = pairwise(cuts)
    words = tuple(Interval(times[i], times[j], f"w{i}") for i, j in pairs if draw(st.booleans()))
    return Alignment.from_starts(times[:-1], labels, times[-1], words=words, confidence=sure)


@st.composite
def edits(draw: st.DrawFn, now: Alignment) -> dict[str, Any]:
    n, length = len(now.phones), float(now.duration or 0)
    kind = draw(st.sampled_from(["move", "split", "merge", "rename", "confirm"]))
    time = draw(st.floats(0, length))
    index = draw(st.integers(0, n))
    label = draw(st.sampled_from(["a", "", "<script>", '"']))
    if kind == "move" and 0 < index < n:  # most moves are possible ones
        low, high = now.phones[index - 1].start, now.phones[index].end
        time = draw(st.floats(low, high))
    return {"op": kind, "boundary": index, "phone": index, "index": index, "time": time, "label": label}


def _check(alignment: Alignment) -> None:
    phones = alignment.phones
    assert phones[0].start == 0.0
    assert phones[-1].end == alignment.duration
    for left, right in pairwise(phones):
        assert left.end == right.start
    assert all(p.end - p.start >= SHORTEST - 3e-6 for p in phones)
    edges = {p.start for p in phones} | {p.end for p in phones}
    assert all(w.start in edges and w.end in edges and w.start < w.end for w in alignment.words)
    assert all(a.end <= b.start for a, b in pairwise(alignment.words))
    assert alignment.confidence is None or len(alignment.confidence) == len(phones)


@given(st.data())
def test_any_edits_keep_the_tiers_and_undo_restores_them(data: st.DataObject) -> None:
    base = data.draw(alignments())
    history, states = EditHistory(base), [base]
    for _ in range(data.draw(st.integers(0, 8))):
        try:
            new = apply_edit(history.now, data.draw(edits(history.now)))
        except DataError:
            continue
        _check(new)
        history.step(new)
        states.append(new)
    rows = [(phone_rows(s), word_rows(s)) for s in states]
    for expected in reversed(rows[:-1]):
        history.undo()
        assert (phone_rows(history.now), word_rows(history.now)) == expected
    with pytest.raises(DataError, match="nothing to undo"):
        history.undo()
    for expected in rows[1:]:
        history.redo()
        assert (phone_rows(history.now), word_rows(history.now)) == expected
    with pytest.raises(DataError, match="nothing to redo"):
        history.redo()


@given(alignments(), alignments())
def test_a_difference_leads_from_one_to_the_other(old: Alignment, new: Alignment) -> None:
    change = difference(old, new)
    assert change.phones.forward(phone_rows(old)) == phone_rows(new)
    assert change.inverse().words.forward(word_rows(new)) == word_rows(old)


def test_a_new_step_forgets_what_could_be_redone() -> None:
    history = EditHistory(BASE)
    history.step(apply_edit(BASE, {"op": "merge", "boundary": 1}))
    history.undo()
    history.step(apply_edit(BASE, {"op": "merge", "boundary": 2}))
    assert (history.n_done, history.n_undone) == (1, 0)
    change = history.undo()
    assert (change.phones.at, len(change.phones.old), len(change.phones.new)) == (1, 1, 2)
