"""Pieces of recordings, unknown words and other alphabets, with an aligner of tones that has learnt."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

import tone_speech
from trellis.core.errors import DataError
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align import utterance_alignment
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.batch_alignment import plan_jobs
from trellis.speech.align.piece_alignment import align_pieces
from trellis.speech.align.plan_checks import check_phones
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.corpus.transcripts import Piece

NETWORK = ConvolutionalOptions(units=24, dilations=(1, 2), passes=20, fewest_steps=0, batch_frames=300)
DICTIONARY = Dictionary({"mass": [["m", "a", "s"]], "fu": [["f", "u"]], "sim": [["s", "i", "m"]]})
WITHOUT = Dictionary({"mass": [["m", "a", "s"]], "fu": [["f", "u"]]})


@pytest.fixture(scope="module")
def aligner(tmp_path_factory: pytest.TempPathFactory) -> Aligner:
    train = tone_speech.corpus(tmp_path_factory.mktemp("train"), 40, seed=0)
    return Aligner("log", fold="detailed", classifier=NETWORK, max_iter=10).fit(train)


def _talk(folder: Path) -> tuple[Path, np.ndarray]:
    """Three utterances in a recording, and where their phones start."""
    said = ["sil", "m", "a", "s", "sil", "f", "u", "sil", "s", "i", "m", "f", "u", "sil"]
    sound, truth = tone_speech.recording(said, 5)
    path = folder / "talk.wav"
    soundfile.write(path, sound.samples, sound.rate, subtype="FLOAT")
    return path, np.append(truth.starts, sound.duration)


def _middle(starts: np.ndarray, k: int) -> float:
    """Within silence number k."""
    return float((starts[k] + starts[k + 1]) / 2)


def test_utterances_within_their_times(aligner: Aligner, tmp_path: Path) -> None:
    path, starts = _talk(tmp_path)
    a, b = _middle(starts, 4), _middle(starts, 7)
    pieces = (
        Piece(0.0, a, "anna", words=("mass",)),
        Piece(a, b, "ben", words=("fu",)),
        Piece(b, float(starts[-1]), "anna", words=("sim", "fu")),
    )
    found = align_pieces(aligner, path, pieces, dictionary=DICTIONARY)
    assert list(found.speakers) == ["anna", "ben"]
    anna, ben = found.speakers["anna"], found.speakers["ben"]
    assert [w.label for w in anna.words] == ["mass", "sim", "fu"]
    assert [w.start for w in anna.words] == pytest.approx([starts[1], starts[8], starts[11]], abs=0.02)
    assert [ben.words[0].start, ben.words[0].end] == pytest.approx([starts[5], starts[7]], abs=0.02)
    assert ben.phones[0].start == a
    assert ben.phones[-1].end == b
    assert anna.confidence is not None
    assert len(anna.confidence) == len(anna.phones)
    assert anna.duration == pytest.approx(starts[-1])
    assert anna.score is not None
    noisy = align_pieces(aligner, path, pieces, dictionary=WITHOUT)
    at = noisy.speakers["anna"].words[1]
    assert at.start == pytest.approx(starts[8], abs=0.03)  # times are those in the recording
    assert f"the word 'sim' ({at.start:.2f} to {at.end:.2f} s) is not in the dictionary" in noisy.flags[-1]
    assert noisy.flags[-1].startswith(f"anna, {b:.2f} to ")


def test_a_piece_that_fails_is_flagged_and_no_more(aligner: Aligner, tmp_path: Path) -> None:
    path, starts = _talk(tmp_path)
    end = float(starts[-1])
    good, short = Piece(0.0, end, words=("mass", "fu", "sim", "fu")), Piece(0.1, 0.12, "x", words=("mass",))
    found = align_pieces(aligner, path, (good, short), dictionary=DICTIONARY)
    assert list(found.speakers) == [""]
    assert found.flags[0].startswith("x, 0.10 to 0.12 s: not aligned, 0.020 s are too short for 3 phones")
    with pytest.raises(DataError, match="none of 1 utterances could be aligned"):
        align_pieces(aligner, path, (short,), dictionary=DICTIONARY)
    with pytest.raises(DataError, match="pair it with the right recording"):
        align_pieces(aligner, path, (Piece(0.0, end + 1, words=("fu",)),), dictionary=DICTIONARY)


def test_words_whose_times_are_kept(aligner: Aligner, tmp_path: Path) -> None:
    path, starts = _talk(tmp_path)
    times = [(starts[1], starts[4]), (starts[5], starts[7]), (starts[8], starts[11])]
    words = [
        Piece(*map(float, t), words=(w,), exact=True)
        for t, w in zip(times, ("mass", "fu", "sim"), strict=True)
    ]
    found = align_pieces(aligner, path, words, dictionary=DICTIONARY).speakers[""]
    assert [(w.start, w.end) for w in found.words] == times
    assert found.labels == ("m", "a", "s", "f", "u", "s", "i", "m")  # no silence within words
    expected = starts[[1, 2, 3, 5, 6, 8, 9, 10]]
    np.testing.assert_allclose(found.starts, expected, atol=0.02)
    unknown = align_pieces(aligner, path, words, dictionary=WITHOUT).speakers[""]
    assert unknown.labels == ("m", "a", "s", "f", "u", "spn")
    assert (unknown.phones[-1].start, unknown.phones[-1].end) == times[2]


@pytest.mark.parametrize("long", [False, True])
def test_an_unknown_word_is_filled_with_noise(
    aligner: Aligner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    """Known words are found as well beside an unknown one, by the exact search and by that of long ones."""
    path, starts = _talk(tmp_path)
    if long:
        monkeypatch.setattr(utterance_alignment, "LONG_SECONDS", 0.1)
    words = ["mass", "fu", "sim", "fu"]
    found = aligner.align(path, words=words, dictionary=WITHOUT)
    assert [w.label for w in found.words] == words
    np.testing.assert_allclose([w.start for w in found.words], starts[[1, 5, 8, 11]], atol=0.03)
    assert [p.label for p in found.phones if p.start == found.words[2].start] == ["spn"]
    at = found.words[2]
    flag = (
        f"the word 'sim' ({at.start:.2f} to {at.end:.2f} s) is not in the dictionary; it is aligned as noise"
    )
    assert flag in found.flags
    skipped = aligner.align(path, words=words, dictionary=WITHOUT, unknown="skip")
    assert [w.label for w in skipped.words] == ["mass", "fu", "fu"]
    assert any("'sim'" in f and "skipped" in f for f in skipped.flags)
    with pytest.raises(DataError, match="add: sim"):
        aligner.align(path, words=words, dictionary=WITHOUT, unknown="error")
    by_phones = aligner.align(path, ["m", "a", "s", "<usb>", "s", "i", "m", "f", "u"])
    assert "<usb>" in by_phones.labels
    assert abs(by_phones.phones[by_phones.labels.index("i")].start - starts[9]) < 0.03


def test_labels_of_noise_in_training(tmp_path: Path) -> None:
    """A class of its own, whose segments may be of any length; the rest is learnt as before."""
    corpus = tone_speech.corpus(tmp_path, 30, seed=3)

    from trellis.speech.corpus.corpus import Corpus
    from trellis.speech.formats.intervals import Interval

    def noisy(reference):  # type: ignore[no-untyped-def]
        phones = tuple(
            Interval(p.start, p.end, "spn" if p.label == "f" else p.label) for p in reference.phones
        )
        return replace(reference, phones=phones)

    changed = Corpus(tuple(replace(u, reference=noisy(u.reference), phones=()) for u in corpus))
    aligner = Aligner("log", fold="voiced", classifier=NETWORK, max_iter=5).fit(changed)
    assert "noise" in aligner.model_.acoustics.phones.classes
    sound, truth = tone_speech.recording(["sil", "a", "f", "i", "sil"], 8)
    found = aligner.align(sound, ["sil", "a", "spn", "i", "sil"])
    np.testing.assert_allclose(found.starts, truth.starts, atol=0.03)


def test_transcripts_in_other_alphabets_keep_their_labels(aligner: Aligner, tmp_path: Path) -> None:
    """The same sounds, written in three ways, have the same alignment; the labels are those given."""
    path, _ = _talk(tmp_path)
    expected = aligner.align(path, words=["mass", "fu", "sim", "fu"], dictionary=DICTIONARY)
    arpabet = Dictionary({"mass": [["M", "AA1", "S"]], "fu": [["F", "UW0"]], "sim": [["S", "IY2", "M"]]})
    sampa = Dictionary(
        {"mass": [["m", "a", "s"]], "fu": [["f", "u"]], "sim": [["s", "i", "m"]], "x": [["@", "S"]]}
    )
    for other in (arpabet, sampa):
        found = aligner.align(path, words=["mass", "fu", "sim", "fu"], dictionary=other)
        assert len(found.labels) == len(expected.labels)
        np.testing.assert_allclose(found.starts, expected.starts, atol=0.021)
    by_phones = aligner.align(path, ["M", "AA1", "S", "sil", "F", "UW0", "sil", "S", "IY2", "M", "F", "UW0"])
    assert {"AA1", "UW0", "IY2"} <= set(by_phones.labels)
    with pytest.raises(DataError, match=r"does not know the phones 'AA1', not in the IPA|the phone"):
        aligner.align(path, ["M", "AA1"], alphabet="ipa")
    with pytest.raises(DataError, match="no alphabet 'x'"):
        aligner.align(path, ["m"], alphabet="x")


def test_phones_that_the_model_does_not_know_are_found_before(aligner: Aligner, tmp_path: Path) -> None:
    path, _ = _talk(tmp_path)
    for name, phones in (("good", "m a s"), ("bad", "m a? s"), ("other", "M AA1 S")):
        shutil.copy(path, tmp_path / f"{name}.wav")
        (tmp_path / f"{name}.phones").write_text(phones)
    path.unlink()
    plan = check_phones(plan_jobs([tmp_path], tmp_path / "out"), aligner)
    assert [job.audio.stem for job in plan.jobs] == ["good", "other"]
    assert plan.jobs[1].alphabet == "arpabet"
    assert plan.jobs[0].alphabet in ("ipa", "xsampa")  # which are the same for these letters
    assert "does not know the phone 'a?'" in str(plan.problems[0].problem)
    for name in ("good", "bad", "other"):
        (tmp_path / f"{name}.txt").write_text("mass fu" if name == "good" else "sim stranger")
    odd = Dictionary({"mass": [["m", "a", "s"]], "fu": [["f", "u"]], "sim": [["s", "i§"]]})
    plan = check_phones(plan_jobs([tmp_path], tmp_path / "out", dictionary=odd), aligner, odd)
    assert [job.audio.stem for job in plan.jobs] == ["good"]
    assert "'i§'" in str(plan.problems[0].problem)
