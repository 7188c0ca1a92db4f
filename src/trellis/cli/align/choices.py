"""Words that options of the alignment commands take, apart from what they stand for so that ``--help`` need
not load that."""

from __future__ import annotations

from enum import StrEnum

CorpusLayout = StrEnum("CorpusLayout", ["timit", "textgrids", "labs", "ctm", "json"])
AlignmentFormat = StrEnum(
    "AlignmentFormat", ["textgrid", "elan", "json", "csv", "ctm", "lab", "phn", "audacity"]
)
Folding = StrEnum("Folding", ["none", "timit48", "timit39", "broad", "voiced", "detailed"])
Alphabet = StrEnum("Alphabet", ["auto", "ipa", "arpabet", "xsampa"])
UnknownWords = StrEnum("UnknownWords", ["noise", "skip", "error"])
Silence = StrEnum("Silence", ["auto", "none"])
Side = StrEnum("Side", ["right", "left", "pair"])
Language = StrEnum("Language", ["english"])
