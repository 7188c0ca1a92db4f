"""Speech of flite (CMU's small synthesiser) with the times of its phones: English, by voices of real people.

``flite -psdur`` prints every phone with the second at which it ends.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import soundfile

from builtin_speech.spoken import SILENCE, Samples, Spoken, merge_silences, resampled
from trellis.speech.phones.arpabet import ARPABET_TO_IPA

VOICES = ("awb", "kal16", "rms", "slt")


def say(voice: str, text: str) -> Spoken:
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / "speech.wav"
        command = ["flite", "-voice", voice, "-psdur", "-t", text, "-o", str(wav)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        samples, rate = soundfile.read(wav, dtype="int16")
    return from_ends(printed, resampled(samples, rate), f"flite-{voice}", dict(ARPABET_TO_IPA))


def from_ends(printed: str, samples: Samples, voice: str, symbols: dict[str, str]) -> Spoken:
    """From ``phone:end phone:end ...``; ``symbols`` gives the IPA of phones other than pauses."""
    parts = [part.rsplit(":", 1) for part in printed.split()]
    starts = [0.0, *(float(end) for _, end in parts[:-1])]
    labels = [symbols.get(name, SILENCE) for name, _ in parts]
    unknown = {name for name, _ in parts} - set(symbols) - {"pau", "#", "_", "brth"}
    if unknown:
        raise RuntimeError(f"{voice}: no IPA for {' '.join(sorted(unknown))}")
    return Spoken(samples, *merge_silences(labels, starts), voice)
