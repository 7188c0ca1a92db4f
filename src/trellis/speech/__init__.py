"""Speech: recordings, phone alignments in every common format, and a forced aligner that learns boundaries.

The public names are imported on first use. Reading recordings needs the extra ``speech``
(``pip install 'trellis-learn[speech]'``); alignments, dictionaries and phone tables need nothing but NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# public name -> module that defines it
_EXPORTS = {
    "Aligner": "trellis.speech.aligner",
    "Alignment": "trellis.speech.alignment",
    "Interval": "trellis.speech.alignment",
    "Corpus": "trellis.speech.corpus",
    "Utterance": "trellis.speech.corpus",
    "Dictionary": "trellis.speech.dictionary",
    "FrameOptions": "trellis.speech.frames",
    "mfcc": "trellis.speech.frames",
    "read_audio": "trellis.speech.audio",
    "synthetic_corpus": "trellis.speech.synthetic",
}

__all__ = [
    "Aligner",
    "Alignment",
    "Corpus",
    "Dictionary",
    "FrameOptions",
    "Interval",
    "Utterance",
    "mfcc",
    "read_audio",
    "synthetic_corpus",
]

if TYPE_CHECKING:
    from trellis.speech.aligner import Aligner
    from trellis.speech.alignment import Alignment, Interval
    from trellis.speech.audio import read_audio
    from trellis.speech.corpus import Corpus, Utterance
    from trellis.speech.dictionary import Dictionary
    from trellis.speech.frames import FrameOptions, mfcc
    from trellis.speech.synthetic import synthetic_corpus


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'trellis.speech' has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
