"""What shards of columns say of the features of a template: counts that can be added.

The ids of features depend on the order in which strings and n-grams first appear in *all* data. Strings come
in the order of the data, and what stands beyond the ends of sequences after all of them; n-grams come gram by
gram (:mod:`.template_encoder`), so that those of the first gram come first in all shards, although several
grams share a table. So counts are kept under provisional codes, with the order of first appearance of each
part beside them; the final codes follow at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.vocabulary import Vocabulary
from trellis.data.vocabulary_kernels import gather
from trellis.features.count_sketch import CountSketch
from trellis.features.hash_kernels import GOLDEN, hash_spans
from trellis.features.template_kernels import intern_pairs

Codes = NDArray[np.int32]
Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class TemplateCounts:
    """``strings[source]``: the arrays of a vocabulary. ``tables[sources]``: the keys of n-grams.
    ``order[gram]``: codes in the order of first appearance. ``counts``: of nodes and of edges, for each group
    of features one number for each code."""

    strings: dict[Any, tuple[NDArray[np.uint8], NDArray[np.int64]]]
    tables: dict[Any, Keys]
    order: dict[Any, Codes]
    counts: tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]
    sources_of_groups: tuple[list[Any], list[Any]]

    def __add__(self, other: TemplateCounts) -> TemplateCounts:
        moved: dict[Any, Codes] = {}  # codes of the other one, as codes of the sum
        strings, tables = {}, {}
        for source, (pool, bounds) in other.strings.items():
            names = Vocabulary.from_packed(*self.strings[source])
            text = np.frombuffer(pool.tobytes(), np.uint8)
            moved[(source,)] = names.add_spans(text, bounds[:-1].copy(), bounds[1:].copy())
            strings[source] = names.packed()
        for sources, keys in other.tables.items():  # shorter n-grams come first
            prefix, last = halves(keys)
            known = self.tables[sources]
            moved[sources], tables[sources] = intern_pairs(
                moved[sources[:-1]][prefix], moved[sources[-1:]][last], 0, known
            )
        order = {gram: _joined(own, moved[gram[0]][other.order[gram]]) for gram, own in self.order.items()}
        counts = tuple(
            [_added(a, b, moved[sources]) for a, b, sources in zip(mine, theirs, groups, strict=True)]
            for mine, theirs, groups in zip(self.counts, other.counts, self.sources_of_groups, strict=True)
        )
        return TemplateCounts(strings, tables, order, counts, self.sources_of_groups)  # type: ignore[arg-type]

    def hashed(self) -> list[tuple[Keys, NDArray[np.int64]]]:
        """Hashes of the features of each group with their counts, for a sketch."""
        hashes: dict[Any, Keys] = {}
        for source, (pool, bounds) in self.strings.items():
            hashes[(source,)] = hash_spans(pool, bounds[:-1], bounds[1:])
        for sources, keys in self.tables.items():
            prefix, last = halves(keys)
            hashes[sources] = _mixed(hashes[sources[:-1]][prefix] * GOLDEN + hashes[sources[-1:]][last])
        return [
            (_mixed(_mixed(hashes[sources]) + np.uint64(2 * i + edge)), counts)
            for edge in (0, 1)
            for i, (sources, counts) in enumerate(
                zip(self.sources_of_groups[edge], self.counts[edge], strict=True)
            )
        ]

    def without_rare(self, sketch: CountSketch, least: int) -> TemplateCounts:
        """Without n-grams, and strings, of which every feature occurs fewer than ``least`` times in all
        shards, as far as their sketch knows. The parts of what is kept are kept, and what stands beyond the
        ends of sequences."""
        kept = {(source,): _always_kept(source, *packed) for source, packed in self.strings.items()}
        kept |= {sources: np.zeros(len(keys), np.bool_) for sources, keys in self.tables.items()}
        groups = [*self.sources_of_groups[0], *self.sources_of_groups[1]]
        for sources, (hashes, _) in zip(groups, self.hashed(), strict=True):
            kept[sources] |= sketch.may_reach(hashes, least)
        for sources, keys in reversed(self.tables.items()):  # longer n-grams before their parts
            prefix, last = halves(keys[kept[sources]])
            kept[sources[:-1]][prefix] = True
            kept[sources[-1:]][last] = True
        new = {sources: np.cumsum(some) - 1 for sources, some in kept.items()}
        tables = {}
        for sources, keys in self.tables.items():
            prefix, last = halves(keys[kept[sources]])
            prefix, last = new[sources[:-1]][prefix], new[sources[-1:]][last]
            tables[sources] = prefix.astype(np.uint64) << np.uint64(32) | last.astype(np.uint64)
        strings = {s: gather(*packed, np.flatnonzero(kept[(s,)])) for s, packed in self.strings.items()}
        order = {
            gram: new[gram[0]][codes[kept[gram[0]][codes]]].astype(np.int32)
            for gram, codes in self.order.items()
        }
        counts = tuple(
            [one[kept[sources]] for one, sources in zip(own, of, strict=True)]
            for own, of in zip(self.counts, self.sources_of_groups, strict=True)
        )
        return TemplateCounts(strings, tables, order, counts, self.sources_of_groups)  # type: ignore[arg-type]


def _always_kept(source: Any, pool: NDArray[np.uint8], bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Strings that stand for conditions, or may stand beyond the ends (``_B-1``)."""
    if source.column < 0:
        return np.ones(len(bounds) - 1, np.bool_)
    beyond = np.zeros(len(bounds) - 1, np.bool_)
    long = np.flatnonzero(np.diff(bounds) >= 3)
    first = bounds[long]
    beyond[long] = (pool[first] == ord("_")) & (pool[first + 1] == ord("B"))
    return beyond


def _mixed(h: Keys) -> Keys:
    """The finaliser of splitmix64 (:mod:`.hash_kernels`)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def _joined(first: Codes, second: Codes) -> Codes:
    """Both, each code once."""
    known = np.zeros(int(max(first.max(initial=-1), second.max(initial=-1))) + 1, np.bool_)
    known[first] = True
    return np.concatenate([first, second[~known[second]]])


def _added(own: NDArray[np.int64], other: NDArray[np.int64], moved: Codes) -> NDArray[np.int64]:
    total = np.zeros(max(len(own), int(moved.max(initial=-1)) + 1), np.int64)
    total[: len(own)] = own
    total[moved] += other
    return total


def halves(keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes of the prefix and of the last part of n-grams."""
    return (keys >> np.uint64(32)).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
