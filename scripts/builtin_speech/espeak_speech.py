"""Speech of espeak-ng with the times of its phones, by the library's C interface.

The events of libespeak-ng name phones in the IPA, each with the sample where it starts. They put the closure
of a voiceless stop into the phone before it; ``label_repair`` finds where it begins. What a voice can say is
read from ``phontab``, the compiled table of phonemes: words are then written in espeak's own notation,
``[[p'ata]]``, so that every phoneme of every language can be asked for.
"""

from __future__ import annotations

import ctypes
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from builtin_speech.spoken import SILENCE, Spoken, merge_silences, resampled
from trellis.speech.phones.ipa_tables import VOWELS

PHONEME_EVENT, END_OF_EVENTS = 7, 0  # espeakEVENT_TYPE
SYNCHRONOUS, PHONEME_EVENTS, PHONEME_IPA = 2, 1, 2  # espeak_Initialize
UTF8, PHONEMES = 0x01, 0x100  # espeak_Synth
SPEED, PITCH, RANGE = 1, 3, 4  # espeak_PARAMETER
# types of phonemes in phontab
VOWEL, LIQUID, STOP, VOICED_STOP, FRICATIVE, VOICED_FRICATIVE, NASAL = range(2, 9)


class _Name(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int), ("uid", ctypes.c_uint), ("text_position", ctypes.c_int),
        ("length", ctypes.c_int), ("audio_position", ctypes.c_int), ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p), ("id", _Name),
    ]  # fmt: skip


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


class Espeak:
    """The library, started once in a process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        self._rate = self._library.espeak_Initialize(SYNCHRONOUS, 0, None, PHONEME_EVENTS | PHONEME_IPA)
        self._samples: list[npt.NDArray[np.int16]] = []
        self._events: list[tuple[int, str]] = []
        self._callback = _Callback(self._receive)  # kept, or it would be freed
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: Any, count: int, events: Any) -> int:
        if samples and count:
            self._samples.append(np.ctypeslib.as_array(samples, (count,)).copy())
        i = 0
        while events[i].type != END_OF_EVENTS:
            if events[i].type == PHONEME_EVENT:
                self._events.append((events[i].sample, events[i].id.string.decode(errors="replace")))
            i += 1
        return 0

    def say(self, voice: str, text: str, speed: int, pitch: int, intonation: int) -> Spoken | None:
        """``text`` in espeak's phoneme notation or in letters; None if the voice says nothing."""
        self._samples, self._events = [], []
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise RuntimeError(f"espeak-ng has no voice {voice}")
        for parameter, value in ((SPEED, speed), (PITCH, pitch), (RANGE, intonation)):
            self._library.espeak_SetParameter(parameter, value, 0)
        written = text.encode() + b"\0"
        self._library.espeak_Synth(written, len(written), 0, 1, 0, UTF8 | PHONEMES, None, None)
        if not self._samples or not any(name for _, name in self._events):
            return None
        samples = resampled(np.concatenate(self._samples), self._rate)
        labels, starts = [SILENCE], [0.0]
        for place, name in self._events:
            if name.startswith("("):  # a switch of language
                return None
            labels.append(_ipa(name) if name else SILENCE)
            starts.append(place / self._rate)
        if starts[-1] >= len(samples) / 16000 - 0.001:
            labels, starts = labels[:-1], starts[:-1]
        return Spoken(samples, *merge_silences(labels, starts), "espeak-" + voice)


def _ipa(name: str) -> str:
    """The IPA of what espeak-ng calls so: its marks of ejectives and of variants are not in the IPA."""
    for written, meant in (("`", "ʼ"), ("ᵻ", "ɨ"), ("^", ""), ("-", ""), (".", ""), ("~", "\u0303")):
        name = name.replace(written, meant)
    if len(name) > 1 and name[-1] == "ɹ" and name[0] in VOWELS:
        return name[:-1] + "\u02de"  # a vowel coloured by r
    return name


@cache
def inventories() -> dict[str, dict[str, int]]:
    """Language -> mnemonic -> type, of its own phonemes and of those in the tables that it includes."""
    folder = subprocess.run(["espeak-ng", "--version"], check=True, capture_output=True, text=True).stdout
    content = (Path(folder.rsplit("Data at:", 1)[1].strip()) / "phontab").read_bytes()
    tables: list[dict[int, tuple[str, int]]] = []
    names, place = [], 4
    for _ in range(content[0]):
        count, included = content[place], content[place + 1]
        names.append(content[place + 4 : place + 36].split(b"\0")[0].decode())
        place += 36
        own = {}
        for _ in range(count):
            mnemonic, _, _, code, kind = struct.unpack_from("<IIHBB", content, place)
            own[code] = (struct.pack("<I", mnemonic).rstrip(b"\0").decode("latin1"), kind)
            place += 16
        tables.append((tables[included - 1] if included else {}) | own)
    return {name: dict(table.values()) for name, table in zip(names, tables, strict=True)}
