"""Evaluation of alignments: how far predicted boundaries are from the reference.

A boundary is where a phone of the reference starts, or where a phone ends and silence follows; the beginning
and the end of the recording are given and do not count. Phones are matched in order, ignoring silences and
gaps, so that two alignments may disagree about where there are pauses. With e = predicted - reference in
seconds, over all boundaries of all utterances:

    within(m)         share with |e| <= m ms, inclusive, allowing 1e-9 s for rounding: true milliseconds
    within_frames(m)  share with |round(predicted / h) - round(reference / h)| <= m / h, where h = 10 ms: the
                      protocol of 2010. Rounding first tolerates up to nearly a frame more than m.
    mean, median      of |e|
    bias              mean of e: positive if predictions are late

Intervals are those of 95% over *utterances*, because boundaries of one utterance are not independent
(:mod:`trellis.speech.evaluate.boundary_figures`). :func:`compare` pairs the utterances of both systems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError
from trellis.speech.evaluate.boundary_figures import ALLOWANCE, BoundaryFigures, Estimate
from trellis.speech.formats.alignment import Alignment
from trellis.speech.phones.silence import SILENCE, is_silence

if TYPE_CHECKING:
    from rich.table import Table

TOLERANCES_MS = (10.0, 20.0, 30.0, 40.0, 50.0, 100.0)
_MIN_GAP = 0.02  # seconds: a shorter gap belongs to the phone before it, as in a corpus


@dataclass(frozen=True, eq=False)
class BoundaryErrors:
    """The boundaries of one utterance in seconds, by the ``reference`` and as ``predicted``.

    ``left`` and ``right`` are the reference labels before and after each boundary; ``renamed`` counts phones
    whose labels differ in the two alignments.
    """

    id: str
    reference: FloatArray
    predicted: FloatArray
    left: tuple[str, ...]
    right: tuple[str, ...]
    renamed: int = 0

    @property
    def seconds(self) -> FloatArray:
        """predicted - reference."""
        return self.predicted - self.reference

    def __len__(self) -> int:
        return len(self.reference)


@dataclass(frozen=True, eq=False)
class AlignmentEvaluation:
    """Fractions (not percentages) and milliseconds, with intervals; computed on first use.

    ``left_out``: the utterances that could not be compared, with the reason.

    Examples
    --------
    >>> from trellis.speech import Alignment
    >>> from trellis.speech.evaluate.boundary_evaluation import evaluate_alignments
    >>> reference = {"talk": Alignment.from_starts([0.0, 0.10, 0.30], ["sil", "t", "a"], duration=0.9)}
    >>> ours = {"talk": Alignment.from_starts([0.0, 0.11, 0.33], ["sil", "t", "a"], duration=0.9)}
    >>> found = evaluate_alignments(reference, ours)
    >>> round(found.bias_ms.value, 1), found.within[20.0].value
    (20.0, 0.5)
    """

    utterances: tuple[BoundaryErrors, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    tolerances_ms: tuple[float, ...] = TOLERANCES_MS

    @property
    def n_boundaries(self) -> int:
        return sum(map(len, self.utterances))

    @property
    def within(self) -> dict[float, Estimate]:
        """By tolerance in ms: the share of boundaries within it."""
        return {ms: self.estimates[f"within {ms:g}"] for ms in self.tolerances_ms}

    @property
    def within_frames(self) -> dict[float, Estimate]:
        """By tolerance in ms: the share of boundaries within it, both rounded to 10 ms frames."""
        return {ms: self.estimates[f"frames {ms:g}"] for ms in self.tolerances_ms}

    @property
    def mean_ms(self) -> Estimate:
        return self.estimates["mean"]

    @property
    def median_ms(self) -> Estimate:
        return self.estimates["median"]

    @property
    def bias_ms(self) -> Estimate:
        return self.estimates["bias"]

    @property
    def estimates(self) -> dict[str, Estimate]:
        """All figures by name."""
        return self.figures.estimates

    @cached_property
    def figures(self) -> BoundaryFigures:
        parts = [u for u in self.utterances if len(u)]
        true = np.concatenate([u.reference for u in parts])
        found = np.concatenate([u.predicted for u in parts])
        owner = np.repeat(np.arange(len(parts)), [len(u) for u in parts])
        return BoundaryFigures(true, found, owner, self.tolerances_ms)

    def by_class(self, fold: Callable[[str], str] = str, by: str = "right") -> dict[str, AlignmentEvaluation]:
        """The same figures for each class of boundary, the most frequent first.

        ``fold`` maps a phone to its class; ``by`` is ``"right"`` (the phone that starts), ``"left"`` (the
        phone that ends) or ``"pair"`` (``left|right``).
        """
        names: dict[str, Callable[[str, str], str]] = {
            "right": lambda left, right: fold(right),
            "left": lambda left, right: fold(left),
            "pair": lambda left, right: f"{fold(left)}|{fold(right)}",
        }
        if by not in names:
            raise DataError(f"by is {by!r}; give right, left or pair")
        parts: dict[str, list[BoundaryErrors]] = {}
        for utterance in self.utterances:
            pairs = zip(utterance.left, utterance.right, strict=True)
            found = np.array([names[by](*pair) for pair in pairs], dtype=object)
            for name in dict.fromkeys(found):
                parts.setdefault(name, []).append(_select(utterance, found == name))
        chosen = {n: AlignmentEvaluation(tuple(p), (), self.tolerances_ms) for n, p in parts.items()}
        return dict(sorted(chosen.items(), key=lambda item: (-item[1].n_boundaries, item[0])))

    def headline(self) -> str:
        shares = "/".join(f"{100 * e.value:.1f}" for e in self.within.values())
        widths = "/".join(f"{ms:g}" for ms in self.within)
        return (
            f"within {widths} ms  {shares} %   mean {self.mean_ms.value:.1f}   median "
            f"{self.median_ms.value:.1f}   bias {self.bias_ms.value:+.1f} ms   "
            f"({self.n_boundaries} boundaries, {len(self.utterances)} utterances)"
        )

    def __str__(self) -> str:
        return self.headline()

    def table(self) -> Table:
        """Each tolerance in true milliseconds and in whole frames, with intervals."""
        from trellis.speech.evaluate.evaluation_tables import tolerance_table

        return tolerance_table(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "utterances": len(self.utterances),
            "boundaries": self.n_boundaries,
            "phones_with_other_labels": sum(u.renamed for u in self.utterances),
            "left_out": [{"id": name, "reason": reason} for name, reason in self.left_out],
            "within_ms": {f"{ms:g}": e.to_json() for ms, e in self.within.items()},
            "within_10_ms_frames": {f"{ms:g}": e.to_json() for ms, e in self.within_frames.items()},
            "mean_ms": self.mean_ms.to_json(),
            "median_ms": self.median_ms.to_json(),
            "bias_ms": self.bias_ms.to_json(),
        }


def boundary_errors(reference: Alignment, predicted: Alignment, id: str = "") -> BoundaryErrors:
    """Compare two alignments of one recording; different numbers of phones are a :class:`DataError`."""
    length = max(float(a.duration or 0.0) for a in (reference, predicted))
    whole = replace(reference, duration=length).filled(SILENCE, _MIN_GAP).normalise_silence().phones
    spoken = [p for p in whole if p.label != SILENCE]
    answers = [p for p in predicted.phones if not is_silence(p.label)]
    if len(spoken) != len(answers):
        raise DataError(f"{id}: {len(spoken)} phones in the reference, {len(answers)} in the hypothesis")
    times, k = [], 0  # k: how many phones have been passed
    for left, right in pairwise(whole):
        k += left.label != SILENCE
        times.append(answers[k - 1].end if right.label == SILENCE else answers[k].start)
    return BoundaryErrors(
        id,
        np.array([p.start for p in whole[1:]], dtype=np.float64),
        np.array(times, dtype=np.float64),
        tuple(p.label for p in whole[:-1]),
        tuple(p.label for p in whole[1:]),
        sum(a.label != b.label for a, b in zip(spoken, answers, strict=True)),
    )


def evaluate_alignments(
    references: Mapping[str, Alignment],
    predictions: Mapping[str, Alignment],
    tolerances_ms: Sequence[float] = TOLERANCES_MS,
) -> AlignmentEvaluation:
    """Compare predictions with references of the same id.

    What cannot be compared (different numbers of phones, a missing side) is in ``left_out`` with the reason.

    Examples
    --------
    >>> from trellis.speech import Alignment
    >>> from trellis.speech.evaluate.boundary_evaluation import evaluate_alignments
    >>> reference = {"talk": Alignment.from_starts([0.0, 0.10, 0.30], ["sil", "t", "a"], duration=0.9)}
    >>> ours = {"talk": Alignment.from_starts([0.0, 0.11, 0.33], ["sil", "t", "a"], duration=0.9)}
    >>> evaluate_alignments(reference, ours).within[10.0].value
    0.5
    """
    kept, left_out = [], []
    for name, reference in references.items():
        if name not in predictions:
            left_out.append((name, "there is no hypothesis"))
            continue
        try:
            kept.append(boundary_errors(reference, predictions[name], name))
        except DataError as error:
            left_out.append((name, str(error).removeprefix(f"{name}: ")))
    left_out += [(name, "there is no reference") for name in predictions if name not in references]
    evaluation = AlignmentEvaluation(tuple(kept), tuple(left_out), tuple(map(float, tolerances_ms)))
    if evaluation.n_boundaries == 0:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out[:3])
        raise DataError(
            f"there are no boundaries to compare ({reasons or 'no utterance has an inner boundary'})"
        )
    return evaluation


@dataclass(frozen=True, eq=False)
class AlignmentComparison:
    """``differences``: figures of ``a`` minus those of ``b``, with paired intervals, on shared utterances."""

    a: AlignmentEvaluation
    b: AlignmentEvaluation
    differences: dict[str, Estimate]

    @property
    def within(self) -> dict[float, Estimate]:
        return {ms: self.differences[f"within {ms:g}"] for ms in self.a.tolerances_ms}

    def to_json(self) -> dict[str, Any]:
        return {
            "utterances": len(self.a.utterances),
            "boundaries": self.a.n_boundaries,
            "within_ms": {f"{ms:g}": e.to_json() for ms, e in self.within.items()},
            **{f"{name}_ms": self.differences[name].to_json() for name in ("mean", "median", "bias")},
        }


def compare(a: AlignmentEvaluation, b: AlignmentEvaluation) -> AlignmentComparison:
    """Two systems on the same boundaries: those of the utterances that both were scored on.

    Examples
    --------
    >>> from trellis.speech import Alignment
    >>> from trellis.speech.evaluate.boundary_evaluation import compare, evaluate_alignments
    >>> reference = {"talk": Alignment.from_starts([0.0, 0.10, 0.30], ["sil", "t", "a"], duration=0.9)}
    >>> ours = {"talk": Alignment.from_starts([0.0, 0.11, 0.33], ["sil", "t", "a"], duration=0.9)}
    >>> a, b = evaluate_alignments(reference, reference), evaluate_alignments(reference, ours)
    >>> compare(a, b).within[20.0].value
    0.5
    """
    ours, theirs = ({u.id: u for u in e.utterances} for e in (a, b))
    ids = [name for name in ours if name in theirs and _same_boundaries(ours[name], theirs[name])]
    if not sum(len(ours[name]) for name in ids):
        raise DataError("the two evaluations share no utterance with the same reference; nothing to compare")
    a, b = (
        AlignmentEvaluation(tuple(part[name] for name in ids), (), a.tolerances_ms) for part in (ours, theirs)
    )
    return AlignmentComparison(a, b, a.figures.minus(b.figures))


def _same_boundaries(a: BoundaryErrors, b: BoundaryErrors) -> bool:
    return len(a) == len(b) and bool(np.allclose(a.reference, b.reference, rtol=0, atol=ALLOWANCE))


def _select(utterance: BoundaryErrors, chosen: BoolArray) -> BoundaryErrors:
    where = np.flatnonzero(chosen)
    return BoundaryErrors(
        utterance.id,
        utterance.reference[where],
        utterance.predicted[where],
        tuple(utterance.left[k] for k in where),
        tuple(utterance.right[k] for k in where),
    )
