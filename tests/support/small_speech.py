"""Small recordings, and an aligner that learns nothing: every phone is equally long."""

from __future__ import annotations

import os
import wave
from pathlib import Path
from typing import Any

import numpy as np

from trellis.core.errors import DataError
from trellis.speech.align.batch_alignment import Job
from trellis.speech.audio.front_end import FramedRecording
from trellis.speech.audio.recordings import audio_info
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval


def write_wav(
    path: Path, seconds: float = 1.0, rate: int = 16000, tones: tuple[float, ...] = (220.0,)
) -> Path:
    """Equal stretches of pure tones; 0 Hz is silence."""
    t = np.arange(round(seconds * rate)) / rate
    which = np.minimum((t / seconds * len(tones)).astype(int), len(tones) - 1)
    samples = 0.5 * np.sin(2 * np.pi * np.array(tones)[which] * t)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.round(samples * 32767).astype("<i2").tobytes())
    return path


class EvenAligner:
    """What batches need of an aligner. The phone ``die`` ends the process, ``bug`` is a defect."""

    def align(
        self,
        audio: Path,
        phones: Any = None,
        *,
        words: Any = None,
        dictionary: Dictionary | None = None,
        silence: str = "auto",
        unknown: str = "noise",
        alphabet: str = "auto",
        channel: int | None = None,
    ) -> Alignment:
        spoken: list[Interval] = []
        duration = audio.duration if isinstance(audio, FramedRecording) else audio_info(audio).duration
        flags = ("phone 1 is odd",) if "odd" in (phones or ()) else ()
        if words is not None:
            if dictionary is None:
                raise DataError("no dictionary")
            phones = [
                p for word in words for p in (dictionary[word][0].phones if word in dictionary else ["spn"])
            ]
            flags = tuple(f"{word} is unknown" for word in dictionary.missing(words))
            times = np.linspace(0, duration, len(words) + 1)
            spoken = [Interval(times[k], times[k + 1], word) for k, word in enumerate(words)]
        if "die" in phones:
            os._exit(1)
        if "bug" in phones:
            raise KeyError("bug")
        if len(phones) > 100 * duration:
            raise DataError(f"{audio}: {len(phones)} phones do not fit into {duration:.2f} s")
        return Alignment.from_starts(
            np.linspace(0, duration, len(phones) + 1)[:-1],
            phones,
            duration,
            words=tuple(spoken),
            confidence=tuple(np.linspace(1, 0.1, len(phones))),
            flags=flags,
            source="" if isinstance(audio, FramedRecording) else str(audio),
        )

    def framed(
        self, audio: Path, channel: int | None = None, start: float = 0.0, end: float | None = None
    ) -> FramedRecording:
        """Of 10 ms, with nothing in them."""
        duration = (audio_info(audio).duration if end is None else end) - start
        return FramedRecording(np.zeros((round(100 * duration), 1)), duration, ())


def open_even(*_: object) -> tuple[Any, Dictionary | None]:
    return EvenAligner(), Dictionary({"hello": [["h", "ow"]], "you": [["y", "uw"]]})


def write_json(job: Job, alignment: Alignment) -> None:
    alignment.write(job.target.with_suffix(".json"))
