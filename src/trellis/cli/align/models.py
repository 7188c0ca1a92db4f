"""The models and dictionaries of the alignment commands, by name, so that each process can load its own."""

from __future__ import annotations

from trellis.core import persistence
from trellis.core.errors import ModelFileError
from trellis.speech import builtin
from trellis.speech.align.aligner import Aligner
from trellis.speech.audio.soundfile_extra import soundfile
from trellis.speech.corpus.dictionary import Dictionary


def model_path(model: str) -> str:
    """The file of a model: ``builtin`` is the one that comes with Trellis (a file of that name is
    ``./builtin``)."""
    return str(builtin.PATH) if model == builtin.NAME else model


def open_aligner(
    model: str,
    dictionary: str | None,
    strip_stress: bool = False,
    encoding: str | None = None,
    language: str | None = None,
) -> tuple[Aligner, Dictionary | None]:
    """The aligner in a file, and the dictionary in another or of a language."""
    soundfile()  # a missing extra is reported before any work is done
    path = model_path(model)
    aligner = persistence.load(path)
    if not isinstance(aligner, Aligner):
        raise ModelFileError(
            f"{path}: this is a {type(aligner).__name__}, not an aligner; train one with trellis align train"
        )
    if language is not None:
        from trellis.speech.pronunciation.english import EnglishDictionary

        arpabet = aligner.model_.acoustics.phones.alphabet == "arpabet"
        return aligner, EnglishDictionary("arpabet" if arpabet else "ipa")
    return aligner, None if dictionary is None else Dictionary.read(dictionary, strip_stress, encoding)
