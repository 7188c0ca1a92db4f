"""What every synthesiser of the builtin model's corpus returns: samples, and phones with their starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import resample_poly

RATE = 16000
SILENCE = "sil"
Samples = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Spoken:
    """``samples`` at :data:`RATE`, loudest at 1; phones in the IPA, silences :data:`SILENCE`; ``starts`` in
    seconds, the first 0; ``voice``: the group that the utterance belongs to."""

    samples: Samples
    labels: tuple[str, ...]
    starts: tuple[float, ...]
    voice: str

    @property
    def duration(self) -> float:
        return len(self.samples) / RATE

    @property
    def ends(self) -> tuple[float, ...]:
        return (*self.starts[1:], self.duration)


def resampled(samples: npt.NDArray[np.generic], rate: int) -> Samples:
    """Samples of any kind at :data:`RATE`, loudest at 1."""
    values = np.asarray(samples, dtype=np.float64)
    if rate != RATE:
        common = int(np.gcd(RATE, rate))
        values = resample_poly(values, RATE // common, rate // common)
    peak = float(np.abs(values).max(initial=0.0))
    return (values / peak if peak > 0.0 else values).astype(np.float32)


def merge_silences(labels: list[str], starts: list[float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Silences that follow one another as one, the first phone from 0 on."""
    kept = [i for i, x in enumerate(labels) if not (i and x == SILENCE == labels[i - 1])]
    found = [starts[i] for i in kept]
    found[0] = 0.0
    return tuple(labels[i] for i in kept), tuple(found)
