"""Corpora in every layout: pairing, splits, references that cover their recordings, what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from trellis.core.errors import DataError
from trellis.speech import Alignment, Corpus, Interval, Utterance


def sound(path: Path, seconds: float = 1.0, rate: int = 16000, form: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = 0.1 * np.random.default_rng(0).normal(size=round(seconds * rate))
    soundfile.write(path, noise, rate, format=form)
    return path


PHONES = Alignment(
    (Interval(0.1, 0.4, "h"), Interval(0.4, 0.8, "aɪ")), words=(Interval(0.1, 0.8, "hi"),), duration=1.0
)
WHOLE = (
    Interval(0, 0.1, "sil"),
    Interval(0.1, 0.4, "h"),
    Interval(0.4, 0.8, "aɪ"),
    Interval(0.8, 1.0, "sil"),
)


def timit(root: Path, upper: bool) -> Path:
    """Two speakers of each split with an SA and an SX sentence; SPHERE, as libsndfile writes it."""
    case = str.upper if upper else str.lower
    for split in ("train", "test"):
        for speaker in ("fabc0", "mxyz1"):
            for sentence in ("sa1", "sx37"):
                base = root / case(f"{split}/dr1/{speaker}/{sentence}")
                sound(base.with_name(base.name + case(".wav")), form="NIST")
                base.with_name(base.name + case(".phn")).write_text(
                    "0 1600 h#\n1600 6400 hh\n6400 15900 ay\n"
                )
                base.with_name(base.name + case(".wrd")).write_text("1600 15900 hi\n")
    return root


@pytest.mark.parametrize("upper", [True, False])
def test_timit(upper: bool, tmp_path: Path) -> None:
    root = timit(tmp_path, upper)
    corpus = Corpus.timit(root)
    assert [u.id for u in corpus] == [
        f"{split}/dr1/{speaker}/sx37" for split in ("test", "train") for speaker in ("fabc0", "mxyz1")
    ]
    first = corpus[0]
    assert first.phones == ("sil", "hh", "ay")
    assert first.words == ("hi",)
    assert first.reference is not None
    assert first.reference.phones[-1] == Interval(0.4, 1.0, "ay")  # 6 ms to the end are no silence
    assert first.recording().duration == 1.0
    assert corpus.groups == ("fabc0", "mxyz1")
    assert len(Corpus.timit(root, sa=True)) == 8
    assert {u.id.split("/")[0] for u in Corpus.timit(root, "train")} == {"train"}
    folder = root / ("TEST" if upper else "test")
    assert len(Corpus.timit(folder, "test")) == 2
    assert Corpus.read(root) == corpus
    listed = tmp_path / "list.txt"
    listed.write_text("# mine\ntrain/dr1/mxyz1/sx37\n\ntest/dr1/fabc0/sx37\n")
    assert [u.id for u in Corpus.timit(root, listed)] == ["train/dr1/mxyz1/sx37", "test/dr1/fabc0/sx37"]


def test_timit_mistakes(tmp_path: Path) -> None:
    root = timit(tmp_path, upper=True)
    with pytest.raises(DataError, match="no folder train with"):
        Corpus.timit(root / "TEST", "train")
    (root / "TRAIN/DR1/FABC0/SX37.WAV").rename(root / "TRAIN/DR1/FABC0/SX37.WAV.wav")
    assert len(Corpus.timit(root)) == 4  # converted copies are called so
    (root / "TRAIN/DR1/FABC0/SX37.WAV.wav").unlink()
    with pytest.raises(DataError, match=r"SX37\.PHN: there is no recording SX37\.WAV beside it"):
        Corpus.timit(root)
    assert len(Corpus.timit(root, skip_bad=True)) == 3


def test_textgrids_beside_or_elsewhere_with_gaps_as_silence(tmp_path: Path) -> None:
    for folder, name in (("deu", "a"), ("deu", "b"), ("fra", "a")):
        sound(tmp_path / "audio" / folder / f"{name}.flac", rate=22050)
        (tmp_path / "grids" / folder).mkdir(parents=True, exist_ok=True)
        PHONES.to_textgrid(tmp_path / "grids" / folder / f"{name}.TextGrid")
    (tmp_path / "grids" / "deu" / "._a.TextGrid").write_bytes(b"\0")  # what macOS leaves behind
    corpus = Corpus.textgrids(tmp_path / "grids", audio=tmp_path / "audio")
    assert [u.id for u in corpus] == ["deu/a", "deu/b", "fra/a"]
    assert corpus.groups == ("deu", "fra")
    for utterance in corpus:
        assert utterance.reference is not None
        assert utterance.reference.phones == WHOLE
        assert utterance.words == ("hi",)
    assert [u.id for u in corpus.in_groups(["fra"])] == ["fra/a"]
    assert [u.id for u in corpus.select(["fra/a", "deu/a"])] == ["fra/a", "deu/a"]
    assert [u.id for u in corpus[1:]] == ["deu/b", "fra/a"]
    with pytest.raises(DataError, match="no group eng; its groups are deu, fra"):
        corpus.in_groups(["eng"])
    with pytest.raises(DataError, match="no utterance b; its ids look like deu/a"):
        corpus.select(["b"])
    with pytest.raises(DataError, match="there is no recording named deu/a"):
        Corpus.textgrids(tmp_path / "grids")


def test_labs_json_and_ctm_give_the_same_references(tmp_path: Path) -> None:
    sound(tmp_path / "sounds" / "a.wav")
    for folder in ("lab", "json", "ctm"):
        (tmp_path / folder).mkdir()
    PHONES.write(tmp_path / "lab" / "a.lab")
    PHONES.write(tmp_path / "json" / "a.json")
    PHONES.write(tmp_path / "ctm" / "phones.ctm", id="a")
    PHONES.write(tmp_path / "ctm" / "words", "ctm", tier="words", id="a")
    sounds = tmp_path / "sounds"
    corpora = [
        Corpus.labs(tmp_path / "lab", audio=sounds),
        Corpus.json(tmp_path / "json", audio=sounds),
        Corpus.ctm(tmp_path / "ctm" / "phones.ctm", audio=sounds, words=tmp_path / "ctm" / "words"),
        Corpus.read(tmp_path / "lab", audio=sounds),
        Corpus.read(tmp_path / "json", "json", audio=sounds),
        Corpus.read(tmp_path / "ctm" / "phones.ctm", audio=sounds),
    ]
    for corpus in corpora:
        (utterance,) = corpus
        assert utterance.id == "a"
        assert utterance.reference is not None
        assert utterance.reference.labels == ("sil", "h", "aɪ", "sil")
        np.testing.assert_allclose(utterance.reference.starts, [0, 0.1, 0.4, 0.8])
        assert utterance.reference.duration == 1.0
    assert [corpus[0].words for corpus in corpora] == [(), ("hi",), ("hi",), (), ("hi",), ()]


def test_silences_by_option(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav")
    Alignment.from_starts([0, 0.2, 0.5, 0.7], ["q", "a", "_x_", ""], 1.0).to_textgrid(tmp_path / "a.TextGrid")
    assert Corpus.textgrids(tmp_path)[0].phones == ("q", "a", "_x_", "sil")
    assert Corpus.textgrids(tmp_path, silences={"", "_x_"})[0].phones == ("q", "a", "sil")


def test_what_is_wrong_is_told_or_skipped(tmp_path: Path) -> None:
    sound(tmp_path / "good.wav")
    PHONES.to_textgrid(tmp_path / "good.TextGrid")
    sound(tmp_path / "short.wav", seconds=0.5)
    PHONES.to_textgrid(tmp_path / "short.TextGrid")
    with pytest.raises(DataError, match=r"the last phone ends at 0\.800 s but .*short\.wav at 0\.500 s"):
        Corpus.textgrids(tmp_path)
    corpus = Corpus.textgrids(tmp_path, skip_bad=True)
    assert [u.id for u in corpus] == ["good"]
    ((path, sentence),) = corpus.skipped
    assert path.endswith("short.TextGrid")
    assert "pair them with the right recording" in sentence
    sound(tmp_path / "good.flac")
    with pytest.raises(DataError, match=r"several recordings for the labels good \(good\.flac, good\.wav\)"):
        Corpus.textgrids(tmp_path)
    with pytest.raises(DataError, match=r"no file with the suffix \.lab"):
        Corpus.labs(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        Corpus.labs(tmp_path / "none")
    with pytest.raises(DataError, match="there is no corpus layout 'praat'"):
        Corpus.read(tmp_path, "praat")
    PHONES.write(tmp_path / "good.json")
    with pytest.raises(DataError, match=r"label files of several layouts \(textgrids, json\)"):
        Corpus.read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no label files"):
        Corpus.read(tmp_path / "empty")


def test_labels_a_little_longer_than_the_recording_are_cut(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav", seconds=0.75)
    PHONES.to_textgrid(tmp_path / "a.TextGrid")
    reference = Corpus.textgrids(tmp_path)[0].reference
    assert reference is not None
    assert reference.phones[-1] == Interval(0.4, 0.75, "aɪ")
    assert reference.words == (Interval(0.1, 0.75, "hi"),)


def test_an_utterance_without_reference() -> None:
    utterance = Utterance("x", Path("x.wav"), phones=["a", "b"])  # type: ignore[arg-type]
    assert utterance.phones == ("a", "b")
    assert utterance.words == ()
