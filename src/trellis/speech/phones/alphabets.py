"""In which alphabet labels are written: the IPA, ARPABET (with TIMIT's names), or X-SAMPA (with SAMPA).

One label does not tell (``r`` is a trill in the IPA and an approximant in ARPABET, ``e3`` a tone or a
diphthong), an inventory does. An alphabet is judged by the number of labels that it can read, silence and
noise apart:

* ARPABET, if no alphabet reads more and some label has two letters: its vowels all have;
* else the alphabet that is ``preferred``, that of the model, if none reads more;
* else the IPA, if none reads more; else X-SAMPA.

Where several alphabets read everything and disagree about a sound, :func:`ambiguous` says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from trellis.core.errors import DataError
from trellis.speech.phones.arpabet import arpabet_symbol
from trellis.speech.phones.articulation import READERS, articulation
from trellis.speech.phones.noise import is_noise
from trellis.speech.phones.silence import is_silence

ALPHABETS = tuple(READERS)


def guess_alphabet(labels: Iterable[str], preferred: str = "ipa") -> str:
    """One of :data:`ALPHABETS`, by all labels together."""
    spoken = _spoken(labels)
    read = {alphabet: sum(_reads(alphabet, label) for label in spoken) for alphabet in ALPHABETS}
    most = max(read.values())
    best = [alphabet for alphabet in ALPHABETS if read[alphabet] == most]
    if "arpabet" in best and any(len(arpabet_symbol(x)) > 1 and _reads("arpabet", x) for x in spoken):
        return "arpabet"
    return preferred if preferred in best else next(a for a in ("ipa", "xsampa", "arpabet") if a in best)


def ambiguous(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels whose sounds differ among the alphabets that can read all of ``labels``, in order."""
    spoken = _spoken(labels)
    able = [a for a in ALPHABETS if all(_reads(a, label) for label in spoken)]
    return tuple(x for x in spoken if len({articulation(x, alphabet) for alphabet in able}) > 1)


def check_alphabet(name: str) -> str:
    if name not in ALPHABETS:
        raise DataError(f"no alphabet {name!r}; choose {', '.join(ALPHABETS)}")
    return name


def _spoken(labels: Iterable[str]) -> list[str]:
    return [label for label in dict.fromkeys(labels) if not (is_silence(label) or is_noise(label))]


def _reads(alphabet: str, label: str) -> bool:
    try:
        articulation(label, alphabet)
    except DataError:
        return False
    return True
