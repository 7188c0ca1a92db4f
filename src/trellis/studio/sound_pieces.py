"""The sound of a recording, read by pieces when it is asked for, and as WAV that can be asked for by byte
range.

Samples are 16-bit mono at the recording's own rate, so nothing is resampled; pieces of ten seconds are kept
until others need the memory. The WAV is a header of 44 bytes and then the samples: byte b of it is in sample
(b - 44) / 2.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trellis.speech.audio.recordings import audio_info, load_recording

HEADER = 44
PIECE_SECONDS = 10
_MAX_BYTES = 128 * 2**20  # of pieces, for all recordings together
Samples = NDArray[np.int16]
_Key = tuple[Path, str, int]


class PieceCache:
    """The pieces that were asked for last, of all recordings."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._pieces: OrderedDict[_Key, Samples] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes, self._max = 0, max_bytes

    def get(self, key: _Key) -> Samples | None:
        with self._lock:
            if key in self._pieces:
                self._pieces.move_to_end(key)
            return self._pieces.get(key)

    def put(self, key: _Key, piece: Samples) -> None:
        with self._lock:
            if key not in self._pieces:
                self._pieces[key] = piece
                self._bytes += piece.nbytes
            while self._bytes > self._max and len(self._pieces) > 1:
                self._bytes -= self._pieces.popitem(last=False)[1].nbytes


class SoundPieces:
    """One channel of a recording; ``key`` tells its present content from earlier ones."""

    def __init__(self, path: Path, channel: int | None, cache: PieceCache, key: str = "") -> None:
        info = audio_info(path)
        self.key = key
        self.rate, self.n_samples, self.duration = info.rate, info.frames, info.duration
        self._path, self._channel, self._cache = path, channel, cache
        self._piece = PIECE_SECONDS * self.rate

    def samples(self, first: int, last: int) -> Samples:
        """Samples ``first`` to ``last``, with silence where there are none."""
        inside = range(max(0, first), min(last, self.n_samples))
        parts = [np.zeros(max(0, min(0, last) - first), np.int16)]
        if inside:
            for number in range(inside.start // self._piece, (inside.stop - 1) // self._piece + 1):
                begin = number * self._piece
                parts.append(self._read(number)[max(0, inside.start - begin) : inside.stop - begin])
        parts.append(np.zeros(max(0, last - max(self.n_samples, first)), np.int16))
        return np.concatenate(parts)

    def excerpt(self, start: float, seconds: float) -> Samples:
        """A short part, read without keeping the piece that it lies in."""
        end = min(start + seconds, self.duration)
        return _whole_numbers(load_recording(self._path, None, self._channel, start, end).samples)

    def _read(self, number: int) -> Samples:
        key = (self._path, self.key, number)
        piece = self._cache.get(key)
        if piece is None:
            start = number * PIECE_SECONDS
            end = min(start + PIECE_SECONDS, self.n_samples / self.rate)
            piece = _whole_numbers(load_recording(self._path, None, self._channel, start, end).samples)
            self._cache.put(key, piece)
        return piece

    @property
    def n_bytes(self) -> int:
        return HEADER + 2 * self.n_samples

    def wav(self, first: int, last: int) -> bytes:
        """Bytes ``first`` to ``last`` of the recording as WAV."""
        head = self._header()[first : min(last, HEADER)]
        begin, end = max(first, HEADER) - HEADER, max(last, HEADER) - HEADER
        body = (
            self.samples(begin // 2, -(-end // 2)).astype("<i2", copy=False).tobytes() if end > begin else b""
        )
        return head + body[begin % 2 : begin % 2 + end - begin]

    def _header(self) -> bytes:
        size = min(2 * self.n_samples, 2**32 - 45)
        form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, self.rate, 2 * self.rate, 2, 16)
        return struct.pack("<4sI4s", b"RIFF", size + 36, b"WAVE") + form + struct.pack("<4sI", b"data", size)


def _whole_numbers(samples: NDArray[np.float64]) -> Samples:
    return np.round(np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
