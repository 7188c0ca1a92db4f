"""Random changes to utterances while training, so that the network learns neither voices nor habits by heart.

Each visit of an utterance: silence at either end is sometimes cut off, in part or as a whole, because
recordings need not begin with silence even if all of the corpus do; and silences, wherever they are, are
sometimes lengthened in their middle, by their own frames to and fro or by the quietest value of every
channel, as if somebody had padded the recording. The channels are warped (channel b is
read at ``alpha`` b + shift, between its neighbours), scaled as a whole and shifted each; half of the time a
few neighbouring channels are masked; sometimes quiet frames are filled up to a floor, as noise would do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trellis.core.arrays import Float32Array
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample

TRIMMED_SHARE = 0.2
LENGTHENED_SHARE, MEAN_LENGTHENING, MAX_LENGTHENING = 0.3, 25.0, 100  # frames
WARP, SHIFT = 0.12, 0.5
SCALE, OFFSET = 0.15, 0.15
MASKED_CHANNELS, MASKED_SHARE = 4, 0.5
FLOOR, FLOOR_SHARE = 1.0, 0.3


def vary(example: NetworkExample, rng: np.random.Generator) -> NetworkExample:
    """A changed copy of an utterance with standardised frames."""
    trimmed = lengthen_silences(trim_end(trim_start(example, rng), rng), rng)
    return replace(trimmed, frames=change_frames(trimmed.frames, rng))


def trim_start(example: NetworkExample, rng: np.random.Generator) -> NetworkExample:
    """Sometimes without some or all of the silence that it begins with."""
    if len(example.starts) < 3 or not example.silent[0] or rng.random() >= TRIMMED_SHARE:
        return example
    whole = rng.random() < 0.5
    cut = int(example.starts[1] if whole else rng.uniform(0.0, example.starts[1]))
    first = int(cut == int(example.starts[1]))
    starts = example.starts[first:] - cut
    starts[0] = 0.0
    return NetworkExample(
        example.frames[cut:],
        example.codes[first:],
        example.descriptors[first:],
        example.silent[first:],
        starts,
    )


def trim_end(example: NetworkExample, rng: np.random.Generator) -> NetworkExample:
    """Sometimes without some or all of the silence that it ends with."""
    if len(example.starts) < 3 or not example.silent[-1] or rng.random() >= TRIMMED_SHARE:
        return example
    whole, begin = rng.random() < 0.5, int(np.ceil(example.starts[-1]))
    end = begin if whole else int(rng.integers(begin, len(example.frames) + 1))
    last = len(example.starts) - int(end == begin)
    return NetworkExample(
        example.frames[:end],
        example.codes[:last],
        example.descriptors[:last],
        example.silent[:last],
        example.starts[:last],
    )


def lengthen_silences(example: NetworkExample, rng: np.random.Generator) -> NetworkExample:
    """Sometimes with silences that go on for longer."""
    chosen = np.flatnonzero(example.silent & (rng.random(len(example.silent)) < LENGTHENED_SHARE))
    if not len(chosen):
        return example
    quietest = example.frames.min(axis=0, keepdims=True)
    ends = np.append(example.starts[1:], len(example.frames))
    pieces, starts, taken = [], example.starts.copy(), 0
    for k in chosen:
        begin, end = int(np.ceil(example.starts[k])), int(ends[k])
        if end <= begin:  # shorter than a frame
            continue
        at = int(rng.integers(begin, end))
        more = 1 + int(min(rng.exponential(MEAN_LENGTHENING), MAX_LENGTHENING))
        own = example.frames[begin:end]
        filled = quietest if rng.random() < 0.5 else np.concatenate([own, own[::-1]])
        pieces += [example.frames[taken:at], np.resize(filled, (more, filled.shape[1]))]
        taken = at
        starts[k + 1 :] += more
    return replace(example, frames=np.concatenate([*pieces, example.frames[taken:]]), starts=starts)


def change_frames(frames: Float32Array, rng: np.random.Generator) -> Float32Array:
    """A changed copy of frames: warped, scaled, shifted, masked, filled up."""
    n_channels = frames.shape[1]
    offset = rng.normal(0, OFFSET, (1, n_channels)).astype(np.float32)
    changed: Float32Array = _warp(frames, rng) * np.float32(rng.uniform(1 - SCALE, 1 + SCALE)) + offset
    if n_channels > MASKED_CHANNELS and rng.random() < MASKED_SHARE:
        begin = rng.integers(n_channels - MASKED_CHANNELS)
        changed[:, begin : begin + rng.integers(1, MASKED_CHANNELS + 1)] = 0.0
    if rng.random() < FLOOR_SHARE:
        changed = np.maximum(changed, changed.min(axis=0) + np.float32(rng.uniform(0.0, FLOOR)))
    return changed


def _warp(frames: Float32Array, rng: np.random.Generator) -> Float32Array:
    last = frames.shape[1] - 1
    alpha, shift = rng.uniform(1 - WARP, 1 + WARP), rng.uniform(-SHIFT, SHIFT)
    if last < 1:
        return frames
    place = np.clip(alpha * np.arange(last + 1.0) + shift, 0.0, last)
    low = np.minimum(place.astype(np.int64), last - 1)
    share = (place - low).astype(np.float32)
    return np.asarray(frames[:, low] * (1 - share) + frames[:, low + 1] * share)
