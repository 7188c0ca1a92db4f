"""What a model knows that is nearest to a phone that it does not know, for messages.

Nearest are the classes whose articulatory features differ least from those of the phone, where both can be
read; otherwise those whose names are similar.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.speech.phones.alphabets import guess_alphabet
from trellis.speech.phones.articulation import articulatory_features
from trellis.speech.phones.noise import is_noise
from trellis.speech.phones.silence import is_silence

NEAREST = 2
_NAMED = 6  # phones in one message
_NAMES = {"ipa": "the IPA", "arpabet": "ARPABET", "xsampa": "X-SAMPA"}


def nearest(label: str, known: Sequence[str], alphabet: str) -> tuple[str, ...]:
    """Up to ``NEAREST`` of the phones ``known``."""
    features = _features(label, guess_alphabet([label], alphabet))
    if features is not None:
        rows = {name: row for name in known if (row := _features(name, alphabet)) is not None}
        if rows:
            names = list(rows)
            distance = np.abs(np.array(list(rows.values())) - features).sum(axis=1)
            return tuple(names[i] for i in np.argsort(distance, kind="stable")[:NEAREST])
    return tuple(get_close_matches(label, known, NEAREST, 0.5))


def describe_unknown(
    labels: Sequence[str], known: Sequence[str], alphabet: str, articulated: bool, where: str = ""
) -> str:
    """One sentence: which phones, what is nearest to each, and what to do."""
    place, plural = f"{where}: " if where else "", "s" * (len(labels) > 1)
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    if articulated:
        named = " ".join(map(repr, labels[:_NAMED])) + more
        return (
            f"{place}the model does not know the phone{plural} {named}, not in {_NAMES[alphabet]}; correct "
            f"the label{plural}, give the right --alphabet, or write noise as spn"
        )
    named = ", ".join(_with_nearest(label, known, alphabet) for label in labels[:_NAMED]) + more
    return (
        f"{place}the model does not know the phone{plural} {named}; rename the label{plural}, or train with "
        "--fold voiced, which knows new phones by their articulation"
    )


def _with_nearest(label: str, known: Sequence[str], alphabet: str) -> str:
    near = nearest(label, known, alphabet)
    return f"{label!r} (nearest: {', '.join(near)})" if near else repr(label)


def _features(label: str, alphabet: str) -> FloatArray | None:
    if is_silence(label) or is_noise(label):
        return None
    try:
        return articulatory_features(label, alphabet)
    except DataError:
        return None
