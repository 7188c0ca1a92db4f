"""The systems that the alignment benchmark compares, with the same classifiers, features and passes.

The classifiers of a training set are trained once (``Aligner.prepare``); each system then learns the weights
of the features in its own way, with at most ``PASSES`` passes (L-BFGS: iterations) over the same utterances;
all else is the aligner's default. Direct loss follows the aligner's own recipe (from the CRF's weights, with
a measured eps); two more rows choose eps on the hold-out utterances, one of them from zero as published.
Penalties of the structural SVM are chosen there too. ``FINE_TUNED`` has likelihood, margin and the recipe of
direct loss only. Boundaries are decoded for the tolerance; rows called "best path" have those of the best
path of the same weights. Two systems learn no weights: equal lengths for all phones, and the frame
classifier's confidences alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from trellis.objectives.records import get_objective
from trellis.speech import Aligner, Alignment, Corpus, Utterance
from trellis.speech.align.learning.corpus_preparation import PreparedCorpus
from trellis.speech.evaluate.boundary_evaluation import AlignmentEvaluation, compare, evaluate_alignments
from trellis.structures.segments.problem.alignment_losses import get_alignment_loss
from trellis.structures.segments.problem.segment_problem import SegmentProblem

PASSES = 40
# name -> what it asks of the aligner: one or several candidates, among which the hold-out loss chooses
SYSTEMS: dict[str, list[dict[str, Any]]] = {
    "passive-aggressive": [{"objective": "margin", "solver": "passive_aggressive"}],
    "structural SVM": [{"objective": "margin", "solver": "frank_wolfe", "l2": l2} for l2 in (0.1, 1.0, 10.0)],
    "CRF": [{"objective": "log"}],
    "direct, τ-alignment, from zero": [{"objective": "direct", "epsilon": "holdout", "start": "zero"}],
    "direct, τ-alignment": [{"objective": "direct", "max_iter": 20}],
    "direct, τ-insensitive": [{"objective": "direct", "epsilon": "holdout", "loss": "tau_insensitive"}],
}
FINE_TUNED: dict[str, list[dict[str, Any]]] = {
    "CRF": SYSTEMS["CRF"],
    "structural SVM": SYSTEMS["structural SVM"],
    "direct, τ-alignment": SYSTEMS["direct, τ-alignment"],
}
UNIFORM, CLASSIFIER, DIRECT, CRF = "uniform split", "frame classifier only", "direct, τ-alignment", "CRF"
BEST_PATH = ", best path"  # in place of the decoding for the tolerance
DECODED_TWICE = (CRF, "structural SVM", DIRECT)
FRAMES = {", whole frames": "never", ", between frames": "always"}  # the default is one of them

Systems = Mapping[str, list[dict[str, Any]]]
Predictions = dict[str, dict[str, Alignment]]  # system -> utterance -> alignment


def run_systems(
    make: Callable[..., Aligner],
    train: Corpus,
    test: Corpus,
    systems: Systems = SYSTEMS,
) -> Predictions:
    """Every system's alignments of ``test`` to the phones of its references."""
    prepared = make().prepare(train)
    found: Predictions = {UNIFORM: {u.id: uniform(u) for u in test}}
    for name, candidates in systems.items():
        fitted = [make(**asked).fit(prepared) for asked in candidates]
        aligner = min(fitted, key=lambda one: held_out_loss(one, prepared)) if len(fitted) > 1 else fitted[0]
        if CLASSIFIER not in found:
            found[CLASSIFIER] = aligned(with_weights(aligner, "classifier"), test)
        if name in DECODED_TWICE:
            found[name + BEST_PATH] = aligned(aligner.set_params(decoding="best_path"), test)
        found[name] = aligned(aligner.set_params(decoding="tolerance"), test)
        if name == DIRECT:
            for suffix, refine in FRAMES.items():
                found[name + suffix] = aligned(aligner.set_params(refine=refine), test)
        print(f"  {name}: {aligner.status_}", flush=True)
    return found


def held_out_loss(aligner: Aligner, prepared: PreparedCorpus) -> float:
    loss = get_alignment_loss(aligner.loss, aligner.tau_ms / aligner.step_ms)
    problem = SegmentProblem(prepared.holdout, get_objective("margin"), loss)
    return float(problem.task_losses(aligner.weights_).mean())


def aligned(aligner: Aligner, corpus: Iterable[Utterance]) -> dict[str, Alignment]:
    return {u.id: aligner.align_reference(u) for u in corpus}


def with_weights(aligner: Aligner, feature: str) -> Aligner:
    """The same aligner looking at one feature only."""
    weights = np.array([float(name == feature) for name in aligner.feature_names_])
    only = Aligner(**aligner.get_params(deep=False))
    only.model_ = replace(aligner.model_, weights=weights)
    return only


def uniform(utterance: Utterance) -> Alignment:
    """All phones, silences too, equally long."""
    reference = utterance.reference
    if reference is None or reference.duration is None:
        raise ValueError(f"{utterance.id} has no reference")
    n = len(reference.labels)
    return Alignment.from_starts(np.arange(n) * reference.duration / n, reference.labels, reference.duration)


def references(corpus: Iterable[Utterance]) -> dict[str, Alignment]:
    return {u.id: u.reference for u in corpus if u.reference is not None}


def kept(path: Path | None, work: Callable[[], Predictions]) -> Predictions:
    """``work()``, or what an earlier run left in ``path``."""
    if path is not None and path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {
            system: {
                name: Alignment.from_starts(a["starts"], a["labels"], a["duration"]) for name, a in by.items()
            }
            for system, by in stored.items()
        }
    found = work()
    if path is not None:
        plain = {
            system: {
                name: {"starts": list(a.starts), "labels": list(a.labels), "duration": a.duration}
                for name, a in by.items()
            }
            for system, by in found.items()
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(plain), encoding="utf-8")
    return found


def pooled(runs: Sequence[tuple[Corpus, Predictions]]) -> dict[str, AlignmentEvaluation]:
    """One evaluation per system over all runs; utterances that several runs test count once for each."""
    truth = {f"{i}/{name}": a for i, (test, _) in enumerate(runs) for name, a in references(test).items()}
    return {
        system: evaluate_alignments(
            truth, {f"{i}/{name}": a for i, (_, p) in enumerate(runs) for name, a in p[system].items()}
        )
        for system in runs[0][1]
    }


def print_table(title: str, evaluations: Mapping[str, AlignmentEvaluation]) -> None:
    """Percentages within 10 .. 100 ms, true and by whole frames, and errors in ms."""
    table = Table(title=title, title_justify="left")
    table.add_column("system", overflow="fold")
    first = next(iter(evaluations.values()))
    for ms in first.tolerances_ms:
        table.add_column(f"≤{ms:g}", justify="right")
    for name in ("frames ≤10", "≤20", "≤30", "≤40", "mean", "median", "bias", "n"):
        table.add_column(name, justify="right")
    for system, e in evaluations.items():
        cells = [f"{100 * share.value:.1f}" for share in e.within.values()]
        cells += [f"{100 * e.within_frames[ms].value:.1f}" for ms in (10.0, 20.0, 30.0, 40.0)]
        cells += [f"{e.mean_ms.value:.1f}", f"{e.median_ms.value:.1f}", f"{e.bias_ms.value:+.1f}"]
        table.add_row(system, *cells, f"{e.n_boundaries:,}")
    Console(width=150).print(table)


def print_differences(best: str, evaluations: Mapping[str, AlignmentEvaluation]) -> None:
    """``best`` minus every other system, where both were scored; paired 95% intervals over utterances."""
    table = Table(title=f"{best} minus ...: points, paired 95% interval", title_justify="left")
    table.add_column("system", overflow="fold")
    for ms in (10, 20, 30, 40):
        table.add_column(f"≤{ms}", justify="right")
    table.add_column("n", justify="right")
    for system, e in evaluations.items():
        if system == best:
            continue
        c = compare(evaluations[best], e)
        points = [c.within[float(ms)] for ms in (10, 20, 30, 40)]
        cells = [f"{100 * d.value:+.1f} ({100 * d.low:+.1f} to {100 * d.high:+.1f})" for d in points]
        table.add_row(system, *cells, f"{c.a.n_boundaries:,}")
    Console(width=150).print(table)


def print_verdict(evaluations: Mapping[str, AlignmentEvaluation]) -> None:
    """Whether direct loss and the CRF can be told apart, in sentences."""
    for suffix, how in ((BEST_PATH, "by the best path"), ("", "decoded for the tolerance")):
        within = compare(evaluations[DIRECT + suffix], evaluations[CRF + suffix]).within
        apart = [f"{ms:g} ms" for ms in (10.0, 20.0, 30.0, 40.0) if within[ms].low * within[ms].high > 0]
        verdict = f"differ within {', '.join(apart)}" if apart else "cannot be told apart"
        print(f"direct loss and CRF, both {how}, {verdict} (95% intervals of the paired differences)")
