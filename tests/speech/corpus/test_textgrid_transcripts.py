"""Transcripts in TextGrids: utterances by speaker, words with times, phones; whatever the file looks like."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.speech.corpus.textgrid_transcripts import MARGIN, PAUSE, read_textgrid_transcript
from trellis.speech.corpus.transcripts import Piece, find_transcript
from trellis.speech.formats.intervals import Interval
from trellis.speech.formats.textgrid import split_speaker, write_textgrid_tiers

ANNA = (Interval(0.2, 1.0, "Hello, you!"), Interval(1.5, 2.0, "you"))
BEN = (Interval(0.8, 1.7, 'say "hello"'),)


def _write(path: Path, tiers: dict, **options: object) -> Path:
    write_textgrid_tiers(list(tiers.items()), 3.0, path, **options)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_utterances_by_speaker(tmp_path: Path, short: bool, encoding: str, ends: str) -> None:
    path = _write(tmp_path / "a.TextGrid", {"Anna": ANNA, "Ben": BEN, "empty": ()}, short=short)
    path.write_bytes(path.read_text("utf-8").replace("\n", ends).encode(encoding))
    found = read_textgrid_transcript(path)
    assert found.pieces == (
        Piece(0.2, 1.0, "Anna", words=("Hello", "you")),
        Piece(0.8, 1.7, "Ben", words=("say", "hello")),
        Piece(1.5, 2.0, "Anna", words=("you",)),
    )
    assert found.speakers == ("Anna", "Ben")
    assert found.all_words == ("Hello", "you", "say", "hello", "you")
    only = read_textgrid_transcript(path, tiers=["Ben"])
    assert only.speakers == ("Ben",)
    with pytest.raises(DataError, match=r"no tier 'Carl'; the interval tiers are 'Anna', 'Ben', 'empty'"):
        read_textgrid_transcript(path, tiers=["Carl"])
    with pytest.raises(DataError, match="there is no tier of words whose times could be kept"):
        read_textgrid_transcript(path, keep_words=True)


def test_latin_1_is_read_when_it_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.TextGrid", {"Zoë": (Interval(0, 1, "Grüße"),)})
    path.write_bytes(path.read_text("utf-8").encode("latin-1"))
    with pytest.raises(DataError, match="is not utf-8"):
        read_textgrid_transcript(path)
    assert read_textgrid_transcript(path, encoding="latin-1").pieces[0].words == ("Grüße",)


def test_a_tier_of_words(tmp_path: Path) -> None:
    words = (
        Interval(0, 0.5, "sil"),
        Interval(0.5, 1, "hello"),
        Interval(1, 1.2, "<usb>"),
        Interval(1.2, 2, "you"),
    )
    path = _write(tmp_path / "a.TextGrid", {"phones": (Interval(0, 1, "h"),), "words": words})
    found = read_textgrid_transcript(path)
    assert (found.words, found.pieces) == (("hello", "you"), ())
    kept = read_textgrid_transcript(path, keep_words=True)
    assert kept.pieces == (
        Piece(0.5, 1.0, "", words=("hello",), exact=True),
        Piece(1.2, 2.0, "", words=("you",), exact=True),
    )
    only = _write(
        tmp_path / "b.TextGrid", {"phones": (Interval(0, 1, "h"), Interval(1, 2, ""), Interval(2, 3, "a"))}
    )
    assert read_textgrid_transcript(only).phones == ("h", "a")


def test_words_of_several_speakers_are_divided_at_pauses(tmp_path: Path) -> None:
    anna = (Interval(0.1, 0.4, "a"), Interval(0.4, 0.9, "b"), Interval(1.5, 1.9, "c"))
    path = _write(tmp_path / "a.TextGrid", {"anna - words": anna, "ben - words": (Interval(2.0, 2.5, "d"),)})
    found = read_textgrid_transcript(path).pieces
    assert [(p.speaker, p.words) for p in found] == [("anna", ("a", "b")), ("anna", ("c",)), ("ben", ("d",))]
    assert [p.begin for p in found] == pytest.approx([0.0, 1.25, 1.75])
    assert [p.end for p in found] == pytest.approx([1.15, 2.15, 2.75])


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0.05, 1)), min_size=1, max_size=8))
def test_pieces_of_a_speaker_never_overlap(lengths: list[tuple[float, float]]) -> None:
    from trellis.speech.corpus.textgrid_transcripts import _runs

    time, tier = 0.0, []
    for gap, length in lengths:
        tier.append(Interval(time + gap, time + gap + length, "w"))
        time += gap + length
    runs = list(_runs(tuple(tier)))
    assert [w for _, _, run in runs for w in run] == tier
    for begin, end, run in runs:
        assert max(0.0, run[0].start - MARGIN) - 1e-9 <= begin <= run[0].start < run[-1].end <= end
    for (_, end, left), (begin, _, right) in pairwise(runs):
        assert end <= begin + 1e-9
        assert right[0].start - left[-1].end >= PAUSE


def test_names_of_tiers() -> None:
    assert split_speaker("Anna") == ("Anna", "")
    assert split_speaker("anna b - Phones ") == ("anna b", "phones")
    assert split_speaker("Words") == ("", "words")
    assert split_speaker(" MAU") == ("", "phones")


def test_found_beside_the_recording(tmp_path: Path) -> None:
    _write(tmp_path / "a.TextGrid", {"Anna": ANNA})
    assert find_transcript(tmp_path / "a", True).speakers == ("Anna",)
    with pytest.raises(DataError, match="these are words; give a dictionary"):
        find_transcript(tmp_path / "a", False)
    (tmp_path / "a.txt").write_text("hello")
    assert find_transcript(tmp_path / "a", True).words == ("hello",)  # TextGrids may be results
    assert find_transcript(tmp_path / "a", True, tiers=["Anna"]).speakers == ("Anna",)
    _write(tmp_path / "e.TextGrid", {"Anna": (Interval(0, 1, " "), Interval(1, 2, "<p:>"))})
    with pytest.raises(DataError, match=r"e.TextGrid: the interval tiers \('Anna'\) contain no text"):
        find_transcript(tmp_path / "e", True)
    head = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n1\n<exists>\n1\n'
    (tmp_path / "p.TextGrid").write_text(head + '"TextTier"\n"p"\n0\n1\n1\n0.5\n"x"\n')
    with pytest.raises(DataError, match=r"the interval tiers \(none\) contain no text"):
        find_transcript(tmp_path / "p", True)
