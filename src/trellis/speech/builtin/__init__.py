"""The aligner that comes with Trellis: trained on synthetic speech, for those who have no labels yet.

``scripts/build_builtin_model.py`` made it from the speech of espeak-ng, flite and Festival in some 90
languages. ``FIGURES`` is what ``benchmarks/builtin.py`` measured on recordings of people, in languages and of
voices that it has never heard; corrections of one's own make it better (``Aligner.adapt``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trellis.core import persistence

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner

NAME = "builtin"
PATH = Path(__file__).parent / "builtin.trellis"


@dataclass(frozen=True)
class Figures:
    """Per cent of boundaries within 20 ms: alone, and after learning from 5 and 10 corrected words."""

    alone: float
    after_5: float
    after_10: float
    n_languages: int

    def sentence(self) -> str:
        return (
            f"builtin model (synthetic speech): {self.alone:.0f}% of boundaries within 20 ms in recordings "
            f"of {self.n_languages} languages; 5 corrected files make it {self.after_5:.0f}%, 10 make it "
            f"{self.after_10:.0f}% (trellis align adapt)"
        )


FIGURES = Figures(alone=75.9, after_5=79.8, after_10=82.2, n_languages=40)


def builtin_aligner() -> Aligner:
    """The aligner that comes with Trellis; phones are written in the IPA.

    Examples
    --------
    >>> from trellis.speech import builtin_aligner
    >>> aligner = builtin_aligner()
    >>> type(aligner).__name__
    'Aligner'
    """
    aligner: Aligner = persistence.load(PATH)
    return aligner
