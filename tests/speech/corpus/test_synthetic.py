"""The synthetic corpus: complete, small, and its boundaries are where the sound changes."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.speech import synthetic_corpus

pytest.importorskip("soundfile")
SPEECH = Path(__file__).parents[2] / "support" / "synthetic_speech"


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(folder=SPEECH)


def test_the_package_has_a_handful(corpus):
    few = synthetic_corpus()
    assert few.groups == ("kal16",)
    assert 5 <= len(few) <= 8
    assert sum(u.audio.stat().st_size for u in few) < 2.5e5
    same = corpus.select(u.id for u in few)
    assert [u.reference.phones for u in few] == [u.reference.phones for u in same]
    assert [u.audio.read_bytes() for u in few] == [u.audio.read_bytes() for u in same]


def test_four_voices_with_sentences_of_their_own(corpus):
    assert corpus.groups == ("awb", "kal16", "rms", "slt")
    assert [len(synthetic_corpus([voice], SPEECH)) for voice in corpus.groups] == [22] * 4
    assert len({u.words for u in corpus}) == len(corpus) == 88
    with pytest.raises(DataError, match="no group nobody"):
        synthetic_corpus(["nobody"], SPEECH)


def test_at_most_six_megabytes(corpus):
    folder = corpus[0].audio.parent.parent
    assert sum(f.stat().st_size for f in Path(folder).rglob("*") if f.suffix != ".pyc") < 6e6


def test_references_cover_the_recordings(corpus):
    for utterance in corpus:
        reference = utterance.reference
        assert utterance.recording().duration == pytest.approx(reference.duration, abs=1e-6)
        assert reference.phones[0].start == 0.0
        assert reference.phones[-1].end == pytest.approx(reference.duration)
        assert all(a.end == b.start and a.start < a.end for a, b in pairwise(reference.phones))
        assert reference.labels[0] == reference.labels[-1] == "sil"


def test_words_begin_and_end_with_phones(corpus):
    for utterance in corpus:
        starts = {p.start for p in utterance.reference.phones if p.label != "sil"}
        ends = {p.end for p in utterance.reference.phones if p.label != "sil"}
        words = utterance.reference.words
        assert {w.start for w in words} <= starts
        assert {w.end for w in words} <= ends
        assert words[0].start == min(starts)
        assert words[-1].end == max(ends)


def test_words_have_their_phones(corpus):
    utterance = next(u for u in corpus if u.words[:2] == ("the", "bakery"))
    bakery = utterance.reference.words[1]
    inside = [p.label for p in utterance.reference.phones if bakery.start <= p.start < bakery.end]
    assert inside == ["b", "ey", "k", "er", "iy"]


def test_silences_are_silent_and_vowels_are_not(corpus):
    """Mean power of the pauses at the ends against that of the vowels, per voice."""
    for voice in corpus.groups:
        quiet, loud = [], []
        for utterance in synthetic_corpus([voice], SPEECH):
            sound = utterance.recording()
            for p in utterance.reference.phones:
                samples = sound.samples[round(p.start * sound.rate) : round(p.end * sound.rate)]
                if p.label == "sil":
                    quiet.append(np.mean(samples**2))
                elif p.label in ("aa", "ae", "ow", "ay"):
                    loud.append(np.mean(samples**2))
        assert np.median(quiet) < 0.02 * np.median(loud)
