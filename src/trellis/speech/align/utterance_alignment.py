"""From a recording and a lattice of phones to an alignment: times, words, confidences and flags.

Flags are sentences about what looks wrong; nothing implausible passes in silence:

* a silent or clipped recording;
* a phone whose class was missing in training, so that another class stood in;
* a phone as long as the model allows (half as long again as any in training), or longer than
  ``MAX_PHONE_SECONDS``;
* a transcript that does not match, and the phone that looks most wrong
  (:mod:`trellis.speech.align.doubt.transcript_match`); or a score no better than those of wrong transcripts
  (:mod:`trellis.speech.align.doubt.calibration`); in a long recording, stretches that do not fit
  (:mod:`trellis.speech.align.search.derailment`);
* a recording so long for its phones that their longest lengths had to be stretched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray
from trellis.core.errors import InfeasibleError
from trellis.speech.acoustics.acoustic_model import Limits
from trellis.speech.acoustics.frame_evidence import FrameEvidence
from trellis.speech.acoustics.phone_durations import SLACK
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.doubt.boundary_confidence import refine_starts, sharpen
from trellis.speech.align.doubt.match_statistics import AlignedPhones, match_statistics
from trellis.speech.align.doubt.start_posterior import share_within, start_posterior
from trellis.speech.align.doubt.transcript_match import Match
from trellis.speech.align.search.tolerance_decoding import decode_path
from trellis.speech.align.search.topology import topology_scores
from trellis.speech.audio.front_end import FramedRecording
from trellis.speech.corpus.phone_lattice import Lattice, phone_lattice
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval, Tier
from trellis.speech.phones.noise import is_noise
from trellis.speech.phones.silence import is_silence
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.scores.segment_graph import BEGIN

MAX_PHONE_SECONDS = 1.0
LONG_SECONDS = 15.0  # seconds: longer recordings are aligned in chunks
LARGEST_MARGIN = 50.0  # nats
MISMATCH = "this may not be what was said"


@dataclass(frozen=True)
class Request:
    """What to compute; ``source`` names the recording in messages. ``tolerances``: seconds, of the decoding
    (``search.tolerance_decoding``); none for the best path."""

    source: str = ""
    refine: bool = True
    confidence: bool = True
    margins: bool = False
    tolerances: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Segments:
    """A stretch of a recording, aligned: nodes of the lattice, ``starts`` in frames (possibly between them)
    and what is known of each. ``doubtful``: stretches of seconds that do not fit
    (``search.derailment``), None where they were not looked for."""

    nodes: tuple[int, ...]
    starts: FloatArray
    confidence: FloatArray
    margins: FloatArray
    score: float
    stretched: bool
    doubtful: tuple[tuple[float, float], ...] | None = None
    match: Match | None = None


def align_utterance(
    model: AlignmentModel, recording: FramedRecording, lattice: Lattice, request: Request
) -> Alignment:
    """The best alignment of a recording to a lattice."""
    frames = model.acoustics.standardise(recording.features)
    model.acoustics.phones.encode(lattice.labels, request.source)  # unknown phones, before any work
    check_length(model, lattice, len(frames), recording.duration, request.source)
    if recording.duration > LONG_SECONDS:
        from trellis.speech.align.search.long_recordings import align_long

        found = align_long(model, frames, lattice, request)
    else:
        found = align_frames(model, frames, lattice, request)
    phones, words = _tiers(found, lattice, model.acoustics.step, recording.duration)
    return Alignment(
        phones,
        words,
        recording.duration,
        tuple(found.confidence.tolist()) if request.confidence else None,
        (*recording.flags, *_flags(model, found, lattice, len(frames))),
        request.source,
        found.score,
        tuple(found.margins.tolist()) if request.margins else None,
        None if found.match is None else found.match.probability,
    )


def align_frames(
    model: AlignmentModel,
    frames: Float32Array,
    lattice: Lattice,
    request: Request,
    evidence: FrameEvidence | None = None,
    longest_silence: int | None = None,
) -> Segments:
    """Exact inference on frames that fit into memory at once; ``evidence``: what the classifiers hear in
    them, if known."""
    limits = length_limits(model, lattice, len(frames), longest_silence)
    acoustics, nodes = model.acoustics, np.arange(lattice.n_nodes)
    if evidence is None:
        evidence = acoustics.evidence(frames)
    features = acoustics.features(frames, lattice, where=request.source, evidence=evidence, limits=limits)
    likelihood = topology_scores(acoustics, model.topology, features, lattice)
    chain = lattice
    if not lattice.is_chain:
        nodes = Segmentation().best(likelihood).nodes
        chain = phone_lattice([lattice.labels[i] for i in nodes])
        features = acoustics.features(frames, chain, where=request.source, evidence=evidence, limits=limits)
    scores = features.scores(model.weights)
    best, path = decode_path(scores, model.beta, [t / acoustics.step for t in request.tolerances])
    starts = refine_starts(scores, path) if request.refine else path.starts.astype(np.float64)
    tolerance = model.tolerance / acoustics.step
    confidence = margins = np.full(len(nodes), np.nan)
    match = None
    if request.confidence:
        share = share_within(start_posterior(likelihood, lattice.occurrences, nodes), starts, tolerance)
        confidence = model.calibration(share)
        if len(set(lattice.occurrences[lattice.first_nodes].tolist())) == 1:
            confidence[0] = 1.0  # nothing else can come first: its start is given, not found
        if model.match is not None:
            aligned = AlignedPhones(chain.labels, starts, share, likelihood.boundary[nodes], path.score)
            match = model.match(match_statistics(acoustics, model.topology, evidence, aligned))
    if request.margins:
        sharp = sharpen(scores, model.beta * len(nodes))
        margins = Segmentation().gaps(sharp, best, int(tolerance + 1e-9), LARGEST_MARGIN)
    return Segments(
        tuple(nodes.tolist()),
        starts,
        confidence,
        margins,
        best.score,
        limits.stretch > 1.0,
        match=match,
    )


def check_length(
    model: AlignmentModel, lattice: Lattice, n_frames: int, duration: float, source: str
) -> None:
    """Raise ``InfeasibleError`` if the recording is too short for its transcript."""
    acoustics = model.acoustics
    each = max(1, round(acoustics.shortest / acoustics.step))
    n_phones = lattice.min_phones
    if n_phones * each > n_frames:
        raise InfeasibleError(
            f"{source + ': ' if source else ''}{duration:.3f} s are too short for {n_phones} phones, which "
            f"take at least {n_phones * each * acoustics.step:.3f} s; check the transcript"
        )


def length_limits(
    model: AlignmentModel, lattice: Lattice, n_frames: int, longest_silence: int | None = None
) -> Limits:
    """Maximum lengths, stretched where the phones could not fill the recording."""
    acoustics = model.acoustics
    encoded = acoustics.phones.encode(lattice.labels)
    limits = Limits(longest_silence=longest_silence)
    _, high = acoustics.lengths(encoded.kinds, n_frames, limits)
    longest = np.zeros(lattice.n_nodes, dtype=np.int64)
    for i, before in enumerate(lattice.predecessors):
        longest[i] = high[i] + max(0 if p == BEGIN else longest[p] for p in before)
    most = int(longest[lattice.final].max())
    return limits if most >= n_frames else Limits(2.0 * n_frames / most, longest_silence)


def _flags(model: AlignmentModel, found: Segments, lattice: Lattice, n_frames: int) -> list[str]:
    acoustics = model.acoustics
    labels = [lattice.labels[i] for i in found.nodes]
    seconds = np.diff(found.starts, append=float(n_frames)) * acoustics.step
    kinds = acoustics.phones.encode(labels).kinds
    longest = acoustics.durations.longest[kinds]
    flags = []
    for label in dict.fromkeys(labels):
        other = acoustics.phones.stand_in(label)
        if other is not None:
            flags.append(f"no phone like {label!r} was in training; the class {other!r} stands in for it")
    if found.stretched:
        flags.append("the recording is very long for its phones; the transcript may be incomplete")
    for k in np.flatnonzero((seconds > longest - 1.5 * acoustics.step) | (seconds > MAX_PHONE_SECONDS)):
        if not (is_silence(labels[k]) or is_noise(labels[k])):  # these may be of any length
            flags.append(
                f"phone {k + 1} ({labels[k]!r} at {found.starts[k] * acoustics.step:.2f} s) is "
                f"{seconds[k]:.2f} s long; the longest in training was {longest[k] / SLACK:.2f} s"
            )
    for begin, end in _merge_stretches(found.doubtful or ()):
        flags.append(
            f"from {begin:.1f} to {end:.1f} s the phones hardly fit the sound; listen to what was said there"
        )
    if found.match is not None and found.match.flagged:
        worst = found.match.worst
        flags.append(
            f"{MISMATCH}: what looks most wrong is phone {worst + 1} ({labels[worst]!r} at "
            f"{found.starts[worst] * acoustics.step:.2f} s); check the transcript there and beside it"
        )
    elif found.doubtful is None and found.score < model.score_floor:
        flags.append(
            f"the score {found.score:.3g} is no better than with a wrong transcript (usual: "
            f"{model.score_mean:.3g}); this may be the wrong transcript or recording"
        )
    return flags


def _merge_stretches(stretches: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that touch as one."""
    merged: list[tuple[float, float]] = []
    for begin, end in stretches:
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _tiers(found: Segments, lattice: Lattice, step: float, duration: float) -> tuple[Tier, Tier]:
    """Phones, and the words that they belong to, in seconds."""
    times = [*(found.starts * step).tolist(), duration]
    phones = tuple(Interval(times[k], times[k + 1], lattice.labels[i]) for k, i in enumerate(found.nodes))
    words: list[Interval] = []
    previous = -1
    for phone, i in zip(phones, found.nodes, strict=True):
        number = lattice.word_index[i]
        if number >= 0 and number == previous:
            words[-1] = Interval(words[-1].start, phone.end, words[-1].label)
        elif number >= 0:
            words.append(Interval(phone.start, phone.end, lattice.words[number]))
        previous = number
    return phones, tuple(words)
