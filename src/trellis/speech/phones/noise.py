"""Which labels mean a sound that is no phone: noise, laughter, speech that nobody transcribed.

The Montreal aligner writes ``spn`` for words that it does not know, Munich's ``<usb>`` and ``<nib>``, Buckeye
``VOCNOISE``, ``{B_TRANS}`` and the like. Whatever stands in brackets is a remark, not a phone, unless it
means silence (:mod:`trellis.speech.phones.silence`). Labels are compared without regard to case.

Labels of noise have the class :data:`NOISE` in every folding, and any sound can fill them
(:mod:`trellis.speech.acoustics.noise_scores`).
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from trellis.core.errors import DataError
from trellis.speech.phones.silence import is_silence

NOISE = "noise"  # the class of all of them
SPOKEN_NOISE = "spn"  # the label of a word that is not in the dictionary
UnknownPhones = Literal["error", "other", "noise"]
UNKNOWN_PHONES: tuple[str, ...] = get_args(UnknownPhones)
# fmt: off
NOISES = frozenset((
    "spn", "nsn", "lau", "unk", "oov", "noise", "vocnoise", "laugh", "laughter", "breath", "cough", "iver",
    "unknown", "exclude", "xxx", "+noise+", "+breath+", "+cough+", "++noise++", "++breath++", "++cough++",
))
# fmt: on
_BRACKETED = re.compile(r"<[^<>]+>|\[[^\[\]]+\]|\{[^{}]+\}|\([^()]+\)|<<.+>>|\[\[.+\]\]")


def is_noise(label: str) -> bool:
    """Whether ``label`` is one of :data:`NOISES` or a remark in brackets, and not a silence."""
    text = label.strip().lower()
    return text in NOISES or (_BRACKETED.fullmatch(text) is not None and not is_silence(text))


def check_unknown_phones(choice: str) -> None:
    if choice not in UNKNOWN_PHONES:
        raise DataError(f"unknown={choice!r}; choose error, other or noise")
