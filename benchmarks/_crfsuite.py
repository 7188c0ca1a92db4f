"""CRFsuite as a peer: its chunking features made in Python, a trainer with clocks, its weights in our layout.

python benchmarks/_crfsuite.py TRAIN_FILE strings       trains for 15 iterations and prints its peak memory;
                                                        or "dictionaries", or "nothing" to train on
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pycrfsuite

from _memory import print_peak_memory

if TYPE_CHECKING:  # the child process whose memory is measured must not pay for numpy and Trellis
    import numpy as np

    from trellis.data.labels import LabelSet
    from trellis.features.encoded import FeatureEncoder
    from trellis.structures.chain.scores.linear_chain import LinearLayout

Sentence = list[list[str]]  # rows of columns
Items = list[list[str]]  # feature strings of each step

UNIGRAMS = (-2, -1, 0, 1, 2)


def read_sentences(path: Path) -> list[Sentence]:
    """The rows of a column file, as a user of CRFsuite reads them."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    return [[line.split() for line in block.splitlines()] for block in blocks if block.strip()]


def chunking_features(sentence: Sentence) -> Items:
    """The features of CRFsuite's chunking example: what would reach beyond the sentence is left out.

    Written for speed (no template interpreter), so that the end-to-end comparison is with a careful user.
    """
    n = len(sentence)
    w = [row[0] for row in sentence]
    p = [row[1] for row in sentence]
    w2 = [f"{a}|{b}" for a, b in pairwise(w)]
    p2 = [f"{a}|{b}" for a, b in pairwise(p)]
    p3 = [f"{a}|{b}" for a, b in zip(p2, p[2:], strict=False)]
    items: Items = [[] for _ in range(n)]
    for name, strings, size, starts in (
        ("w", w, 1, UNIGRAMS),
        ("w", w2, 2, (-1, 0)),
        ("pos", p, 1, UNIGRAMS),
        ("pos", p2, 2, (-2, -1, 0, 1)),
        ("pos", p3, 3, (-2, -1, 0)),
    ):
        for start in starts:
            prefix = "|".join(f"{name}[{row}]" for row in range(start, start + size)) + "="
            for t in range(max(0, -start), min(n, n - start - size + 1)):
                items[t].append(prefix + strings[t + start])
    items[0].append("__BOS__")
    items[-1].append("__EOS__")
    return items


class ClockedTrainer(pycrfsuite.Trainer):
    """Notes CPU and wall time of every iteration; ``between`` runs after each, off the clock."""

    def __init__(self, between: Callable[[], None] | None = None) -> None:
        super().__init__(verbose=True)
        self._between = between
        self._trials = 1
        self._now = (0.0, 0.0)
        self._last: tuple[float, float] | None = None
        self.cpu: list[float] = []  # of passes, or of iterations that evaluated the objective once
        self.wall: list[float] = []
        self.total_cpu = 0.0  # of all iterations but the first
        self.losses: list[float] = []

    def message(self, message: str) -> None:
        now = time.process_time(), time.perf_counter()
        if message.startswith("***** Iteration"):
            self._now = now
        elif message.startswith("Loss:"):
            self.losses.append(float(message.split()[1]))
        elif found := re.match(r"Line search trials: (\d+)", message):
            self._trials = int(found[1])
        elif message.startswith("Seconds required for this iteration"):
            if self._last is not None:
                self.total_cpu += self._now[0] - self._last[0]
            if self._last is not None and self._trials == 1:
                self.cpu.append(self._now[0] - self._last[0])
                self.wall.append(self._now[1] - self._last[1])
            if self._between is not None:
                self._between()
            self._last = time.process_time(), time.perf_counter()


def crfsuite_train(
    X: list[Items],
    y: list[list[str]],
    model: Path,
    algorithm: str,
    between: Callable[[], None] | None = None,
    **options: float,
) -> tuple[ClockedTrainer, float]:
    """Train and store; the trainer with its clocks, and the wall seconds without handing over the data."""
    trainer = ClockedTrainer(between)
    for items, labels in zip(X, y, strict=True):
        trainer.append(items, labels)
    trainer.select(algorithm)
    trainer.set_params(options)
    began = time.perf_counter()
    trainer.train(str(model))
    return trainer, time.perf_counter() - began


def exported_weights(
    tagger: pycrfsuite.Tagger, encoder: FeatureEncoder, names: LabelSet, layout: LinearLayout
) -> np.ndarray:
    """CRFsuite's weights (six decimals: all that it prints) as a vector of ``layout``, matched by name."""
    import numpy as np

    info = tagger.info()
    row = {name.removeprefix("U:"): i for i, name in enumerate(encoder.feature_names())}
    code = {label: i for i, label in enumerate(names.labels)}
    features = np.zeros((len(row), len(names)))
    for (feature, label), weight in info.state_features.items():
        features[row[feature], code[label]] = weight
    transitions = np.zeros((len(names), len(names)))
    for (before, after), weight in info.transitions.items():
        transitions[code[before], code[after]] = weight
    return layout.from_dense(features, np.concatenate([transitions.ravel(), np.zeros(2 * len(names))]))


def training_items(train_file: Path, kind: str) -> tuple[list[Any], list[list[str]]]:
    """Feature strings of the file, or dictionaries of them; nothing else of the file is left in memory."""
    sentences = read_sentences(train_file)
    y = [[row[2] for row in s] for s in sentences]
    if kind == "dictionaries":
        return [[dict.fromkeys(step, 1.0) for step in chunking_features(s)] for s in sentences], y
    return [chunking_features(s) for s in sentences], y


def train_for_memory(train_file: Path, kind: str) -> None:
    if kind == "nothing":
        return
    X, y = training_items(train_file, kind)
    with tempfile.TemporaryDirectory() as folder:
        crfsuite_train(X, y, Path(folder) / "m.crf", "lbfgs", c2=1.0, max_iterations=15)


if __name__ == "__main__":
    train_for_memory(Path(sys.argv[1]), sys.argv[2])
    print_peak_memory()
