"""Which labels mean that nobody speaks.

Corpora write silence in many ways: Praat users leave the interval empty, HTK writes ``sil`` and ``sp``, TIMIT
``h#``, ``pau`` and ``epi``, the Munich aligner ``<p:>``. Labels are compared without regard to case.
"""

from __future__ import annotations

from collections.abc import Collection

SILENCE = "sil"  # the one name that Trellis uses for all of them
# fmt: off
SILENCES = frozenset((
    "", "sil", "sp", "ssil", "pau", "h#", "#h", "epi", "#", "##", "_", "-", "<p:>", "<p>", "<sil>", "<sp>",
    "<pau>", "<silence>", "<eps>", "{sl}", "[sil]", "(sil)", "[silence]", "(silence)", "silence", "pause",
    "sil_b", "sil_e", "sil_i", "sil_s", "!sil", "!enter", "!exit", "<s>", "</s>", ".pau",
))
# fmt: on


def is_silence(label: str, silences: Collection[str] = SILENCES) -> bool:
    """Whether ``label`` is one of ``silences`` (lower case), blanks and case apart."""
    return label.strip().lower() in silences
