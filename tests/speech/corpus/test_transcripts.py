"""Transcripts, found beside a recording or given."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.core.errors import DataError
from trellis.speech.corpus.transcripts import Transcript, find_transcript, parse_transcript


def test_transcripts(tmp_path: Path) -> None:
    base = tmp_path / "a.b"  # only the last suffix of a recording is one
    (tmp_path / "a.b.txt").write_text('"Hello," you!\n')
    assert find_transcript(base, True).words == ("Hello", "you")
    with pytest.raises(DataError, match=r"these are words; give a dictionary, or a file a\.b\.phones"):
        find_transcript(base, False)
    (tmp_path / "a.b.phones").write_text("h ow\ny uw")
    assert find_transcript(base, False).phones == ("h", "ow", "y", "uw")
    assert find_transcript(base, True).words == ("Hello", "you")
    (tmp_path / "c.lab").write_text("hello you")
    assert find_transcript(tmp_path / "c", True).words == ("hello", "you")
    (tmp_path / "d.lab").write_text("0 1000000 h\n1000000 2000000 ow\n")
    assert find_transcript(tmp_path / "d", True).phones == ("h", "ow")
    (tmp_path / "e.txt").write_text(" ...\n")
    with pytest.raises(DataError, match=r"e\.txt: the transcript has no words"):
        find_transcript(tmp_path / "e", True)
    with pytest.raises(DataError, match=r"no transcript of this name \(\.phones, \.TextGrid, \.txt, \.lab\)"):
        find_transcript(tmp_path / "f", False)


def test_transcripts_that_are_given(tmp_path: Path) -> None:
    assert parse_transcript(None, None) is None
    assert parse_transcript("h ow", None) == Transcript(phones=("h", "ow"))
    assert parse_transcript(None, "Hello, you") == Transcript(words=("Hello", "you"))
    (tmp_path / "p.phones").write_text("y uw")
    given = parse_transcript(str(tmp_path / "p.phones"), None)
    assert given == Transcript(phones=("y", "uw"), path=tmp_path / "p.phones")
    with pytest.raises(DataError, match="no such file"):
        parse_transcript(str(tmp_path / "q.phones"), None)
    with pytest.raises(DataError, match="give one of them"):
        parse_transcript("h", "hello")
    with pytest.raises(DataError, match="has no phones"):
        parse_transcript("  ", None)
