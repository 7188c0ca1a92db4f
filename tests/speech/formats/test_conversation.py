"""Several speakers in one TextGrid, who talk at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.core.errors import DataError
from trellis.speech.evaluate.alignment_files import evaluate_files, find_alignments
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.conversation import Conversation, read_conversation
from trellis.speech.formats.intervals import Interval
from trellis.speech.formats.textgrid import read_textgrid_tiers

ANNA = Alignment((Interval(0.1, 0.5, "a"), Interval(0.5, 1.0, "b")), (Interval(0.1, 1.0, 'x "y"'),), 2.0)
BEN = Alignment((Interval(0.3, 1.8, "c"),), duration=2.0)


def _spoken(alignment: Alignment) -> list[Interval]:
    return [i for i in alignment.phones if i.label]


def test_tiers_are_named_as_the_montreal_aligner_names_them(tmp_path: Path) -> None:
    path = tmp_path / "t.TextGrid"
    Conversation({"anna": ANNA, "ben b.": BEN}, 2.0).to_textgrid(path)
    assert list(read_textgrid_tiers(path).tiers) == ["anna - words", "anna - phones", "ben b. - phones"]
    back = read_conversation(path)
    assert list(back.speakers) == ["anna", "ben b."]
    assert _spoken(back.speakers["anna"]) == list(ANNA.phones)
    assert [w for w in back.speakers["anna"].words if w.label] == list(ANNA.words)
    assert _spoken(back.speakers["ben b."]) == list(BEN.phones)
    assert back.duration == 2.0
    ANNA.to_textgrid(tmp_path / "one.TextGrid", phones="x", words="y")
    with pytest.raises(DataError, match="no tier 'speaker - phones'; the interval tiers are 'y', 'x'"):
        read_conversation(tmp_path / "one.TextGrid")


def test_every_speaker_is_evaluated(tmp_path: Path) -> None:
    late = Alignment((Interval(0.1, 0.53, "a"), Interval(0.53, 1.0, "b")), duration=2.0)
    for name, anna in (("ref", ANNA), ("hyp", late)):
        (tmp_path / name).mkdir()
        Conversation({"anna": anna, "ben": BEN}, 2.0).to_textgrid(tmp_path / name / "t.TextGrid")
        BEN.to_textgrid(tmp_path / name / "alone.TextGrid")
    readers = find_alignments(tmp_path / "ref")
    assert list(readers) == ["alone", "t - anna", "t - ben"]
    assert list(find_alignments(tmp_path / "ref" / "t.TextGrid")) == ["t - anna", "t - ben"]
    assert list(find_alignments(tmp_path / "ref" / "t.TextGrid", phones="ben - phones")) == ["t"]
    found = evaluate_files(readers, find_alignments(tmp_path / "hyp"))
    assert not found.left_out
    errors = {u.id: max(abs(u.seconds)) for u in found.utterances}
    assert errors == pytest.approx({"alone": 0.0, "t - anna": 0.03, "t - ben": 0.0})
