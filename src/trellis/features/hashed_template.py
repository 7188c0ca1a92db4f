"""Template features by hashes: those of strings are folded to hashes of n-grams, and these to buckets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.errors import ModelFileError
from trellis.core.registration import register
from trellis.data.columns import ColumnData
from trellis.features.encoded import Encoded, Features
from trellis.features.hash_kernels import emit_buckets, hash_pairs, padded_hashes
from trellis.features.hashed_names import HashedEncoder, refuse_counts, string_hashes
from trellis.features.template_encoder import TemplateEncoder
from trellis.features.templates import ALWAYS, FIRST, LAST, StringSource, Template

Hashes = NDArray[np.uint64]


@register
class HashedTemplate(HashedEncoder):
    r"""Features of a CRF++ template over columns of strings, hashed. Templates that share their features when
    they are indexed do so here.

    Examples
    --------
    >>> import io
    >>> from trellis.data import read_columns
    >>> from trellis.features import HashedTemplate, Template
    >>> encoder = HashedTemplate(Template.parse("U00:%x[0,0]\n"), 16)
    >>> encoder.fit(read_columns(io.StringIO("the\ncat\n\n"))).nodes.n_features
    16
    """

    def __init__(self, template: Template | str | os.PathLike[str], buckets: int) -> None:
        super().__init__(buckets)
        self._indexed = TemplateEncoder(template)  # for its grams; it never learns any strings
        self.template = self._indexed.template
        refuse_counts(1, bool(self._indexed.edge_layer.gram_of))
        layer = self._indexed.node_layer
        salts = string_hashes([[_text(*group) for group in layer.groups]])
        self._salts = salts[layer.group_of] if layer.groups else np.empty(0, np.uint64)

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        data = self._indexed.columns(X, lengths)
        layer = self._indexed.node_layer
        indptr, indices = emit_buckets(
            self._gram_hashes(data),
            np.array(layer.gram_of, np.int64),
            np.array(layer.row_of, np.int64),
            self._salts,
            data.offsets,
            self.template.radius,
            self.buckets,
        )
        return Encoded(Features(indptr, indices, np.ones(1), self.buckets, data.offsets))

    def to_state(self) -> dict[str, Any]:
        return {"template": self.template, "buckets": self.buckets}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        if not isinstance(state["template"], Template):  # a path would be read
            raise ModelFileError("its template is damaged")
        return cls(state["template"], state["buckets"])

    def _gram_hashes(self, data: ColumnData) -> Hashes:
        """Hashes of every gram at every position of the padded layout, (n_grams, n_positions)."""
        grams = self._indexed.grams
        hashes = np.empty((len(grams), data.n_steps + 2 * self.template.radius * len(data)), np.uint64)
        for (sources, rows), g in grams.items():
            if len(sources) == 1:
                hashes[g] = self._source_hashes(sources[0], data)
            else:
                prefix = hashes[grams[sources[:-1], rows[:-1]]]
                hash_pairs(prefix, hashes[grams[sources[-1:], (0,)]], rows[-1], hashes[g])
        return hashes

    def _source_hashes(self, source: StringSource, data: ColumnData) -> Hashes:
        radius = self.template.radius
        before, after = np.zeros((2, radius), np.uint64)
        if source in (FIRST, LAST, ALWAYS):
            codes = self._indexed.condition_codes(source, data)
            return np.asarray(
                padded_hashes(string_hashes([[""]]), codes, data.offsets, radius, before, after)
            )
        strings = source.apply(data.vocabularies[source.column])
        hashes = string_hashes([["" if string is None else string for string in strings]])
        hashes[[string is None for string in strings]] = 0
        if self.template.out_of_bounds == "pad":
            before = string_hashes([[f"_B-{r}" for r in range(1, radius + 1)]])
            after = string_hashes([[f"_B+{r}" for r in range(1, radius + 1)]])
        codes = np.ascontiguousarray(data.codes[source.column])
        return np.asarray(padded_hashes(hashes, codes, data.offsets, radius, before, after))


def _text(literals: tuple[str, ...], sources: tuple[StringSource, ...]) -> str:
    """A group of features as text, different for different groups."""
    return "\x1f".join([*literals, *(f"{source.function},{source.column}" for source in sources)])
