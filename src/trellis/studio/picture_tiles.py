"""Waveform and spectrogram of a recording as tiles, each computed when somebody looks at it.

At level L a column stands for ``0.5 * 2**L`` ms, and a tile has ``COLUMNS`` of them. A tile is

* ``2 * FINE * COLUMNS`` numbers of 16 bits: the least and the greatest sample in each quarter of a column;
* ``ROWS * COLUMNS`` bytes: the spectrogram from 0 Hz (first row) to 8 kHz or half of the sampling rate, row
  by row, 255 at the loudest and 0 at ``RANGE_DB`` below it. The page gives them colours.

The spectrogram is that of a Gaussian window about 5 ms wide, as phoneticians look at formants, of up to 16 ms
where a column stands for more time; high frequencies are raised by 6 dB per octave. A column longer than 16
ms is the mean power of up to eight windows in it. From 16 ms per column on, the waveform comes from peaks of
64 samples, which are kept for the whole recording (0.5 MB an hour at 16 kHz).
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len, rfft

from trellis.core.errors import DataError
from trellis.studio.sound_pieces import PIECE_SECONDS, SoundPieces

COLUMNS, ROWS, FINE = 512, 160, 4
LEVELS = 14  # the coarsest column is 4 s
FINEST = 0.0005  # seconds per column at level 0
RANGE_DB = 70.0
TOP_HZ = 8000.0
_NARROW, _WIDE = 0.005, 0.016  # half of a window, in seconds
_STRETCH = 60.0  # seconds of samples in memory at once
_SOME = 8  # windows per column
_BLOCK = 64  # samples per peak
_KEPT = 120  # tiles of a recording
_LISTENED = 64  # places that tell how loud it is
_GOLDEN = 0.6180339887  # steps by it fall together with no rhythm of the recording
Peaks = NDArray[np.int16]


class PictureTiles:
    """The tiles of one recording; those computed last are kept."""

    def __init__(self, sound: SoundPieces) -> None:
        self._sound = sound
        self._tiles: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._size = next_fast_len(int(2 * _WIDE * sound.rate) + 2, real=True)
        self._rows = _row_weights(self._size, sound.rate)
        self._loudest: float | None = None
        self._peaks: dict[int, Peaks] = {}  # by piece

    def n_tiles(self, level: int) -> int:
        return int(np.ceil(self._sound.duration / (FINEST * 2**level * COLUMNS)))

    def tile(self, level: int, number: int) -> bytes:
        """The tile with this number, counted from the beginning of the recording."""
        if not (0 <= level < LEVELS and 0 <= number < self.n_tiles(level)):
            raise DataError(f"there is no tile {number} at level {level}")
        key = (level, number)
        with self._lock:
            if key in self._tiles:
                self._tiles.move_to_end(key)
                return self._tiles[key]
        made = self._wave(level, number).tobytes() + self._spectrum(level, number).tobytes()
        with self._lock:
            self._tiles[key] = made
            while len(self._tiles) > _KEPT:
                self._tiles.popitem(last=False)
        return made

    def overview(self, columns: int) -> bytes:
        """The least and the greatest sample in each of so many equal parts of the recording, 16 bits each."""
        n_blocks = -(-self._sound.n_samples // _BLOCK)
        low, high = self._coarse(0, n_blocks)
        starts = np.minimum(np.arange(columns) * n_blocks // columns, n_blocks - 1)
        pairs = [np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)]
        return np.stack(pairs, axis=1).astype("<i2").tobytes()

    def _wave(self, level: int, number: int) -> Peaks:
        column = FINEST * 2**level * self._sound.rate
        edges = np.round((number * COLUMNS + np.arange(COLUMNS * FINE + 1) / FINE) * column).astype(np.int64)
        first, last = int(edges[0]), int(edges[-1])
        if column / FINE < 4 * _BLOCK:
            samples = self._sound.samples(first, max(last, first + 1))
            low = high = samples
            starts = edges[:-1] - first
        else:  # a quarter of a column spans several peaks
            low, high = self._coarse(first // _BLOCK, -(-last // _BLOCK))
            starts = edges[:-1] // _BLOCK - first // _BLOCK
        starts = np.minimum(starts, len(low) - 1)
        result = np.empty((COLUMNS * FINE, 2), "<i2")
        result[:, 0] = np.minimum.reduceat(low, starts)
        result[:, 1] = np.maximum.reduceat(high, starts)
        return result

    def _coarse(self, first: int, last: int) -> tuple[Peaks, Peaks]:
        """Peaks ``first`` to ``last``, with silence after the end."""
        per_piece = PIECE_SECONDS * self._sound.rate // _BLOCK + 1
        stride = PIECE_SECONDS * self._sound.rate / _BLOCK
        result = np.zeros((2, last - first), np.int16)
        for piece in range(int(first / stride), int(last / stride) + 1):
            begin = piece * PIECE_SECONDS * self._sound.rate
            if begin >= self._sound.n_samples:
                break
            peaks = self._peaks.get(piece)
            if peaks is None:
                peaks = self._peaks[piece] = self._block_peaks(begin // _BLOCK, per_piece)
            at = begin // _BLOCK - first
            a, b = max(0, at), min(last - first, at + per_piece)
            if a < b:
                result[0, a:b] = np.minimum(result[0, a:b], peaks[0, a - at : b - at])
                result[1, a:b] = np.maximum(result[1, a:b], peaks[1, a - at : b - at])
        return result[0], result[1]

    def _block_peaks(self, first: int, count: int) -> Peaks:
        blocks = self._sound.samples(first * _BLOCK, (first + count) * _BLOCK).reshape(-1, _BLOCK)
        return np.stack([blocks.min(axis=1), blocks.max(axis=1)])

    def _spectrum(self, level: int, number: int) -> NDArray[np.uint8]:
        hop = FINEST * 2**level
        per_column = int(np.clip(np.ceil(hop / _WIDE), 1, _SOME))
        times = (number * COLUMNS + (np.arange(COLUMNS * per_column) + 0.5) / per_column) * hop
        reach = int(np.clip(1.25 * hop, _NARROW, _WIDE) * self._sound.rate)
        power = self._power(times, reach).reshape(COLUMNS, per_column, ROWS).mean(axis=1)
        above = _decibels(power) - self._reference() + RANGE_DB
        shades = np.clip(above * (255.0 / RANGE_DB), 0, 255).astype(np.uint8)
        return np.ascontiguousarray(shades.T)

    def _power(self, times: NDArray[np.float64], reach: int) -> NDArray[np.float32]:
        """Power by time and row, by Gaussian windows that reach ``reach`` samples to either side."""
        centres = np.round(times * self._sound.rate).astype(np.int64)
        seconds = max(float(times[-1] - times[0]), 1e-3)
        parts = np.array_split(centres, int(np.clip(np.ceil(seconds / _STRETCH), 1, len(centres))))
        return np.concatenate([self._stretch(part, reach) for part in parts])

    def _stretch(self, centres: NDArray[np.int64], reach: int) -> NDArray[np.float32]:
        """The same for times so near to each other that all samples between them fit into memory."""
        first = int(centres[0]) - reach - 1
        samples = self._sound.samples(first, int(centres[-1]) + reach + 1).astype(np.float32)
        raised = samples[1:] - np.float32(0.97) * samples[:-1]
        return self._windows(raised, centres - reach - 1 - first, reach)

    def _windows(
        self, raised: NDArray[np.float32], starts: NDArray[np.int64], reach: int
    ) -> NDArray[np.float32]:
        shape = np.exp(-12.0 * ((np.arange(2 * reach) + 0.5) / (2 * reach) - 0.5) ** 2) / reach
        frames = raised[starts[:, None] + np.arange(2 * reach)] * shape.astype(np.float32)
        spectra = rfft(frames, self._size, axis=1)
        power: NDArray[np.float32] = (spectra.real**2 + spectra.imag**2) @ self._rows
        return power

    def _reference(self) -> float:
        """The decibels of the loudest parts, from places all over the recording."""
        if self._loudest is None:
            reach, duration = int(_NARROW * self._sound.rate), self._sound.duration
            found = []
            for k in range(_LISTENED):
                start = max(0.0, duration - 0.1) * ((k * _GOLDEN) % 1.0)
                part = self._sound.excerpt(start, 0.1).astype(np.float32)
                count = (len(part) - 1 - 2 * reach) // reach
                if count > 0:
                    raised = part[1:] - np.float32(0.97) * part[:-1]
                    power = self._windows(raised, np.arange(count, dtype=np.int64) * reach, reach)
                    found.append(float(_decibels(power).max()))
            self._loudest = float(np.quantile(found, 0.97)) if found else 60.0
        return self._loudest


def _decibels(power: NDArray[np.float32]) -> NDArray[np.float32]:
    decibels: NDArray[np.float32] = 10.0 * np.log10(power + np.float32(1e-3))
    return decibels


def _row_weights(size: int, rate: int) -> NDArray[np.float32]:
    """Bins of the transform to rows of the picture: triangles as wide as the wider of row and bin."""
    bins = np.arange(size // 2 + 1) * rate / size
    top = min(TOP_HZ, rate / 2)
    centres = (np.arange(ROWS) + 0.5) * top / ROWS
    width = max(top / ROWS, rate / size)
    weights = np.maximum(0.0, 1.0 - np.abs(bins[:, None] - centres[None, :]) / width)
    return np.asarray(weights / np.maximum(weights.sum(axis=0), 1e-12), np.float32)
