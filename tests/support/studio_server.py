"""A small folder of recordings, an aligner for them, and the studio as people start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import soundfile

import tone_speech
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align.aligner import Aligner
from trellis.speech.corpus.corpus import Corpus

TRELLIS = [sys.executable, "-c", "from trellis.cli import main; main()"]


def small_aligner(folder: Path) -> Path:
    """A model of tones and noises, trained for a moment."""
    folder.mkdir()
    corpus = tone_speech.corpus(folder, 24, seed=0)
    options = ConvolutionalOptions(units=24, passes=2, fewest_steps=24)
    Aligner("log", classifier=options).fit(corpus).save(folder / "small.trellis")
    return folder / "small.trellis"


def recordings(folder: Path, n: int = 6) -> Corpus:
    """Recordings u2_000.wav ... with transcripts of phones and words; their true alignments."""
    folder.mkdir(exist_ok=True)
    corpus = tone_speech.corpus(folder, n, seed=2)
    for utterance in corpus:
        spoken = [p for p in utterance.phones if p != "sil"]
        utterance.audio.with_suffix(".txt").write_text("".join(spoken[:3]) + " " + "".join(spoken[3:]))
    return corpus


def dictionary(path: Path, corpus: Corpus) -> Path:
    """Each half of an utterance is a word, said as it is spelt."""
    words = {w for u in corpus for w in u.audio.with_suffix(".txt").read_text().split()}
    path.write_text("".join(f"{word} {' '.join(word)}\n" for word in sorted(words)))
    return path


def write_hour(path: Path, minutes: int = 60) -> None:
    """An hour of tones; only its length matters."""
    sound = tone_speech.recording(["sil", "a", "s", "i", "m", "f", "u", "sil"], 0)[0].samples
    per_minute = -(-60 * tone_speech.RATE // len(sound))
    with soundfile.SoundFile(path, "w", tone_speech.RATE, 1, "PCM_16") as file:
        for _ in range(minutes):
            for _ in range(per_minute):
                file.write(sound)


class Studio:
    """A running studio: its process and the address that it printed."""

    def __init__(self, *arguments: object) -> None:
        command = [*TRELLIS, "align", "studio", *map(str, arguments), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.process.stdout is None:
            raise RuntimeError
        self.address = self.process.stdout.readline().strip()

    def kill(self) -> None:
        """As if the power failed."""
        self.process.kill()
        self.process.communicate(timeout=30)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """The exit code, and what it wrote to stderr."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


@contextmanager
def studio(*arguments: object) -> Iterator[Studio]:
    running = Studio(*arguments)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()
