"""The likelihood of reference alignments under the whole aligner, and its gradient in network and weights.

For a batch of utterances with m boundaries, the loss is

    (1/m) sum_i  log sum_y exp score_i(y) - score_i(y_i),      score = w . Phi,

over all segmentations y of the phones; or, for a *loose* example, of all lattices with an optional silence at
every place, so that the same scores learn where boundaries lie and whether anybody speaks. Phi are the
features of ``alignment_features`` without rate, in sums (nats), and the number of silences, as in
``search.topology``. With g(node, t) the expected number of starts minus that of the reference, and o(node, t)
the same for "frame t lies in the node", the derivatives are

    logits_t        w_classifier sum_nodes o(node, t) e_c(node)
    z_f(t)          w_articulation sum_nodes o(node, t) phi_f(node)
    s(t; a, b)      w_boundary g(node, t)           for the node of b after a
    w               E Phi - Phi(y_i)

Every frame lies in one segment of any path: sum_nodes o(node, t) = 0. What all phones share at a frame, the
normalisers of the softmax and of the articulation, cancels and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trellis.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from trellis.speech.acoustics.acoustic_model import AcousticModel, Limits
from trellis.speech.acoustics.alignment_features import (
    CHANGES,
    Evidence,
    segment_features,
    spectral_change,
    whole_frames,
)
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.network_gradient import Derivatives, Trace, forward
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample, PackedBatch, PhonePairs
from trellis.speech.align.search.topology import EXTRA_SILENCE, count_silences, follow_labels, topology_names
from trellis.speech.corpus.phone_lattice import Lattice, loose_lattice, phone_lattice
from trellis.speech.phones.silence import SILENCE
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentFeatures


@dataclass(frozen=True, eq=False)
class LatticeExample:
    """An utterance whose phones are P nodes: ``codes``, ``kinds``, ``silent``, ``left`` (the node before, -1
    for none) (P,), ``descriptors`` (P, V); ``gold``: the reference; ``starts``: of its phones, in frames."""

    frames: Float32Array
    codes: IntArray
    kinds: IntArray
    silent: BoolArray
    descriptors: Float32Array
    left: IntArray
    graph: SegmentGraph
    gold: SegmentPath
    starts: FloatArray

    @property
    def entered(self) -> IntArray:
        """The nodes that another comes before."""
        return np.flatnonzero(self.left >= 0)


@lru_cache(maxsize=4096)
def _structure(silent: tuple[bool, ...], loose: bool) -> tuple[Lattice, IntArray, IntArray]:
    """The lattice of phones of which some are silent, the phone of each node (-1: a silence that may be left
    out), and the nodes of the reference; a chain where no loose lattice has the reference."""
    names = [SILENCE if s else str(k) for k, s in enumerate(silent)]
    if loose:
        lattice = loose_lattice(names)
        nodes = follow_labels(lattice, names)
        if nodes is not None:
            phones = [-1 if label == SILENCE else int(label) for label in lattice.labels]
            return lattice, np.array(phones), nodes
    every = np.arange(len(names))
    return phone_lattice(names), every, every


class AlignmentLikelihood:
    """The likelihood of the aligner with the phones, durations and features of ``acoustics``; w has the order
    of ``topology_names``, the number of silences last."""

    def __init__(self, acoustics: AcousticModel) -> None:
        self.acoustics, self.names = acoustics, topology_names(acoustics.names)
        self.silence = acoustics.phones.encode([SILENCE]) if acoustics.phones.has_silence else None
        self.changed = any(name in self.names for name in CHANGES)

    def example(self, example: NetworkExample, loose: bool) -> LatticeExample:
        """The utterance as a chain, or as a loose lattice."""
        acoustics, n_frames = self.acoustics, len(example.frames)
        silence = self.silence
        lattice, phones, nodes = _structure(tuple(example.silent.tolist()), loose and silence is not None)
        kinds = acoustics.phones.kinds(example.codes, example.descriptors, example.silent)
        codes, descriptors, silent = example.codes, example.descriptors, example.silent
        if silence is not None:  # row -1
            codes, kinds = np.append(codes, silence.codes), np.append(kinds, silence.kinds)
            descriptors = np.concatenate([descriptors, silence.descriptors])
            silent = np.append(silent, True)
        gold = SegmentPath(nodes, whole_frames(example.starts, n_frames), n_frames)
        longest = gold.lengths[example.silent].max(initial=0) + round(EXTRA_SILENCE / acoustics.step)
        limits = Limits(longest_silence=int(longest))
        low, high = acoustics.lengths(kinds[phones], n_frames, limits)
        low[nodes] = np.minimum(low[nodes], gold.lengths)
        high[nodes] = np.maximum(high[nodes], gold.lengths)
        return LatticeExample(
            example.frames,
            codes[phones],
            kinds[phones],
            silent[phones],
            descriptors[phones],
            np.array(lattice.left),
            SegmentGraph.of(low, high, lattice.predecessors, lattice.final),
            gold,
            example.starts,
        )

    def listen(
        self,
        network: ConvolutionalNetwork,
        examples: Sequence[LatticeExample],
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> Trace:
        """What the network hears in a batch, with the pairs of phones that meet in the lattices."""
        batch = PackedBatch.of([e.frames for e in examples], network.gap)
        dtype = batch.frames.dtype
        sizes = [len(e.entered) for e in examples]
        pairs = PhonePairs(
            np.concatenate([e.descriptors[e.left[e.entered]] for e in examples]).astype(dtype, copy=False),
            np.concatenate([e.descriptors[e.entered] for e in examples]).astype(dtype, copy=False),
            np.repeat(batch.first + 1, sizes),
            np.repeat([len(e.frames) - 1 for e in examples], sizes),
        )
        return forward(network, batch, pairs, dropout, rng)

    def features(
        self, network: ConvolutionalNetwork, trace: Trace, examples: Sequence[LatticeExample]
    ) -> list[SegmentFeatures]:
        """The features of each utterance, from what the network hears in them."""
        found, frame, row = [], 0, 0
        for e in examples:
            n_frames, n_nodes, entered = len(e.frames), len(e.codes), e.entered
            logits = trace.logits[frame : frame + n_frames] - network.prior
            z = trace.articulation[frame : frame + n_frames]
            size = len(entered) * (n_frames - 1)
            odds = np.zeros((n_nodes, n_frames + 1), dtype=trace.scores.dtype)
            odds[entered, 1:n_frames] = trace.scores[row : row + size].reshape(len(entered), n_frames - 1)
            frame, row = frame + n_frames, row + size
            every, durations = np.arange(n_nodes), self.acoustics.durations
            static = e.frames[:, : self.acoustics.options.n_static]
            tables = Evidence(
                e.kinds,
                durations.tables(self.acoustics.step, e.graph.longest, e.kinds),
                logits[:, e.codes].T,
                e.descriptors[:, logits.shape[1] :] @ z.T,
                every,
                spectral_change(static) if self.changed else None,
                odds,
                every,
            )
            ones = np.ones(len(self.names))
            features = segment_features(self.names, ones, e.graph, n_frames, 1, tables)
            found.append(count_silences(features, e.silent))
        return found

    def gradient(
        self,
        network: ConvolutionalNetwork,
        trace: Trace,
        examples: Sequence[LatticeExample],
        weights: FloatArray,
    ) -> tuple[float, Derivatives, FloatArray]:
        """The loss, and its derivatives in the outputs of the network and in the weights."""
        weight = dict(zip(self.names, weights.tolist(), strict=False))
        d_logits, d_articulation = np.zeros_like(trace.logits), np.zeros_like(trace.articulation)
        d_scores, d_weights = np.zeros_like(trace.scores), np.zeros(len(weights))
        total, frame, row = 0.0, 0, 0
        share = 1.0 / max(1, sum(len(e.starts) - 1 for e in examples))
        for e, features in zip(examples, self.features(network, trace, examples), strict=True):
            scores = features.scores(weights)
            marginals = Segmentation().marginals(scores)
            total += share * (marginals.log_partition - scores.of_path(e.gold))
            parts, gold = marginals.parts, e.gold
            parts.starts[gold.nodes, gold.starts] -= 1.0
            parts.ends[gold.nodes, gold.ends] -= 1.0
            parts.lengths[gold.nodes, gold.lengths] -= 1.0
            d_weights += share * features.of_parts(parts)
            inside = share * np.cumsum(parts.starts - parts.ends, axis=1)[:, :-1].T
            n_frames, entered = len(e.frames), e.entered
            own = slice(frame, frame + n_frames)
            by_code = np.zeros((len(e.codes), trace.logits.shape[1]))
            by_code[np.arange(len(e.codes)), e.codes] = weight.get("classifier", 0.0)
            d_logits[own] = inside @ by_code
            phi = e.descriptors[:, trace.logits.shape[1] :]
            d_articulation[own] = inside @ (weight.get("articulation", 0.0) * phi)
            size = len(entered) * (n_frames - 1)
            moved = share * weight.get("boundary", 0.0) * parts.starts[entered, 1:n_frames]
            d_scores[row : row + size] = moved.ravel()
            frame, row = frame + n_frames, row + size
        return total, Derivatives(d_logits, d_articulation, d_scores), d_weights
