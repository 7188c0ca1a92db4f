"""Where phones of synthesised speech begin for the ear, by the clean samples alone.

The level L(t) is the energy of 5 ms around t, in dB, every millisecond; B(t) the same below 900 Hz, F(t) that
between 400 and 3000 Hz.

* *Closures.* Synthesisers that give the burst as the start of a voiceless stop leave its closure to the phone
  before. The closure is the stretch before the burst that is ``QUIET`` dB below the phone before: the stop
  starts where it starts.
* *Voicing.* Between a voiceless obstruent and a voiced sound the boundary lies where voicing begins or ends:
  where B passes halfway between its levels on both sides, but at most ``FULL`` dB below the louder one (a
  burst is not yet a vowel), and at most ``REACH`` away. Between a voiced stop or nasal and a vowel it lies
  where the formants begin or end, by F.
* *Edges.* Beside a silence, a phone starts (ends) with the first (last) millisecond that is louder than
  ``FAINT`` dB below the loudest of the recording and than the noise that will be added: a stop after a pause
  starts with its burst, and a vowel before a pause ends where it can no longer be heard.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.signal import butter, sosfiltfilt

from builtin_speech.spoken import RATE, SILENCE, Spoken
from trellis.speech.phones.articulation import articulation
from trellis.speech.phones.ipa import Articulation

HOP = RATE // 1000  # samples; levels are per millisecond
WINDOW = 5 * HOP
QUIET, FAINT = 30.0, 38.0  # dB
REACH = 25  # ms
CLEAR = 8.0  # dB: a rise that can be located
FULL = 10.0  # dB
SHORTEST = 0.012  # s
LONGEST_CLOSURE = 0.25  # s
OBSTRUENTS = ("stop", "affricate", "fricative")

Levels = npt.NDArray[np.float64]


def levels(samples: npt.NDArray[np.generic]) -> Levels:
    """L, one value per millisecond."""
    total = np.concatenate([[0.0], np.cumsum(np.asarray(samples, dtype=np.float64) ** 2)])
    middle = np.arange(0, len(samples), HOP)
    low, high = np.maximum(middle - WINDOW // 2, 0), np.minimum(middle + WINDOW // 2, len(samples))
    energy: Levels = (total[high] - total[low]) / WINDOW
    return 10.0 * np.log10(energy + 1e-9)


def band_levels(samples: npt.NDArray[np.generic], low: float, high: float) -> Levels:
    """The level of what lies between two frequencies."""
    return levels(sosfiltfilt(butter(2, (low, high), "bandpass", fs=RATE, output="sos"), samples))


def start_closures_early(spoken: Spoken) -> Spoken:
    """Voiceless stops and affricates from the beginning of their closures on."""
    loud, starts = levels(spoken.samples), list(spoken.starts)
    for i in range(1, len(starts)):
        phone = articulation(spoken.labels[i])
        if phone.broad not in ("stop", "affricate", "click") or spoken.labels[i - 1] == SILENCE:
            continue
        begin, burst = int(1000 * starts[i - 1]), int(1000 * starts[i])
        before = loud[begin:burst]
        if len(before) < 2:
            continue
        quiet = before < before.max() - QUIET
        if quiet[-5:].all():
            length = len(quiet) if quiet.all() else int(np.argmin(quiet[::-1]))
            starts[i] = max(starts[i] - min(length / 1000, LONGEST_CLOSURE), starts[i - 1] + SHORTEST)
    return replace(spoken, starts=tuple(starts))


def move_to_voicing(spoken: Spoken) -> Spoken:
    """Boundaries between obstruents and other sounds where voicing, or formants, begin or end."""
    voice = band_levels(spoken.samples, 60.0, 900.0)
    formants = band_levels(spoken.samples, 400.0, 3000.0)
    starts = list(spoken.starts)
    for i in range(1, len(starts)):
        left, right = (articulation(x) for x in spoken.labels[i - 1 : i + 1])
        rising = _rising(left, right)
        if rising is None:
            continue
        end = starts[i + 1] if i + 1 < len(starts) else spoken.duration
        first = max(int(1000 * (starts[i - 1] + SHORTEST)), int(1000 * starts[i]) - REACH)
        last = min(int(1000 * (end - SHORTEST)), int(1000 * starts[i]) + REACH)
        level = voice if left.voiced != right.voiced else formants
        part = level[first : last + 1] if rising else level[first : last + 1][::-1]
        if len(part) < 10 or part[-5:].mean() - part[:5].mean() < CLEAR:
            continue
        threshold = max((part[:5].mean() + part[-5:].mean()) / 2, part[-5:].mean() - FULL)
        crossing = int(np.argmax(part > threshold))
        starts[i] = (first + crossing if rising else last - crossing) / 1000
    return replace(spoken, starts=tuple(starts))


def _rising(left: Articulation, right: Articulation) -> bool | None:
    """Whether voicing or formants begin at a boundary; None if neither begins or ends."""
    if "silence" in (left.broad, right.broad):
        return None
    if left.voiced != right.voiced and (right if left.voiced else left).broad in OBSTRUENTS:
        return right.voiced
    for one, other in ((left, right), (right, left)):
        if one.voiced and one.broad in ("stop", "nasal") and other.broad == "vowel" and other.voiced:
            return one is left
    return None


def move_edges(spoken: Spoken, noise: float) -> Spoken:
    """Phones beside silences from where to where they can be heard over ``noise`` (dB)."""
    loud, starts = levels(spoken.samples), list(spoken.starts)
    heard = loud > max(loud.max() - FAINT, noise)
    for i in range(1, len(starts)):
        end = starts[i + 1] if i + 1 < len(starts) else spoken.duration
        if SILENCE not in (spoken.labels[i - 1], spoken.labels[i]):
            continue
        first, last = int(1000 * (starts[i - 1] + SHORTEST)), int(1000 * (end - SHORTEST))
        here = int(1000 * starts[i])
        if spoken.labels[i] == SILENCE:
            audible = np.flatnonzero(heard[first : min(last, here + 150)])
            if len(audible):
                starts[i] = (first + int(audible[-1]) + 1) / 1000
        else:
            audible = np.flatnonzero(heard[max(first, here - 60) : last])
            if len(audible):
                starts[i] = (max(first, here - 60) + int(audible[0])) / 1000
    return replace(spoken, starts=tuple(starts))
