"""Encoders: named features, arrays, and CRF++ templates over columns, all as CSR over steps."""

from trellis.features.array_encoder import ArrayEncoder
from trellis.features.encoded import Encoded, FeatureEncoder, Features
from trellis.features.encoders import encoder_for
from trellis.features.frames import SequenceFrame
from trellis.features.hashed_names import HashedNames
from trellis.features.hashed_template import HashedTemplate
from trellis.features.indexer import FeatureIndexer
from trellis.features.template_encoder import TemplateEncoder
from trellis.features.templates import Template

__all__ = [
    "ArrayEncoder",
    "Encoded",
    "FeatureEncoder",
    "FeatureIndexer",
    "Features",
    "HashedNames",
    "HashedTemplate",
    "SequenceFrame",
    "Template",
    "TemplateEncoder",
    "encoder_for",
]
