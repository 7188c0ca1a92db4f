"""Speech: recordings, phone alignments in every common format, and a forced aligner that learns boundaries.

The public names are imported on first use. Reading recordings needs the extra ``speech``
(``pip install 'trellis-learn[speech]'``); alignments, dictionaries and phone tables need nothing but NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner as Aligner
    from trellis.speech.audio.cepstra import FrameOptions as FrameOptions
    from trellis.speech.audio.cepstra import mfcc as mfcc
    from trellis.speech.audio.recordings import read_audio as read_audio
    from trellis.speech.builtin import builtin_aligner as builtin_aligner
    from trellis.speech.corpus.corpus import Corpus as Corpus
    from trellis.speech.corpus.corpus import Utterance as Utterance
    from trellis.speech.corpus.dictionary import Dictionary as Dictionary
    from trellis.speech.corpus.synthetic import synthetic_corpus as synthetic_corpus
    from trellis.speech.formats.alignment import Alignment as Alignment
    from trellis.speech.formats.alignment import Interval as Interval
    from trellis.speech.pronunciation.english import EnglishDictionary as EnglishDictionary

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "align.aligner": "Aligner",
        "audio.cepstra": "FrameOptions mfcc",
        "audio.recordings": "read_audio",
        "builtin": "builtin_aligner",
        "corpus.corpus": "Corpus Utterance",
        "corpus.dictionary": "Dictionary",
        "corpus.synthetic": "synthetic_corpus",
        "formats.alignment": "Alignment Interval",
        "pronunciation.english": "EnglishDictionary",
    },
)
