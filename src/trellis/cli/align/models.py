"""The model that ``trellis align run`` works with, opened by name so that each process can open its own."""

from __future__ import annotations

from trellis.errors import ModelFileError
from trellis.estimators import persistence
from trellis.speech.aligner import Aligner
from trellis.speech.dictionary import Dictionary
from trellis.speech.extras import soundfile


def open_aligner(
    model: str, dictionary: str | None, strip_stress: bool = False
) -> tuple[Aligner, Dictionary | None]:
    """The aligner in a file, and the dictionary in another."""
    soundfile()  # a missing extra is told before any work is done
    aligner = persistence.load(model)
    if not isinstance(aligner, Aligner):
        raise ModelFileError(
            f"{model}: holds a {type(aligner).__name__}, not an aligner; train one with trellis align train"
        )
    return aligner, None if dictionary is None else Dictionary.read(dictionary, strip_stress)
