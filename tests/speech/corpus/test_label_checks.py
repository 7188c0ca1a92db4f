"""Bad labels are named with file, tier and time, or their files are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_speech import write_wav
from trellis.core.errors import DataError
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.corpus.label_checks import check_labels, skip_bad_labels
from trellis.speech.formats.alignment import Alignment


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    for speaker, name, labels in (
        ("anna", "a", "p a t"),
        ("anna", "b", "p a? t"),
        ("ben", "c", "spn a <usb>"),
    ):
        (tmp_path / speaker).mkdir(exist_ok=True)
        write_wav(tmp_path / speaker / f"{name}.wav", 0.9)
        made = Alignment.from_starts([0.0, 0.3, 0.6], labels.split(), 0.9)
        made.to_textgrid(tmp_path / speaker / f"{name}.TextGrid", phones="segments")
    return Corpus.textgrids(tmp_path)


def test_the_first_bad_file_is_named(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        check_labels(corpus, "voiced")
    place = f"{tmp_path}/anna/b.TextGrid, tier 'segments': at 0.300 s"
    assert str(caught.value).startswith(f"{place} the phone 'a?' contains '?' (U+003F QUESTION MARK)")
    assert "--skip-bad" in str(caught.value)
    for fold in ("none", {"p": "x", "a": "x", "t": "x", "a?": "y"}):
        check_labels(corpus, fold)  # these have a class for any label, or for this one
    check_labels(corpus, "voiced", unknown="noise")
    with pytest.raises(DataError, match="not one of the 61 of TIMIT"):
        check_labels(corpus, "timit39")
    with pytest.raises(DataError, match="no class for the phone 'p'"):
        check_labels(corpus, {"a": "x"})


def test_bad_files_are_skipped_with_the_reason(corpus: Corpus, tmp_path: Path) -> None:
    kept = skip_bad_labels(corpus, "voiced")
    assert [u.id for u in kept] == ["anna/a", "ben/c"]
    ((name, reason),) = kept.skipped
    assert name == f"{tmp_path}/anna/b.TextGrid"
    assert "tier 'segments'" in reason
    assert skip_bad_labels(corpus, "voiced", unknown="other").utterances == corpus.utterances
    assert kept.groups == ("anna", "ben")  # a folder is a speaker
