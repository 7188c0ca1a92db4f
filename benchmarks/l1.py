"""L1 norm (c1 = c2 = 0.1) against CRFsuite: the objective after 30, 50, 100 and 300 iterations, and F1.

The features are those of the tutorial of sklearn-crfsuite: words, suffixes, shapes and neighbours of a named
entity recogniser, with truth values left in their dictionaries. Both sides have the same weights and minimise

    sum_i (-log p(y_i | x_i)) + c1 ||w||_1 + c2 ||w||^2

The corpus is CoNLL-2002 Spanish where its files are there (conll2002/esp.train and esp.testb, with the part
of speech as a feature, as in the tutorial). Otherwise it is made from the treebank UD English EWT: names are
the runs of PROPN, numbers those of NUM, and nine tokens in ten are O; tags are then no feature, because they
would tell the answer.
"""

from __future__ import annotations

import gzip
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pycrfsuite

from _common import Figures, check, files, parser
from _crfsuite import ClockedTrainer
from trellis import SequenceLabeler
from trellis.losses.metrics import span_report

Token = tuple[str, str | None, str]  # word, part of speech if it is a feature, label
C1, C2 = 0.1, 0.1
MARKS = (30, 50, 100, 300)
KINDS = {"PROPN": "NAME", "NUM": "NUMBER"}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--sentences", type=int, help="learn from the first of them only")
    given = options.parse_args()
    train, test, name = corpus(given.data)
    limit = 1500 if given.quick and given.sentences is None else given.sentences
    train = train[:limit]
    X, y, X_test = [features(s) for s in train], [labels(s) for s in train], [features(s) for s in test]
    gold = [labels(s) for s in test]
    with tempfile.TemporaryDirectory() as folder:
        measured(f"{name}, {len(X)} sentences", X, y, X_test, gold, Path(folder) / "model.crf").print()


def measured(title: str, X: Any, y: Any, X_test: Any, gold: Any, model: Path) -> Figures:
    theirs, at_100 = crfsuite(X, y, model, MARKS[-1]), crfsuite(X, y, model, 100)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    their_f1 = 100 * span_report(gold, [tagger.tag(x) for x in X_test]).overall.f1
    ours, ours_100 = fitted(X, y, max_iter=MARKS[-1], delta=0.0), fitted(X, y, max_iter=100, delta=0.0)
    f1 = 100 * span_report(gold, ours_100.predict(X_test)).overall.f1
    check(ours.layout_.n_weights == theirs.n_features, f"{ours.layout_.n_weights} weights here, "
          f"{theirs.n_features} there")  # fmt: skip

    figures = Figures(f"L1 norm against CRFsuite: {title}")
    figures.value("weights", f"{ours.layout_.n_weights:,}", f"{theirs.n_features:,}", "equal", True)
    for mark in MARKS:
        here, there = value(ours.history_["objective"], mark), value(theirs.losses, mark)
        figures.value(
            f"objective after {mark} iterations",
            f"{here:,.1f}",
            f"{there:,.1f}",
            "\u2264 1.001x",
            here <= 1.001 * there,
        )
    figures.value("test F1 after 100 iterations", f"{f1:.2f}", f"{their_f1:.2f}")
    figures.times("CPU of 100 iterations", cpu(ours, X, y), at_100.total_cpu)
    began = time.process_time()
    default, as_there = fitted(X, y), fitted(X, y, delta=1e-5, period=10)
    seconds = time.process_time() - began
    stopped = crfsuite(X, y, model, None)
    for what, one in (("by default", default), ("at delta 1e-5, period 10", as_there)):
        figures.value(f"iterations {what}: {one.status_.reason}", str(one.n_iter_), str(len(stopped.losses)))
        figures.value(
            f"objective {what}", f"{one.history_['objective'][-1]:,.1f}", f"{stopped.losses[-1]:,.1f}"
        )
    figures.value("CPU of both", f"{seconds:.1f} s")
    f1 = 100 * span_report(gold, default.predict(X_test)).overall.f1
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    their_f1 = 100 * span_report(gold, [tagger.tag(x) for x in X_test]).overall.f1
    figures.value("test F1 by default", f"{f1:.2f}", f"{their_f1:.2f}")
    return figures


def fitted(X: Any, y: Any, **options: Any) -> SequenceLabeler:
    labeler = SequenceLabeler("log", l1=C1, l2=2 * C2, boundaries=False, verbose=False, **options)
    return labeler.fit(X, y)


def cpu(labeler: SequenceLabeler, X: Any, y: Any) -> float:
    began = time.process_time()
    labeler.set_params(max_iter=101).fit(X, y)
    everything = time.process_time() - began
    began = time.process_time()
    with warnings.catch_warnings(action="ignore"):  # of a model that one iteration makes
        labeler.set_params(max_iter=1).fit(X, y)
    return everything - (time.process_time() - began)


class Trainer(ClockedTrainer):
    n_features = 0

    def message(self, message: str) -> None:
        super().message(message)
        if message.startswith("Number of features:"):
            self.n_features = int(message.split(":")[1])


def crfsuite(X: Any, y: Any, model: Path, iterations: int | None) -> Trainer:
    """To the given number of iterations, or until it stops by itself."""
    trainer = Trainer()
    for items, names in zip(X, y, strict=True):
        trainer.append(items, names)
    trainer.select("lbfgs")
    stop = {} if iterations is None else {"max_iterations": iterations, "delta": 0.0, "epsilon": 1e-12}
    trainer.set_params({"c1": C1, "c2": C2, **stop})
    trainer.train(str(model))
    return trainer


def value(objectives: Sequence[float], mark: int) -> float:
    return objectives[min(mark, len(objectives)) - 1]


def corpus(data: Path) -> tuple[list[list[Token]], list[list[Token]], str]:
    folder = data / "conll2002"
    if (folder / "esp.train").exists():
        train, test = files(folder, "esp.train", "esp.testb")
        return read_entities(train), read_entities(test), "CoNLL-2002 Spanish"
    train, test = files(data / "ud_english_ewt", "en_ewt-ud-train.conllu.gz", "en_ewt-ud-test.conllu")
    return read_names(train), read_names(test), "names and numbers in UD English EWT"


def read_entities(path: Path) -> list[list[Token]]:
    blocks = path.read_text(encoding="latin-1").split("\n\n")
    rows = [[line.split() for line in block.splitlines() if line.strip()] for block in blocks]
    return [[(word, tag, label) for word, tag, label in sentence] for sentence in rows if sentence]


def read_names(path: Path) -> list[list[Token]]:
    opened = gzip.open if path.suffix == ".gz" else open
    sentences: list[list[Token]] = []
    with opened(path, "rt", encoding="utf-8") as file:
        for block in file.read().split("\n\n"):
            sentence: list[Token] = []
            last = None
            for line in block.splitlines():
                if line.startswith("#") or not line.split("\t")[0].isdigit():
                    continue
                word, kind = line.split("\t")[1], KINDS.get(line.split("\t")[3])
                sentence.append(
                    (word, None, "O" if kind is None else f"{'I' if kind == last else 'B'}-{kind}")
                )
                last = kind
            if sentence:
                sentences.append(sentence)
    return sentences


def labels(sentence: list[Token]) -> list[str]:
    return [label for _, _, label in sentence]


def features(sentence: list[Token]) -> list[dict[str, Any]]:
    """As ``sent2features`` of the tutorial."""
    return [word_features(sentence, i) for i in range(len(sentence))]


def word_features(sentence: list[Token], i: int) -> dict[str, Any]:
    word, tag, _ = sentence[i]
    found: dict[str, Any] = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
    }
    if tag is not None:
        found |= {"postag": tag, "postag[:2]": tag[:2]}
    for name, at, beyond in (("-1:", i - 1, "BOS"), ("+1:", i + 1, "EOS")):
        if not 0 <= at < len(sentence):
            found[beyond] = True
            continue
        word, tag, _ = sentence[at]
        found |= {
            f"{name}word.lower()": word.lower(),
            f"{name}word.istitle()": word.istitle(),
            f"{name}word.isupper()": word.isupper(),
        }
        if tag is not None:
            found |= {f"{name}postag": tag, f"{name}postag[:2]": tag[:2]}
    return found


if __name__ == "__main__":
    main()
