"""From a recording to its features, in pieces, so that memory holds features and not samples.

Every piece is read with a few frames of context on either side, whose features are dropped: the result is
that of :func:`trellis.speech.audio.cepstra.mfcc` on the whole recording, to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.storage import PathLike
from trellis.speech.audio.cepstra import FrameOptions, add_derivatives, static_features
from trellis.speech.audio.recordings import audio_info, load_recording


@dataclass(frozen=True)
class FramedRecording:
    """Features ``(T, D)`` of a recording of ``duration`` seconds, and what looks wrong with it."""

    features: FloatArray
    duration: float
    flags: tuple[str, ...]


def frame_recording(
    path: PathLike,
    options: FrameOptions | None = None,
    channel: int | None = None,
    piece_seconds: float = 60.0,
) -> FramedRecording:
    """The features of a recording of any length; ``piece_seconds`` bounds the samples held at one time."""
    options = options or FrameOptions()
    info = audio_info(path)
    rate, step = options.rate, options.step
    n_samples = -(-info.frames * rate // info.rate)
    n_frames = options.n_frames(n_samples)
    per_piece = max(1, round(piece_seconds * rate / step))
    context = -(-options.window // step)
    pieces, flags = [np.zeros((0, options.n_static))], []
    for first in range(0, max(n_frames, 1), per_piece):
        last = min(first + per_piece, n_frames)
        begin = max(0, first - context)
        end = None if last + context >= n_frames else (last + context) * step / rate
        recording = load_recording(path, rate, channel, begin * step / rate, end)
        static = static_features(recording.samples, rate, options)
        pieces.append(static[first - begin : last - begin])
        flags.append(recording.flags)
    features = add_derivatives(np.concatenate(pieces), options)
    return FramedRecording(features, n_samples / rate, _merge_flags(flags))


def _merge_flags(flags: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Flags of the whole recording: clipped if any piece is, silent only if every piece is."""
    found = dict.fromkeys(flag for piece in flags for flag in piece)
    return tuple(f for f in found if "silent" not in f or all(f in piece for piece in flags))
