"""Packed sequences, labels and their constraints, readers and writers of files."""

from trellis.data.attributes import (
    AttributeData,
    iter_attribute_blocks,
    read_attributes,
    write_attributes,
)
from trellis.data.columns import ColumnData, iter_column_blocks, read_columns, read_conllu, write_columns
from trellis.data.constraints import LegalTransitions, check_legal, legal_transitions
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import Sequences

__all__ = [
    "AttributeData",
    "ColumnData",
    "EncodedLabels",
    "LabelSet",
    "LegalTransitions",
    "Sequences",
    "check_legal",
    "iter_attribute_blocks",
    "iter_column_blocks",
    "legal_transitions",
    "read_attributes",
    "read_columns",
    "read_conllu",
    "write_attributes",
    "write_columns",
]
