"""The moments of :mod:`.moments` as sums over shards: frequencies first, then, in the basis of their SVD,
operators.

Two passes over the data, of which only sums leave the shards: counts of pairs and of symbols, and the M
operators (K, K).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from trellis.core.arrays import FloatArray
from trellis.data.row_checks import check_observed, check_symbols
from trellis.data.sequence_shards.sequence_shard import SequenceShard, located, narrowed
from trellis.data.sequence_shards.sharded_sequences import ShardedSequences
from trellis.data.sequences import Sequences
from trellis.data.shard_files import FileShard
from trellis.hmm.spectral import moments
from trellis.hmm.spectral.spectral_kernels import add_operators


class Frequencies(NamedTuple):
    """Sums of weights: of all triples, of their first two symbols (M, M), of their first (M,), of the first
    symbols of sequences (M,); and the numbers of triples and of such sequences."""

    total: float
    pairs: Any
    first: FloatArray
    beginning: FloatArray
    n_triples: int
    n_beginnings: int


def read_symbol_file(file: FileShard, n_symbols: int | None) -> SequenceShard:
    """A shard out of files of symbols; labels in them are not read."""
    given, _ = file.read()
    with located(file.name):
        data = Sequences.pack(given, check=lambda values: check_symbols(values, n_symbols))
    each = {"weight": np.ones(len(data))}
    return narrowed(SequenceShard({"values": data.values}, data.offsets, each, source=file.name))


def largest_symbol(data: ShardedSequences) -> int:
    """The largest symbol in all shards, of which some must be known."""
    found = data.shards.ask(shard_largest)
    check_observed(np.full(min(data.n_steps, 1), max(found, default=-1) < 0))
    return max(found)


def frequencies(data: ShardedSequences, n_symbols: int, only_first: bool, beginnings: bool) -> Frequencies:
    """The first pass. ``beginnings``: whether there must be first symbols enough to learn from."""
    found: Frequencies = data.shards.total(shard_frequencies, n_symbols, only_first)
    if not found.n_triples:
        raise moments.no_triples()
    if beginnings:
        moments.check_beginnings(found.n_beginnings)
    return found


def estimate_operators(
    data: ShardedSequences,
    found: Frequencies,
    spectrum: moments.Spectrum,
    only_first: bool,
    beginning: FloatArray,
) -> moments.Operators:
    """The second pass."""
    basis = np.ascontiguousarray(spectrum.left)
    right = np.ascontiguousarray(spectrum.right / spectrum.values[: basis.shape[1]])
    steps: FloatArray = data.shards.total(shard_operators, only_first, basis, right)
    first = found.first / found.first.sum()
    return moments.assemble_operators(basis, right.T @ first, steps / found.total, beginning, first)


def shard_largest(shard: SequenceShard) -> int:
    return int(shard.row("values").max(initial=-1))


def shard_frequencies(shard: SequenceShard, n_symbols: int, only_first: bool) -> Frequencies:
    symbols, weight = shard.row("values"), shard.each["weight"]
    at, w = moments.find_triples(symbols, shard.offsets, weight, only_first)
    began = moments.find_beginnings(symbols, shard.offsets, weight)
    shape = n_symbols, n_symbols
    return Frequencies(
        float(w.sum()),
        scipy.sparse.coo_array((w, (symbols[at + 1], symbols[at])), shape).tocsr(),
        np.bincount(symbols[at], w, n_symbols).astype(np.float64, copy=False),
        np.bincount(symbols[shard.offsets[began]], weight[began], n_symbols).astype(np.float64, copy=False),
        len(at),
        len(began),
    )


def shard_operators(
    shard: SequenceShard, only_first: bool, basis: FloatArray, right: FloatArray
) -> FloatArray:
    symbols = shard.row("values")
    at, w = moments.find_triples(symbols, shard.offsets, shard.each["weight"], only_first)
    n_symbols, k = basis.shape
    steps = np.zeros((n_symbols + 1, k, k))
    add_operators(symbols[at], symbols[at + 1], symbols[at + 2], w, basis, right, steps)
    return steps
