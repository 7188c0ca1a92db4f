"""Speech: recordings, phone alignments in every common format, and a forced aligner that learns boundaries.

The public names are imported on first use. Reading recordings needs the extra ``speech``
(``pip install 'trellis-learn[speech]'``); alignments, dictionaries and phone tables need nothing but NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

# public name -> module that defines it
_EXPORTS = {
    "Aligner": "trellis.speech.align.aligner",
    "Alignment": "trellis.speech.formats.alignment",
    "Interval": "trellis.speech.formats.alignment",
    "Corpus": "trellis.speech.corpus.corpus",
    "Utterance": "trellis.speech.corpus.corpus",
    "Dictionary": "trellis.speech.corpus.dictionary",
    "FrameOptions": "trellis.speech.audio.cepstra",
    "mfcc": "trellis.speech.audio.cepstra",
    "read_audio": "trellis.speech.audio.recordings",
    "synthetic_corpus": "trellis.speech.corpus.synthetic",
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
    from trellis.speech.align.aligner import Aligner
    from trellis.speech.audio.cepstra import FrameOptions, mfcc
    from trellis.speech.audio.recordings import read_audio
    from trellis.speech.corpus.corpus import Corpus, Utterance
    from trellis.speech.corpus.dictionary import Dictionary
    from trellis.speech.corpus.synthetic import synthetic_corpus
    from trellis.speech.formats.alignment import Alignment, Interval


__getattr__, __dir__ = lazy_exports(__name__, _EXPORTS)
