"""``best_expected_f1``: of the allowed labellings, the one with the largest expected span F1.

    y_hat = argmax over allowed y of  E_{y' ~ p(. | x)} F1(y', y)            F1 of the spans of one sequence

exactly, up to rounding, in chains over labels or over their latent states; how is in ``expected_f1_kernels``.
Time is O(n K^2) for each of O(sqrt(n)) nodes of the quadrature and for each number of spans that is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.oracle import Labels
from trellis.core.shards import over_shards
from trellis.data.latent_labels import LatentLabels
from trellis.losses.metrics import in_one_span, in_spans, span_tags
from trellis.structures.chain.oracle.chain_oracle import feasible
from trellis.structures.chain.oracle.expected_f1_kernels import best_expected_f1_batch
from trellis.structures.chain.scores.chain_scores import ChainScores


@dataclass(frozen=True, eq=False)
class ExpectedF1:
    """``labels`` (N,), and E F1 of each sequence, ``values`` (S,)."""

    labels: Labels
    values: FloatArray


def best_expected_f1(scores: ChainScores, latent: LatentLabels, n_jobs: int = 1) -> ExpectedF1:
    """The labelling of each sequence; ``scores`` are those of the states of ``latent``."""
    tags, types, names = span_tags(latent.labels.labels)
    tags, types = tags[latent.label_of], types[latent.label_of]
    joins = in_one_span(tags[:, None], types[:, None], tags, types)
    before, after = np.nonzero(joins)
    nodes, weights, sizes = _quadratures(int(np.diff(scores.offsets).max(initial=1)))
    states, values = np.empty(len(scores.unary), dtype=np.int32), np.empty(scores.n_sequences)

    def work(first: int, last: int) -> None:
        best_expected_f1_batch(
            scores.unary, scores.transitions, scores.start, scores.end, scores.offsets, first, last,
            in_spans(tags), types, len(names), joins, before, after, nodes, weights, sizes, states, values,
        )  # fmt: skip

    over_shards(work, scores.offsets, n_jobs)
    return ExpectedF1(latent.collapse(states), feasible(values))


def _quadratures(longest: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Row c: for sequences of up to 2^c steps, ``sizes[c]`` nodes and weights."""
    each = [quadrature(1 << c) for c in range((longest - 1).bit_length() + 1)]
    sizes = np.array([len(nodes) for nodes, _ in each])
    nodes, weights = np.ones((len(each), sizes.max())), np.zeros((len(each), sizes.max()))
    for c, (x, w) in enumerate(each):
        nodes[c, : len(x)], weights[c, : len(x)] = x, w
    return nodes, weights, sizes


@cache
def quadrature(n_steps: int) -> tuple[FloatArray, FloatArray]:
    """Nodes x and weights w with sum_m w_m x_m^(d - 1) = 1 / d for every d up to 2 ``n_steps``, the largest
    sum of two numbers of spans. Gauss-Legendre with ``n_steps`` nodes is exact; 4 sqrt(n_steps) are so up to
    rounding: to a relative 1e-12 for hundreds of steps, 1e-11 for thousands.
    """
    x, w = np.polynomial.legendre.leggauss(min(n_steps, int(np.ceil(4.0 * np.sqrt(n_steps)))))
    return 0.5 * (x + 1.0), 0.5 * w
