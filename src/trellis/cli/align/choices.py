"""Choices of the alignment commands, apart from what they stand for so that ``--help`` need not load that."""

from __future__ import annotations

from enum import StrEnum


class CorpusFormat(StrEnum):
    """How a corpus is laid out: TIMIT's folders, recordings beside label files, or one CTM file."""

    timit = "timit"
    textgrid = "textgrid"
    lab = "lab"
    ctm = "ctm"
    json = "json"


# what trellis.speech.Corpus.read calls them
LAYOUTS = {
    CorpusFormat.timit: "timit",
    CorpusFormat.textgrid: "textgrids",
    CorpusFormat.lab: "labs",
    CorpusFormat.ctm: "ctm",
    CorpusFormat.json: "json",
}


class AlignmentFormat(StrEnum):
    """File formats of alignments."""

    textgrid = "textgrid"
    elan = "elan"
    json = "json"
    csv = "csv"
    ctm = "ctm"
    lab = "lab"
    phn = "phn"
    audacity = "audacity"


class Silence(StrEnum):
    """``auto``: a pause may stand before, between and after words; ``none``: only where it is written."""

    auto = "auto"
    none = "none"


class ClassSide(StrEnum):
    """Which phone's class a boundary counts for."""

    right = "right"
    left = "left"
    pair = "pair"


class Folding(StrEnum):
    """Classes of phones, from the phones themselves to the manner of articulation."""

    none = "none"
    timit48 = "timit48"
    timit39 = "timit39"
    broad = "broad"
    voiced = "voiced"
    detailed = "detailed"
