"""The choice of an encoder by the type of the inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from trellis.core.errors import UnsupportedError
from trellis.data.attributes import AttributeData
from trellis.data.columns import ColumnData
from trellis.data.user_input import as_arrays, has_text
from trellis.features.array_encoder import ArrayEncoder
from trellis.features.encoded import FeatureEncoder
from trellis.features.hashed_names import HashedNames, refuse_counts
from trellis.features.hashed_template import HashedTemplate
from trellis.features.indexer import FeatureIndexer
from trellis.features.template_encoder import TemplateEncoder
from trellis.features.templates import Template


def encoder_for(
    X: Any,
    min_count: int = 1,
    transition_features: bool | Iterable[Any] = (),
    *,
    flat: bool = False,
    hashing: int | None = None,
) -> FeatureEncoder:
    """A new encoder for inputs like ``X``: columns of strings, arrays, or named features.

    ``flat``: whether X is one list of steps, to be split by ``lengths``. ``hashing``: the number of buckets
    of hashed features; None indexes them.

    Examples
    --------
    >>> from trellis.features import encoder_for
    >>> type(encoder_for([[{"word": "cat"}]])).__name__
    'FeatureIndexer'
    """
    if isinstance(X, ColumnData):
        if transition_features is not False and transition_features != ():
            raise UnsupportedError(
                "transition_features do not apply to columns; write B lines like B01:%x[0,0] in the template"
            )
        return template_encoder(Template.builtin(X.n_columns), min_count, hashing)
    if _is_numeric(X, flat):
        if hashing is not None:
            raise UnsupportedError("the columns of arrays are numbered already; leave out hashing")
        return ArrayEncoder(min_count, transition_features)
    if hashing is not None:
        refuse_counts(min_count, transition_features is not False and transition_features != ())
        return HashedNames(hashing)
    return FeatureIndexer(min_count, transition_features)


def template_encoder(
    template: Template | str | os.PathLike[str], min_count: int, hashing: int | None
) -> TemplateEncoder | HashedTemplate:
    """An encoder for columns of strings, indexed or hashed."""
    if hashing is None:
        return TemplateEncoder(template, min_count)
    refuse_counts(min_count, False)
    return HashedTemplate(template, hashing)


def _is_numeric(X: Any, flat: bool) -> bool:
    """Whether X holds arrays of numbers, judged by its first step."""
    if isinstance(X, AttributeData) or has_text(X):
        return False
    if isinstance(X, list | tuple) and any(map(has_text, X)):
        return False
    X = as_arrays(X)
    if issparse(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "biufc"):
        return True
    if not isinstance(X, Iterable):
        return False
    for sequence in map(as_arrays, [X] if flat else X):
        if issparse(sequence) or (isinstance(sequence, np.ndarray) and sequence.ndim == 2):
            return sequence.dtype.kind not in "US"
        if isinstance(sequence, np.ndarray) and sequence.dtype != object:
            return sequence.dtype.kind in "biufc"
        if isinstance(sequence, Sequence) and not isinstance(sequence, str) and len(sequence):
            step = sequence[0]
            if isinstance(step, np.ndarray):
                return step.dtype.kind in "biufc"
            if isinstance(step, list | tuple) and step:
                return isinstance(step[0], int | float | np.number)
            return isinstance(step, int | float | np.number)
    return False
