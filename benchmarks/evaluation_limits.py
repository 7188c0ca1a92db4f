# mypy: allow-untyped-defs
"""What one evaluation of the CRF on CoNLL-2000 must cost: bytes and flops a token, and the machine's rates.

For each stage: flops; bytes between registers and caches; bytes that no cache can save, since each evaluation
reads or writes them once (indices, weights, gradient). The rates are measured in this run, on one thread:
copying more than the caches hold, and multiply-adds on registers. A stage takes at least as long as its flops
at the one rate or its needed bytes at the other.

    python benchmarks/evaluation_limits.py [--data FOLDER]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from _common import Figures, fastest, files, parser
from conll2000 import Corpus
from trellis.core.numerics import kernel
from trellis.core.simd_kernels import WIDTH, aligned_zeros, fma, load, padded, store
from trellis.structures.chain.oracle.stream_kernels import STREAMS
from trellis.structures.chain.problem.chain_problem import LinearChainProblem

EXP_FLOPS = 2 * 15 + 3  # multiply-adds of the polynomial and of the reduction


class Stage(NamedTuple):
    """Per token."""

    name: str
    flops: float
    moved: float  # bytes between registers and caches
    needed: float  # bytes that come from memory or go there in every evaluation


def stages(problem: LinearChainProblem) -> list[Stage]:
    """From the sizes of the compact design: r rows and s single weights a token, K labels in P columns."""
    data = problem._compact
    n, K = len(data.middle), problem.layout.n_labels
    P = padded(K)
    r, s = len(data.rows) / n, len(data.single_places) / n
    row, matrix = 8 * P, 8 * P * P / STREAMS
    indices = 4 * r + 16 + 8 * s  # rows, two pointers, places and targets
    table, weights = row * (len(data.bounds) - 1) / n, 8 * problem.dimension / n
    return [
        Stage("weights to table and back", 4 * table / 8, 4 * table, 2 * weights),
        Stage("scores", 2 * r * P + 2 * s, indices + r * row + row + 24 * s, indices),
        Stage("exponentials", (EXP_FLOPS + 3) * P, 3 * row, 0),
        Stage("forward", 2 * P * P + 3 * P, matrix + 5 * row, 0),
        Stage("backward", 2 * P * P + 3 * P, matrix + 7 * row, 0),
        Stage("pairs", 2 * P * P, row * (P / WIDTH + P / 4), 0),
        Stage("pull-back", 2 * r * P + 2 * s, indices + 2 * r * row + row + 24 * s, 0),
    ]


@kernel
def multiply_add(x, n):
    """8 chains of ``n`` multiply-adds of eight numbers."""
    a, b, c, d = load(x, 0, 0), load(x, 1, 0), load(x, 2, 0), load(x, 3, 0)
    e, f, g, h = load(x, 4, 0), load(x, 5, 0), load(x, 6, 0), load(x, 7, 0)
    y = load(x, 8, 0)
    for _ in range(n):
        a, b, c, d = fma(0.5, a, y), fma(0.5, b, y), fma(0.5, c, y), fma(0.5, d, y)
        e, f, g, h = fma(0.5, e, y), fma(0.5, f, y), fma(0.5, g, y), fma(0.5, h, y)
    for i, z in enumerate((a, b, c, d, e, f, g, h)):
        store(x, i, 0, z)


def machine_rates() -> tuple[float, float]:
    """Bytes and flops per second of one thread."""
    source, target = np.zeros(1 << 25), np.zeros(1 << 25)
    x, n = aligned_zeros(9, WIDTH), 1_000_000
    multiply_add(x, 1)
    copying, adding = fastest(lambda: np.copyto(target, source), lambda: multiply_add(x, n), repeats=7)
    return 2 * source.nbytes / copying, 8 * WIDTH * 2 * n / adding


def main() -> None:
    given = parser(__doc__).parse_args()
    train_file, test_file = files(given.data / "conll2000", "train.txt", "test.txt")
    problem = Corpus.read(train_file, test_file).problem(1)
    weights = np.random.default_rng(0).normal(scale=0.1, size=problem.dimension) * problem.layout.mask
    problem.value_and_gradient(weights)
    (seconds,) = fastest(lambda: problem.value_and_gradient(weights), repeats=10)
    n = int(problem.design.offsets[-1])
    bandwidth, flop_rate = machine_rates()
    figures = Figures(
        f"One evaluation: per token, of {n:,}", ("flops", "bytes moved", "bytes needed", "least ns", "")
    )
    parts = stages(problem)
    parts.append(Stage("all", *(sum(column) for column in list(zip(*parts, strict=True))[1:])))
    for name, flops, moved, needed in parts:
        least = 1e9 * max(flops / flop_rate, needed / bandwidth)
        figures.row(name, f"{flops:,.0f}", f"{moved:,.0f}", f"{needed:,.0f}", f"{least:.1f}", met=None)
    figures.print()
    least = 1e9 * max(parts[-1].flops / flop_rate, parts[-1].needed / bandwidth)
    measured = 1e9 * seconds / n
    print(f"one thread: {bandwidth / 1e9:.1f} GB/s from memory, {flop_rate / 1e9:.0f} Gflop/s on registers")
    print(f"measured {measured:.0f} ns a token: {measured / least:.1f} times the least")


if __name__ == "__main__":
    main()
