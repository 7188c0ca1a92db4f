"""Lattices of phones: a sequence, or words with their pronunciations and optional silences.

Nodes are in topological order. A word's pronunciations are parallel branches; between words, and at both
ends, an optional silence is a node that a path may skip. The boundary classifier looks at the phone on the
left, which must therefore be the same on every path into a node: a node whose predecessors differ is split
into one copy per label of its predecessors (only the phone after a join; the phones behind it share their
nodes again).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trellis.core.arrays import BoolArray, IntArray
from trellis.core.errors import DataError
from trellis.speech.phones.noise import SPOKEN_NOISE
from trellis.speech.phones.silence import SILENCE, is_silence
from trellis.structures.segments.scores.segment_graph import BEGIN

if TYPE_CHECKING:
    from trellis.speech.corpus.dictionary import Dictionary


MIN_PROBABILITY = 1e-6  # of a pronunciation: even one of probability 0 can be spoken


@dataclass(frozen=True, eq=False)
class Lattice:
    """``labels[i]``: the phone of node i. ``predecessors[i]``: nodes before it, -1 for the beginning.
    ``word_index[i]``: the index into ``words``, -1 for none. ``prior[i]``: the log-probability of the
    pronunciation, on its first node.
    """

    labels: tuple[str, ...]
    predecessors: tuple[tuple[int, ...], ...]
    final: BoolArray
    word_index: tuple[int, ...]
    prior: tuple[float, ...]
    words: tuple[str, ...] = ()

    @property
    def n_nodes(self) -> int:
        return len(self.labels)

    @property
    def left(self) -> tuple[int, ...]:
        """One predecessor of each node (they all have the same label), -1 for none."""
        return tuple(before[-1] for before in self.predecessors)

    @property
    def is_chain(self) -> bool:
        """Whether there is only one path, through all nodes."""
        return (
            bool(self.final[-1])
            and not self.final[:-1].any()
            and all(before == (i - 1,) for i, before in enumerate(self.predecessors))
        )

    @cached_property
    def depth(self) -> IntArray:
        """The number of phones on the shortest path up to each node, (P,)."""
        count: list[int] = []
        for before in self.predecessors:
            count.append(1 + min(0 if p == BEGIN else count[p] for p in before))
        return np.array(count, dtype=np.int64)

    @cached_property
    def occurrences(self) -> IntArray:
        """(P,): nodes with the same number are the same phone of the transcript, on different paths.

        A phone is the same if it is the n-th of its label in its word, whatever the pronunciation; a silence,
        if it comes after the same word. Without words, a phone is the same after as many phones, and a
        silence likewise. No path meets the same phone twice.
        """
        numbers: dict[tuple[object, ...], int] = {}
        found: list[int] = []
        spoken: list[int] = []  # phones up to each node that are not silence
        same: list[dict[str, int]] = []  # of its word up to each node: how many phones have each label
        last: list[int] = []  # the last word up to each node
        for i, (label, before) in enumerate(zip(self.labels, self.left, strict=True)):
            word, first = self.word_index[i], before == BEGIN
            spoken.append((0 if first else spoken[before]) + (not is_silence(label)))
            last.append(word if word >= 0 else -1 if first else last[before])
            inside = not first and word >= 0 and self.word_index[before] == word
            counts = dict(same[before]) if inside else {}
            counts[label] = counts.get(label, 0) + 1
            same.append(counts)
            if word >= 0:
                key: tuple[object, ...] = ("phone", word, label, counts[label])
            else:
                key = ("gap", label, last[i] if self.words else spoken[i])
            found.append(numbers.setdefault(key, len(numbers)))
        return np.array(found, dtype=np.int64)

    @property
    def min_phones(self) -> int:
        """The number of phones on the shortest path."""
        return int(self.depth[self.final].min())

    @property
    def first_nodes(self) -> list[int]:
        """The nodes that a path may begin with."""
        return [i for i, before in enumerate(self.predecessors) if BEGIN in before]

    def sublattice(
        self, heads: Sequence[int], stop: int | None, last: int | None = None, within_stop: bool = False
    ) -> Sublattice:
        """All paths that begin in one of ``heads`` and end before ``stop`` (None: at the end).

        With ``last``, only nodes below it, and a path may end anywhere; with ``within_stop``, they end in
        ``stop`` itself.
        """
        limit = self.n_nodes if last is None else last
        reached: dict[int, tuple[int, ...]] = {}
        for i in range(min(heads), limit if stop is None else stop + within_stop):
            inner = tuple(p for p in self.predecessors[i] if p in reached)
            if i in heads:
                inner = (BEGIN, *inner)
            if inner:
                reached[i] = inner
        if stop is None:
            ends = (
                set(reached) if last is not None and last < self.n_nodes else set(np.flatnonzero(self.final))
            )
        else:
            ends = {stop} if within_stop else set(self.predecessors[stop])
        useful = set[int]()
        for i in sorted(reached, reverse=True):
            if i in ends or i in useful:
                useful.add(i)
                useful.update(p for p in reached[i] if p != BEGIN)
        nodes = tuple(sorted(useful))
        place = {node: i for i, node in enumerate(nodes)} | {BEGIN: BEGIN}
        return Sublattice(
            nodes,
            Lattice(
                tuple(self.labels[i] for i in nodes),
                tuple(tuple(place[p] for p in reached[i] if p in place) for i in nodes),
                np.array([i in ends for i in nodes], dtype=np.bool_),
                tuple(self.word_index[i] for i in nodes),
                tuple(self.prior[i] for i in nodes),
                self.words,
            ),
        )


@dataclass(frozen=True, eq=False)
class Sublattice:
    """``lattice``, whose node i is node ``nodes[i]`` of the whole lattice."""

    nodes: tuple[int, ...]
    lattice: Lattice


@dataclass
class _Builder:
    labels: list[str] = field(default_factory=list)
    predecessors: list[tuple[int, ...]] = field(default_factory=list)
    word_index: list[int] = field(default_factory=list)
    prior: list[float] = field(default_factory=list)

    def silence(self, before: Sequence[int]) -> list[int]:
        """The nodes ``before``, and those of an optional silence after them."""
        return [*before, *self.add(SILENCE, before)]

    def add(self, label: str, before: Sequence[int], word: int = -1, prior: float = 0.0) -> list[int]:
        """Nodes for ``label`` after the nodes ``before``: one for each label of theirs."""
        groups: dict[str | None, list[int]] = {}
        for p in before:
            groups.setdefault(None if p == BEGIN else self.labels[p], []).append(p)
        added = []
        for group in groups.values():
            added.append(len(self.labels))
            self.labels.append(label)
            self.predecessors.append(tuple(sorted(group)))
            self.word_index.append(word)
            self.prior.append(prior)
        return added

    def build(self, ends: Sequence[int], words: tuple[str, ...]) -> Lattice:
        final = np.zeros(len(self.labels), dtype=np.bool_)
        final[[i for i in ends if i != BEGIN]] = True
        return Lattice(
            tuple(self.labels),
            tuple(self.predecessors),
            final,
            tuple(self.word_index),
            tuple(self.prior),
            words,
        )


def phone_lattice(phones: Sequence[str], optional_silence: bool = False) -> Lattice:
    """A sequence of phones; with ``optional_silence``, also a silence at each end that has none."""
    if not len(phones):
        raise DataError("the transcript has no phones; give at least one")
    builder = _Builder()
    ends = [BEGIN]
    if optional_silence and not is_silence(phones[0]):
        ends = builder.silence(ends)
    for phone in phones:
        ends = builder.add(phone, ends)
    if optional_silence and not is_silence(phones[-1]):
        ends = builder.silence(ends)
    return builder.build(ends, ())


def loose_lattice(phones: Sequence[str]) -> Lattice:
    """A sequence of phones with an optional silence at every place."""
    builder = _Builder()
    ends = builder.silence([BEGIN])
    for phone in phones:
        if not is_silence(phone):
            ends = builder.silence(builder.add(phone, ends))
    return builder.build(ends, ())


def word_lattice(
    words: Sequence[str],
    dictionary: Dictionary | Mapping[str, Sequence[Sequence[str]]],
    silence: bool = True,
    unknown: str = "error",
) -> Lattice:
    """Words with all their pronunciations; ``silence``: optional ones at the ends and between words.

    Words that are not in the dictionary are an error that names all of them, or ``"noise"``.
    """
    if isinstance(words, str):
        raise DataError("words must be a list of words, not one string; split the text first")
    if not words:
        raise DataError("the transcript has no words; give at least one")
    ways = _pronunciations(words, dictionary, unknown)
    builder = _Builder()
    ends = [BEGIN]
    for number, word in enumerate(words):
        before = builder.silence(ends) if silence else ends
        ends = []
        for phones, prior in ways[word].items():
            branch: Sequence[int] = builder.add(phones[0], before, number, prior)
            for phone in phones[1:]:
                branch = builder.add(phone, branch, number)
            ends += branch
    return builder.build(builder.silence(ends) if silence else ends, tuple(words))


def _pronunciations(
    words: Sequence[str], dictionary: Dictionary | Mapping[str, Sequence[Sequence[str]]], unknown: str
) -> dict[str, dict[tuple[str, ...], float]]:
    """The log-probability of each pronunciation of each word."""
    from trellis.speech.corpus.dictionary import Dictionary

    known = dictionary if isinstance(dictionary, Dictionary) else Dictionary(dictionary)
    if unknown == "error":
        known.require(words)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for word in dict.fromkeys(words):
        ways = found.setdefault(word, {})
        if word not in known:
            ways[(SPOKEN_NOISE,)] = 0.0
            continue
        for way in known[word]:
            prior = float(np.log(max(way.probability, MIN_PROBABILITY)))
            ways[way.phones] = max(prior, ways.get(way.phones, -np.inf))
    return found
