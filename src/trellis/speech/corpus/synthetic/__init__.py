"""Synthetic speech with exact boundaries, for experiments: 22 sentences by each of four voices of flite.

It was generated once by ``scripts/make_synthetic_corpus.py``, and is much easier to align than human speech:
figures on it show that things work, not how well they would on people. Phones are ARPABET in lower case,
silences ``sil``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from trellis.speech.corpus.corpus import Corpus, Utterance
from trellis.speech.formats.alignment import Alignment, Interval

__all__ = ["VOICES", "synthetic_corpus"]

VOICES = ("awb", "kal16", "rms", "slt")
_HERE = Path(__file__).parent


def synthetic_corpus(voices: Collection[str] = VOICES) -> Corpus:
    """The synthetic utterances of some voices (which are the groups), with references of phones and words."""
    stored = json.loads((_HERE / "corpus.json").read_text(encoding="utf-8"))["utterances"]
    corpus = Corpus(tuple(sorted((_utterance(**entry) for entry in stored), key=lambda u: u.id)))
    return corpus.in_groups(voices)


def _utterance(
    id: str, voice: str, text: str, words: list[tuple[str, int]], phones: list[tuple[str, float]]
) -> Utterance:
    audio = _HERE / "audio" / f"{id}.flac"
    starts = [0.0, *(end for _, end in phones)]
    intervals = tuple(
        Interval(start, end, label) for start, (label, end) in zip(starts, phones, strict=False)
    )
    reference = Alignment(
        intervals, _words(words, intervals), duration=phones[-1][1], source=str(audio)
    ).normalise_silence()
    return Utterance(id=id, audio=audio, reference=reference, group=voice)


def _words(words: list[tuple[str, int]], phones: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """``words``: each word with its number of phones, pauses not counted."""
    spoken = [phone for phone in phones if phone.label != "pau"]
    found, first = [], 0
    for word, count in words:
        found.append(Interval(spoken[first].start, spoken[first + count - 1].end, word))
        first += count
    return tuple(found)
