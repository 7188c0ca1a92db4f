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
