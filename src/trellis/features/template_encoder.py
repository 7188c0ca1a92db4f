"""Template features as integers: columns are interned once, and n-grams of codes are folded pairwise to ids.

A *gram* is a tuple of string sources and their rows relative to the first. Its codes are computed once for
all steps and read by each template at its own row, so ``pos[-2]|pos[-1]`` and ``pos[0]|pos[1]`` cost one
pass. The tables of n-grams are in :mod:`trellis.features.template_kernels`. Names of features are composed
only on request.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import repeat
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arguments import check_int
from trellis.core.arrays import IntArray
from trellis.core.errors import DataError, ModelFileError
from trellis.core.file_checks import check_indices, check_type
from trellis.core.registration import register
from trellis.data.columns import ColumnData
from trellis.data.vocabulary import Vocabulary
from trellis.features.encoded import Encoded, Features, ids_by_frequency
from trellis.features.template_counts import TemplateCounts, halves
from trellis.features.template_kernels import (
    count_features,
    emit_features,
    find_pairs,
    first_codes,
    intern_pairs,
    padded_codes,
    slots_for,
)
from trellis.features.templates import ALWAYS, FIRST, LAST, Macro, StringSource, Template, as_template

Codes = NDArray[np.int32]
Sources = tuple[StringSource, ...]
Gram = tuple[Sources, tuple[int, ...]]  # sources, and their rows relative to the first


class _Layer:
    """The templates of nodes, or of edges: the gram and the row of each, and its group of features."""

    def __init__(self) -> None:
        self.gram_of: list[int] = []
        self.row_of: list[int] = []
        self.group_of: list[int] = []
        self.groups: dict[tuple[tuple[str, ...], Sources], int] = {}
        self.ids: Codes = np.empty(0, np.int32)

    def arrays(self, sizes: list[int]) -> tuple[IntArray, IntArray, IntArray]:
        bases = np.concatenate([[0], np.cumsum(sizes)])[self.group_of]
        return np.array(self.gram_of, np.int64), np.array(self.row_of, np.int64), bases.astype(np.int64)

    @property
    def n_features(self) -> int:
        return int(self.ids.max(initial=-1)) + 1


class _Table(NamedTuple):
    keys: NDArray[np.uint64]
    slots: Codes

    @classmethod
    def of(cls, keys: NDArray[np.uint64]) -> _Table:
        return cls(keys, slots_for(keys, len(keys), len(keys)))


@register
class TemplateEncoder:
    r"""Features of a CRF++ template (or the path of one) over columns of strings.

    ``X`` is a :class:`ColumnData`, or a list of sequences of column tuples (with ``lengths``: one list of
    tuples). ``min_count``: features seen fewer times in ``fit`` are dropped.

    Examples
    --------
    >>> from trellis.features import Template, TemplateEncoder
    >>> encoder = TemplateEncoder(Template.parse("U00:%x[0,0]\nU01:%x[-1,0]\n"))
    >>> encoder.fit([[["the"], ["cat"]]]).nodes.n_features
    4
    """

    def __init__(self, template: Template | str | os.PathLike[str], min_count: int = 1) -> None:
        self.template = as_template(template)
        self.min_count = check_int("min_count", min_count, 1)
        self._nodes, self._edges = _Layer(), _Layer()
        self._grams: dict[Gram, int] = {}
        for feature in self.template.features:
            macros = feature.macros or (Macro(ALWAYS, 0),)
            literals = feature.literals if feature.macros else (*feature.literals, "")
            sources = tuple(macro.source for macro in macros)
            layer = self._edges if feature.edge else self._nodes
            layer.gram_of.append(self._add_gram(sources, tuple(m.row - macros[0].row for m in macros)))
            layer.row_of.append(macros[0].row)
            layer.group_of.append(layer.groups.setdefault((literals, sources), len(layer.groups)))
        self._vocabularies: dict[StringSource, Vocabulary] = {}
        self._tables: dict[Sources, _Table] = {}

    @property
    def grams(self) -> dict[Gram, int]:
        """The numbers of the grams, whose parts come before them."""
        return self._grams

    @property
    def node_layer(self) -> _Layer:
        return self._nodes

    @property
    def edge_layer(self) -> _Layer:
        return self._edges

    @property
    def n_features(self) -> int:
        return self._nodes.n_features

    @property
    def n_edge_features(self) -> int:
        return self._edges.n_features

    def fit(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        data = self.columns(X, lengths)
        self._vocabularies = {}
        self._tables = {}
        grams = self._gram_codes(data, learn=True)
        for layer in (self._nodes, self._edges):
            sizes = self._group_sizes(layer)
            if layer.gram_of:
                counts = count_features(
                    grams, *layer.arrays(sizes), data.offsets, self.template.radius, sum(sizes)
                )
                layer.ids = ids_by_frequency(counts, self.min_count)
        return self._encoded(grams, data.offsets)

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        data = self.columns(X, lengths)
        return self._encoded(self._gram_codes(data, learn=False), data.offsets)

    encode = transform  # every value is 1

    def count(self, X: Any, lengths: ArrayLike | None = None) -> TemplateCounts:
        data, own = self.columns(X, lengths), TemplateEncoder(self.template)
        grams, order = own._gram_codes(data, learn=True), {}
        for gram, g in own._grams.items():
            sources = gram[0]
            if len(sources) == 1:  # strings of the data, then what stands beyond the ends
                order[gram] = np.arange(own._n_strings(sources[0], data), dtype=np.int32)
            else:
                order[gram] = np.asarray(first_codes(grams[g], own._size(sources)))
        counts: list[list[NDArray[np.int64]]] = []
        for layer in (own._nodes, own._edges):
            sizes = own._group_sizes(layer)
            flat = np.zeros(0, np.int64)
            if layer.gram_of:
                flat = count_features(
                    grams, *layer.arrays(sizes), data.offsets, self.template.radius, sum(sizes)
                )
            counts.append(np.split(flat, np.cumsum(sizes)[:-1]) if sizes else [])
        return TemplateCounts(
            {source: vocabulary.packed() for source, vocabulary in own._vocabularies.items()},
            {sources: table.keys for sources, table in own._tables.items()},
            order,
            (counts[0], counts[1]),
            ([sources for _, sources in own._nodes.groups], [sources for _, sources in own._edges.groups]),
        )

    def learn(self, counts: TemplateCounts) -> None:
        self._vocabularies, self._tables = {}, {}
        final: dict[Sources, IntArray] = {}  # provisional codes, in the order of the final ones
        for gram in self._grams:
            sources = gram[0]
            if len(sources) == 1:
                names = Vocabulary.from_packed(*counts.strings[sources[0]])
                final[sources] = _all_in_order([counts.order[gram]], self._beyond(sources[0], names))
                self._vocabularies[sources[0]] = names.reordered(final[sources])
            elif sources not in final:
                orders = [counts.order[one] for one in self._grams if one[0] == sources]
                final[sources] = _all_in_order(orders, np.zeros(0, np.int64))
                prefix, last = halves(counts.tables[sources][final[sources]])
                prefix = _inverse(final[sources[:-1]])[prefix]
                last = _inverse(final[sources[-1:]])[last]
                keys = prefix.astype(np.uint64) << np.uint64(32) | last.astype(np.uint64)
                self._tables[sources] = _Table.of(keys)
        for layer, groups in zip((self._nodes, self._edges), counts.counts, strict=True):
            if layer.gram_of:
                ordered = [
                    numbers[final[sources]]
                    for numbers, (_, sources) in zip(groups, layer.groups, strict=True)
                ]
                layer.ids = ids_by_frequency(np.concatenate(ordered), self.min_count)

    def _n_strings(self, source: StringSource, data: ColumnData) -> int:
        """How many strings a source has in the data that were just learned from."""
        if source in (FIRST, LAST, ALWAYS):
            return 1
        strings = source.apply(data.vocabularies[source.column])
        return len({string for string in strings if string is not None})

    def _beyond(self, source: StringSource, names: Vocabulary) -> IntArray:
        """The codes of what stands beyond the ends, in its order."""
        if source in (FIRST, LAST, ALWAYS) or self.template.out_of_bounds != "pad":
            return np.zeros(0, np.int64)
        return names.find([_beyond_ends(self.template.radius)]).astype(np.int64)

    def feature_names(self) -> list[str]:
        return self._names(self._nodes)

    def edge_feature_names(self) -> list[str]:
        return self._names(self._edges)

    def to_state(self) -> dict[str, Any]:
        return {
            "template": self.template,
            "min_count": self.min_count,
            "node_ids": self._nodes.ids,
            "edge_ids": self._edges.ids,
            "vocabularies": list(self._vocabularies.values()),
            "pairs": [table.keys for table in self._tables.values()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        if not isinstance(state["template"], Template):  # a path would be read
            raise ModelFileError("its template is damaged")
        encoder = cls(state["template"], state["min_count"])
        encoder._nodes.ids, encoder._edges.ids = state["node_ids"], state["edge_ids"]
        # the template determines the order of the grams, and so that of vocabularies and tables
        for sources, _ in encoder._grams:
            if len(sources) == 1:
                encoder._vocabularies[sources[0]] = state["vocabularies"][len(encoder._vocabularies)]
            elif sources not in encoder._tables:
                pairs = state["pairs"][len(encoder._tables)]
                check_type("a table of its features", pairs, 1, np.uint64)
                encoder._tables[sources] = _Table.of(pairs)
        encoder._check()
        return encoder

    def _check(self) -> None:
        """What comes from a file: kernels index without bounds checks."""
        if not all(isinstance(one, Vocabulary) for one in self._vocabularies.values()):
            raise ModelFileError("its strings are damaged")
        for sources, table in self._tables.items():
            prefix, last = halves(table.keys)
            check_indices("a table of its features", prefix, self._size(sources[:-1]))
            check_indices("a table of its features", last, self._size(sources[-1:]))
        for layer in (self._nodes, self._edges):
            check_type("its features", layer.ids, 1, np.int32)
            check_indices("its features", layer.ids, len(layer.ids))
            if len(layer.ids) != (sum(self._group_sizes(layer)) if layer.gram_of else 0):
                raise ModelFileError("its features do not fit its strings")

    def _size(self, sources: Sources) -> int:
        """How many n-grams of these sources there are."""
        return len(self._vocabularies[sources[0]]) if len(sources) == 1 else len(self._tables[sources].keys)

    def _add_gram(self, sources: Sources, rows: tuple[int, ...]) -> int:
        """The number of a gram; its parts come before it."""
        if (sources, rows) not in self._grams:
            if len(sources) > 1:
                self._add_gram(sources[:-1], rows[:-1])
                self._add_gram(sources[-1:], (0,))
            self._grams[sources, rows] = len(self._grams)
        return self._grams[sources, rows]

    def columns(self, X: Any, lengths: ArrayLike | None) -> ColumnData:
        """The data, which must have the columns that the template reads."""
        data = X if isinstance(X, ColumnData) else ColumnData.from_sequences(X, lengths)
        if data.n_columns < self.template.n_columns:
            where = data.lines.name if data.lines is not None else "X"
            raise DataError(
                f"the template reads column {self.template.n_columns - 1} (from 0), "
                f"but {where} has {data.n_columns} input columns"
            )
        return data

    def _gram_codes(self, data: ColumnData, learn: bool) -> Codes:
        """Codes of every gram at every position of the padded layout, (n_grams, n_positions)."""
        radius = self.template.radius
        places = data.n_steps + 2 * radius * len(data)
        codes = np.empty((len(self._grams), places), np.int32)
        for (sources, rows), g in self._grams.items():
            if len(sources) == 1:
                codes[g] = self._source_codes(sources[0], data, learn)
                continue
            prefix = codes[self._grams[sources[:-1], rows[:-1]]]
            last = codes[self._grams[sources[-1:], (0,)]]
            if learn:
                known = self._tables[sources].keys if sources in self._tables else np.empty(0, np.uint64)
                codes[g], keys = intern_pairs(prefix, last, rows[-1], known)
                self._tables[sources] = _Table.of(keys)
            else:
                codes[g] = find_pairs(prefix, last, rows[-1], *self._tables[sources])
        return codes

    def _source_codes(self, source: StringSource, data: ColumnData, learn: bool) -> Codes:
        """Codes of one source in the padded layout; -1 if unknown, without value, or beyond the ends."""
        radius = self.template.radius
        before, after = np.full((2, radius), -1, np.int32)
        if source in (FIRST, LAST, ALWAYS):
            if learn:
                self._vocabularies[source] = Vocabulary()
                self._vocabularies[source].add([[""]])
            codes = self.condition_codes(source, data)
            return np.asarray(padded_codes(codes, data.offsets, radius, before, after))
        strings = source.apply(data.vocabularies[source.column])
        if learn:
            self._vocabularies[source] = Vocabulary()
        vocabulary = self._vocabularies[source]
        codes_of = vocabulary.add if learn else vocabulary.find
        code_of = np.full(len(strings), -1, np.int32)
        has_value = np.array([string is not None for string in strings], np.bool_)
        code_of[has_value] = codes_of([[string for string in strings if string is not None]])
        if self.template.out_of_bounds == "pad":
            before, after = np.split(codes_of([_beyond_ends(radius)]), 2)
        codes = code_of[data.codes[source.column]]
        return np.asarray(padded_codes(codes, data.offsets, radius, before, after))

    def condition_codes(self, source: StringSource, data: ColumnData) -> Codes:
        """0 at the steps that meet a condition, -1 elsewhere."""
        codes = np.full(data.n_steps, 0 if source == ALWAYS else -1, np.int32)
        starts, ends = data.offsets[:-1], data.offsets[1:]
        filled = ends > starts
        if source == FIRST:
            codes[starts[filled]] = 0
        elif source == LAST:
            codes[ends[filled] - 1] = 0
        return codes

    def _group_sizes(self, layer: _Layer) -> list[int]:
        """The number of codes of each group of features: that of its strings or n-grams."""
        return [self._size(sources) for _, sources in layer.groups]

    def _encoded(self, grams: Codes, offsets: IntArray) -> Encoded:
        layers = []
        for layer in (self._nodes, self._edges):
            indptr, indices = emit_features(
                grams, *layer.arrays(self._group_sizes(layer)), layer.ids, offsets, self.template.radius
            )
            layers.append(Features(indptr, indices, np.ones(1), layer.n_features, offsets))
        return Encoded(layers[0], layers[1] if self._edges.gram_of else None)

    def _names(self, layer: _Layer) -> list[str]:
        names = [""] * layer.n_features
        base = 0
        for (literals, sources), size in zip(layer.groups, self._group_sizes(layer), strict=True):
            ids = layer.ids[base : base + size]
            base += size
            codes = np.flatnonzero(ids >= 0)
            columns: list[Any] = []
            for literal, strings in zip(literals, self._strings(sources, codes), strict=False):
                columns += [repeat(literal, len(codes)), strings]
            columns.append(repeat(literals[-1], len(codes)))
            for feature, parts in zip(ids[codes].tolist(), zip(*columns, strict=True), strict=True):
                names[feature] = "".join(parts)
        return names

    def _strings(self, sources: Sources, codes: NDArray[Any]) -> list[list[str]]:
        """The strings of the n-grams with these codes, one list for each source."""
        if len(sources) == 1:
            vocabulary = self._vocabularies[sources[0]].strings()
            return [[vocabulary[code] for code in codes.tolist()]]
        prefix, last = halves(self._tables[sources].keys[codes])
        return self._strings(sources[:-1], prefix) + self._strings(sources[-1:], last)


def _beyond_ends(radius: int) -> list[str]:
    """What stands before the first step, and after the last one."""
    return [f"_B{sign}{r}" for sign in "-+" for r in range(1, radius + 1)]


def _all_in_order(orders: list[Codes], rest: IntArray) -> IntArray:
    """Codes in the order of their first appearance in these lists, each once."""
    codes, first = np.unique(np.concatenate([*orders, rest]), return_index=True)
    return codes[np.argsort(first)].astype(np.int64)


def _inverse(order: IntArray) -> IntArray:
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places
