"""The model of ``trellis align run``, loaded by path so that each process can load its own."""

from __future__ import annotations

from trellis.core import persistence
from trellis.core.errors import ModelFileError
from trellis.speech.align.aligner import Aligner
from trellis.speech.audio.soundfile_extra import soundfile
from trellis.speech.corpus.dictionary import Dictionary


def open_aligner(
    model: str, dictionary: str | None, strip_stress: bool = False, encoding: str | None = None
) -> tuple[Aligner, Dictionary | None]:
    """The aligner in a file, and the dictionary in another."""
    soundfile()  # a missing extra is reported before any work is done
    aligner = persistence.load(model)
    if not isinstance(aligner, Aligner):
        raise ModelFileError(
            f"{model}: this is a {type(aligner).__name__}, not an aligner; train one with trellis align train"
        )
    return aligner, None if dictionary is None else Dictionary.read(dictionary, strip_stress, encoding)
