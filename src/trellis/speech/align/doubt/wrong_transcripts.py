"""Transcripts that are not what was said, made from those that are: what a match score learns from.

    neighbour   the phones of another utterance
    omitted     one phone left out
    inserted    one phone too many
    exchanged   one phone for another
    shuffled    the phones in another order

Silences stay where they are at the ends. A mask says which phones are wrong; beside a phone that was left
out, its neighbours are, because one of them has to cover its frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import BoolArray
from trellis.speech.phones.silence import is_silence

KINDS = ("neighbour", "omitted", "inserted", "exchanged", "shuffled")


@dataclass(frozen=True, eq=False)
class WrongTranscript:
    """``wrong``: (n,), which of its labels are wrong."""

    kind: str
    labels: tuple[str, ...]
    wrong: BoolArray


def wrong_transcripts(
    labels: Sequence[str], other: Sequence[str], inventory: Sequence[str], rng: np.random.Generator
) -> list[WrongTranscript]:
    """One of each kind, but for those that would be the same as ``labels``. ``other``: the transcript of
    another utterance; ``inventory``: phones to insert."""
    spoken = [i for i, label in enumerate(labels) if not is_silence(label)]
    if not spoken or not inventory:
        return []
    first, end = spoken[0], spoken[-1] + 1
    head, middle, tail = list(labels[:first]), list(labels[first:end]), list(labels[end:])
    n = len(middle)
    k, at = int(rng.integers(n)), int(rng.integers(n + 1))
    new, newer = (str(inventory[int(rng.integers(len(inventory)))]) for _ in range(2))
    order = rng.permutation(n).tolist()
    theirs = [label for label in other if not is_silence(label)]
    beside = [i in (k - 1, k) for i in range(n - 1)]
    made: dict[str, tuple[list[str], list[bool]]] = {
        "neighbour": (theirs, [True] * len(theirs)),
        "omitted": (middle[:k] + middle[k + 1 :], beside),
        "inserted": ([*middle[:at], new, *middle[at:]], [i == at for i in range(n + 1)]),
        "exchanged": ([*middle[:k], newer, *middle[k + 1 :]], [i == k for i in range(n)]),
        "shuffled": ([middle[i] for i in order], [middle[i] != middle[j] for j, i in enumerate(order)]),
    }
    return [
        WrongTranscript(
            kind,
            tuple(head + inner + tail),
            np.array([False] * len(head) + wrong + [False] * len(tail), dtype=np.bool_),
        )
        for kind, (inner, wrong) in made.items()
        if inner and inner != middle
    ]
