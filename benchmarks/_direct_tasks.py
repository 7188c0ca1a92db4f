"""The tasks of the direct-loss benchmark: what is generated, and what is read from files.

A task is training data, test data and the loss that both the choice of hyperparameters and the test go by.
Every draw depends on the seed alone. Files are read once.

    chains    four labels (the last is rare), two numbers a step. Class means on a circle and normal noise:
              the log-linear model is right. With outliers, a tenth of the steps carries numbers that are
              far off and mean nothing.
    images    smooth black and white shapes, a sixth of whose pixels is far too bright or too dark (see
              ``denoising.py``). In small ones, for hidden labels, half of the training pixels have none.
    OCR       a tenth of all handwritten words drawn at random to learn from, the others to test.
    UD tags   sentences drawn at random; errors on rare tags cost up to 20.
    CoNLL     sentences drawn at random; chunk types that are rare or of one word only are no chunks.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from denoising import images
from trellis import Graph
from trellis.losses import Hamming, Loss, SpanF1, WeightedHamming, ZeroOne

OCR_FILE = "ocr_letters/letters.npz"
UD_FILES = "ud_english_ewt/en_ewt-ud-train.conllu.gz", "ud_english_ewt/en_ewt-ud-test.conllu"
CONLL_FILES = "conll2000/train.txt", "conll2000/test.txt"
TAG_COSTS = {"PROPN": 5.0, "NUM": 10.0, "INTJ": 20.0, "X": 20.0, "ADV": 3.0}
CHUNKS = {"NP", "VP", "PP", "ADVP", "SBAR", "ADJP", "PRT"}
ONE_WORD = ("I-PRT", "I-SBAR")

Sentence = list[tuple[str, ...]]
Features = Callable[[Sentence], list[list[str]]]


class Data(NamedTuple):
    X: list[Any]
    y: list[Any]

    def take(self, chosen: Any) -> Data:
        return Data([self.X[i] for i in chosen], [self.y[i] for i in chosen])


class Task(NamedTuple):
    """``data``: names the training and test data, whatever the loss, so that fits can be shared."""

    data: str
    train: Data
    test: Data
    loss: Loss


class Sizes(NamedTuple):
    """How many examples to learn from and to test on. ``words``: the share of the OCR words to learn from."""

    chains: tuple[int, int] = (500, 3000)
    images: tuple[int, int] = (50, 60)
    hidden: tuple[int, int] = (120, 200)
    sentences: tuple[int, int] = (1000, 10**6)
    words: tuple[int, int] = (688, 10**6)


SIZES = Sizes()
QUICK = Sizes((100, 300), (15, 20), (20, 40), (100, 200), (100, 500))

TRANSITIONS = np.array(
    [[0.7, 0.15, 0.13, 0.02], [0.15, 0.7, 0.13, 0.02], [0.15, 0.13, 0.7, 0.02], [0.3, 0.3, 0.3, 0.1]]
)
MEANS = 1.2 * np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87], [0.0, 0.0]])
LENGTH = 20


def chains(seed: int, sizes: Sizes, *, outliers: bool, costs: bool) -> Task:
    rng = np.random.default_rng([16, seed])
    train, test = (_chains(n, rng, outliers) for n in sizes.chains)
    loss = WeightedHamming(class_weight={3: 10.0}) if costs else Hamming()
    return Task(f"chains{outliers:d}", train, test, loss)


def _chains(n: int, rng: np.random.Generator, outliers: bool) -> Data:
    y = np.empty((n, LENGTH), dtype=int)
    y[:, 0] = rng.integers(3, size=n)
    steps = TRANSITIONS.cumsum(axis=1)
    for t in range(1, LENGTH):
        y[:, t] = (rng.random((n, 1)) > steps[y[:, t - 1], :-1]).sum(axis=1)
    x = MEANS[y] + rng.normal(0.0, 0.8, (n, LENGTH, 2))
    if outliers:
        x = np.where(rng.random((n, LENGTH, 1)) < 0.1, rng.normal(0.0, 15.0, x.shape), x)
    return Data(list(np.concatenate([x, np.ones((n, LENGTH, 1))], axis=2)), y.tolist())


def impulse_images(seed: int, sizes: Sizes) -> Task:
    rng = np.random.default_rng([16, seed])
    train, test = (Data(*images("impulse", n, rng)) for n in sizes.images)
    return Task("images", train, test, Hamming())


def hidden_images(seed: int, sizes: Sizes) -> Task:
    """Pieces of 6 x 6 pixels, for which sums over all labellings are cheap. Labels are lists."""
    rng = np.random.default_rng([17, seed])
    train, test = (_pieces(Data(*images("impulse", n // 4, rng))) for n in sizes.hidden)
    seen = [[label if rng.random() < 0.5 else None for label in labels] for labels in train.y]
    return Task("hidden", Data(train.X, seen), test, Hamming())


def _pieces(whole: Data) -> Data:
    quarters = [(slice(a, a + 6), slice(b, b + 6)) for a in (0, 6) for b in (0, 6)]
    greys = [graph.nodes.reshape(12, 12) for graph in whole.X]
    return Data(
        [Graph.grid(grey[q]) for grey in greys for q in quarters],
        [y[q].ravel().tolist() for y in whole.y for q in quarters],
    )


def letters(seed: int, sizes: Sizes, folder: Path, *, words: bool) -> Task:
    everything = _letters(folder / OCR_FILE)
    order = np.random.default_rng([16, seed]).permutation(len(everything.X))
    n_train, n_test = sizes.words
    train, test = everything.take(order[:n_train]), everything.take(order[n_train:][:n_test])
    return Task("letters", train, test, ZeroOne() if words else Hamming())


@cache
def _letters(path: Path) -> Data:
    with np.load(path) as stored:
        pixels = np.unpackbits(stored["pixels"], axis=1)[:, :128].astype(np.float64)
        spans = list(pairwise(np.r_[0, np.cumsum(stored["lengths"])]))
        return Data([pixels[a:b] for a, b in spans], [stored["labels"][a:b].tolist() for a, b in spans])


def tags(seed: int, sizes: Sizes, folder: Path, *, many: bool) -> Task:
    train, test = _drawn(seed, sizes, [_read_ud(folder / name) for name in UD_FILES])
    features = many_tag_features if many else few_tag_features

    def labels(sentence: Sentence) -> list[str]:
        return ["X" if word[1] == "SYM" else word[1] for word in sentence]

    learn, check = (Data([features(s) for s in part], [labels(s) for s in part]) for part in (train, test))
    return Task(f"tags{many:d}", learn, check, WeightedHamming(class_weight=TAG_COSTS))


def chunks(seed: int, sizes: Sizes, folder: Path, *, spans: bool) -> Task:
    train, test = _drawn(seed, sizes, [_read_columns(folder / name) for name in CONLL_FILES])

    def labels(sentence: Sentence) -> list[str]:
        return [tag if tag[2:] in CHUNKS and tag not in ONE_WORD else "O" for _, _, tag in sentence]

    learn, check = (
        Data([chunk_features(s) for s in part], [labels(s) for s in part]) for part in (train, test)
    )
    return Task("chunks", learn, check, SpanF1() if spans else Hamming())


def _drawn(seed: int, sizes: Sizes, files: list[list[Sentence]]) -> tuple[list[Sentence], list[Sentence]]:
    train, test = files
    order = np.random.default_rng([16, seed]).permutation(len(train))
    n_train, n_test = sizes.sentences
    return [train[i] for i in order[:n_train]], test[:n_test]


@cache
def _read_columns(path: Path) -> list[Sentence]:
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    return [[tuple(line.split()) for line in block.splitlines()] for block in blocks]


@cache
def _read_ud(path: Path) -> list[Sentence]:
    """Words and tags; lines of multi-word tokens and of empty nodes are left out."""
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode("utf-8")
    rows = ([line.split("\t") for line in block.splitlines()] for block in text.strip().split("\n\n"))
    return [[(row[1], row[3]) for row in block if row[0].isdigit()] for block in rows]


def few_tag_features(sentence: Sentence) -> list[list[str]]:
    return [["b", f"s2={word.lower()[-2:]}", f"C={word[:1].isupper()}"] for word, _ in sentence]


def many_tag_features(sentence: Sentence) -> list[list[str]]:
    words = ["#", *(word.lower() for word, _ in sentence), "#"]
    found = []
    for i, (word, _) in enumerate(sentence, start=1):
        low = words[i]
        own = ["b", f"w={low}", f"s1={low[-1:]}", f"s2={low[-2:]}", f"s3={low[-3:]}", f"p1={low[:1]}"]
        shape = [f"C={word[:1].isupper()}", f"d={any(c.isdigit() for c in word)}"]
        found.append([*own, *shape, f"w-={words[i - 1]}", f"w+={words[i + 1]}"])
    return found


def chunk_features(sentence: Sentence) -> list[list[str]]:
    words = ["#", "#", *(word.lower() for word, _, _ in sentence), "#", "#"]
    parts = ["#", "#", *(tag for _, tag, _ in sentence), "#", "#"]
    found = []
    for i in range(2, len(sentence) + 2):
        near = [f"w{d}={words[i + d]}" for d in (-1, 0, 1)] + [f"t{d}={parts[i + d]}" for d in range(-2, 3)]
        found.append([*near, f"tt={parts[i - 1]}|{parts[i]}", f"tu={parts[i]}|{parts[i + 1]}", "b"])
    return found
