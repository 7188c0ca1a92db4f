"""Learn boundaries from three synthetic voices and align a fourth: speech whose phones are known exactly.

The speech was synthesised by flite, so that where each phone begins is known exactly, and figures are far
better than on people. The voices say different sentences. One classifier of
frames and one of boundaries are trained on 66 sentences; then the weights of a handful of features are
learnt twice on the same ground, for the likelihood and for the loss that is reported: the share of
boundaries that are off by more than 10 ms.

    python examples/align_speech.py         # a table on the terminal, a page to listen to in demo_output/
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from trellis.report.alignment_page import write_alignment_page
from trellis.speech import Aligner, Alignment, Utterance, synthetic_corpus
from trellis.speech.evaluate.boundary_evaluation import AlignmentEvaluation, evaluate_alignments

TRAIN, TEST = ("awb", "kal16", "rms"), "slt"
OUTPUT = Path("demo_output/alignment.html")
SPEECH = Path(__file__).resolve().parent.parent / "tests/support/synthetic_speech"
SHOWN = "slt-14"


def equal_lengths(utterance: Utterance) -> Alignment:
    """The baseline that does not listen."""
    labels, length = utterance.phones, utterance.recording().duration
    return Alignment.from_starts(np.arange(len(labels)) * length / len(labels), labels, length)


def run() -> tuple[dict[str, AlignmentEvaluation], Aligner]:
    train, test = (synthetic_corpus(voices, SPEECH) for voices in (TRAIN, [TEST]))
    references = {u.id: u.reference for u in test if u.reference is not None}
    found = {"equal lengths": evaluate_alignments(references, {u.id: equal_lengths(u) for u in test})}
    settings: dict[str, Any] = {"n_jobs": 2}
    prepared = Aligner(**settings).prepare(train)
    likelihood = Aligner("log", **settings).fit(prepared)
    found["largest likelihood (CRF)"] = likelihood.evaluate(test)
    direct = Aligner("direct", "tau_alignment", tau_ms=10.0, **settings).fit(prepared)
    found["smallest loss (direct)"] = direct.evaluate(test)
    return found, direct


def report(found: dict[str, AlignmentEvaluation], seconds: float) -> None:
    n = next(iter(found.values())).n_boundaries
    table = Table(
        title=f"synthetic speech, a voice never heard: {n} boundaries, per cent within", title_justify="left"
    )
    for name in ("weights by", "10 ms", "20 ms", "30 ms", "40 ms", "median error"):
        table.add_column(name, justify="left" if name == "weights by" else "right")
    for name, e in found.items():
        shares = [f"{100 * e.within[ms].value:.1f}" for ms in (10.0, 20.0, 30.0, 40.0)]
        table.add_row(name, *shares, f"{e.median_ms.value:.1f} ms")
    console = Console()
    console.print(table)
    console.print(
        f"[dim]{seconds:.0f} s, compiling included; open {OUTPUT} in a browser, click a phone to hear it[/]"
    )


def main() -> None:
    began = time.perf_counter()
    found, aligner = run()
    utterance = next(u for u in synthetic_corpus([TEST], SPEECH) if u.id == SHOWN)
    alignment = aligner.align(utterance.audio, utterance.phones, silence="none")
    OUTPUT.parent.mkdir(exist_ok=True)
    title = f"synthetic speech, voice {TEST}: {' '.join(utterance.words)}"
    write_alignment_page(OUTPUT, utterance.audio, alignment, utterance.reference, title=title)
    report(found, time.perf_counter() - began)


if __name__ == "__main__":
    main()
