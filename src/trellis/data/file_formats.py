"""The names of the file formats, apart from their readers so that ``--help`` need not load those."""

from __future__ import annotations

from enum import StrEnum


class FileFormat(StrEnum):
    """``columns``: CoNLL, CRF++; ``crfsuite``: label and attributes; ``conllu``: Universal Dependencies."""

    columns = "columns"
    crfsuite = "crfsuite"
    conllu = "conllu"


ARRAY_SUFFIXES = {".parquet": "parquet", ".safetensors": "safetensors", ".npz": "npz", ".npy": "npy"}
