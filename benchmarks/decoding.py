"""What decoding for the loss at hand gains: one CRF for CoNLL-2000 chunks, decoded in five ways.

The loss is 1 - F1 of the spans of a sentence. "expected" is its mean over sentences by the probabilities of
the model, for the labelling that was chosen: what minimum-risk decoding minimises. "loss" is the mean on the
test set, with the paired difference to the first row and its standard error over sentences. Time is CPU time.

    python benchmarks/decoding.py [--data FOLDER] [--quick]
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from _common import files, parser
from trellis import SequenceLabeler, losses
from trellis.data.columns import read_columns
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.features.templates import Template
from trellis.losses.labelings import CandidateLoss
from trellis.losses.metrics import packed_span_report
from trellis.structures.chain.labeler.minimum_risk import minimum_risk
from trellis.structures.chain.oracle.chain_oracle import Chain

SAMPLES = 200  # of the model, for the expected loss of a labelling
WORDS = Template.parse("U0:%x[0,0]\nU1:%x[0,1]\nB\n")


@dataclass(frozen=True, eq=False)
class Reranked(CandidateLoss):
    """Span F1 as a loss that is known only for whole labellings: the k best are compared with each other."""

    name = "reranked"

    def per_sequence(self, gold: EncodedLabels, predicted: np.ndarray, labels: LabelSet) -> np.ndarray:
        return losses.SpanF1().per_sequence(gold, predicted, labels)


DECODINGS = {
    "highest score": losses.ZeroOne(),
    "fewest expected errors": losses.Hamming(),
    "16 best, re-ranked": Reranked(n_candidates=16),
    "64 best, re-ranked": Reranked(n_candidates=64),
    "largest expected F1": losses.SpanF1(),
}


def compare(title: str, template: Template, train: tuple[Any, Any], test: tuple[Any, Any]) -> None:
    (X, y), (X_test, y_test) = train, test
    model = SequenceLabeler(template=template, l2=1.0, constraints="bio", verbose=False).fit(X, y)
    scores = model.scores(X_test)
    names = model.labels_.extended(y_test)
    gold = names.encode(y_test)
    drawn = Chain().sample(scores, SAMPLES, np.random.default_rng(0))
    table = Table("decoding", title=title)
    for heading in ("expected", "loss", "difference", "corpus F1", "tokens right", "seconds"):
        table.add_column(heading, justify="right")
    first = None
    for name, loss in DECODINGS.items():
        minimum_risk(Chain(), model.scores(X_test[:2]), model.latent_, loss)  # compiles
        began = time.process_time()
        found = minimum_risk(Chain(), scores, model.latent_, loss)
        seconds = time.process_time() - began
        each = losses.SpanF1().per_sequence(gold, found, names)
        expected = np.mean(
            [
                losses.SpanF1().per_sequence(EncodedLabels(y, None, gold.offsets), found, names).mean()
                for y in drawn
            ]
        )
        first = each if first is None else first
        gain = each - first
        report = packed_span_report(gold.codes, found, gold.offsets, names.labels)
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        table.add_row(
            name,
            f"{100 * expected:.2f}",
            f"{100 * each.mean():.2f}",
            "" if each is first else f"{100 * gain.mean():+.2f} ± {100 * error:.2f}",
            f"{100 * report.overall.f1:.2f}",
            f"{100 * report.token_accuracy:.2f}",
            f"{seconds:.2f}",
        )
    Console(width=110).print(table)


def main() -> None:
    options = parser(__doc__).parse_args()
    sizes = (300, 150) if options.quick else (1000, 500)
    parts = []
    for path, size in zip(files(options.data / "conll2000", "train.txt", "test.txt"), sizes, strict=True):
        columns = read_columns(path)
        words, tags, chunks = (columns.sequences(i)[:size] for i in range(3))
        parts.append(([list(zip(*row, strict=True)) for row in zip(words, tags, strict=True)], chunks))
    compare("Span F1 loss (%), word and tag of the step only", WORDS, *parts)
    compare("Span F1 loss (%), the features of CRFsuite's chunker", Template.crfsuite_chunking(), *parts)


if __name__ == "__main__":
    main()
