"""Read strings of handwritten digits: one feature set, one structure, several ways to learn.

Images of single digits (scikit-learn's bundled 8x8 scans, smudged with noise) are strung together by a
grammar in which each digit has three possible successors, so that a neighbour says much about a digit that
cannot be read alone. Training and held-out strings share no image. The baseline sees the same pixels, one
digit at a time.

Then the same with a scanner that fails on one digit in ten, in training and in testing. No weights read such
a digit, and objectives differ in what they make of it: the likelihood has to explain each of them, a hinge
pays for each in proportion, and the task loss counts it as wrong and leaves it alone. CRF and structural SVM
choose their l2 on a fifth of the training strings, as direct loss does.

    python examples/digit_strings.py         # a table on the terminal, a picture in demo_output/
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from trellis import SequenceLabeler
from trellis.report.image_strings import ReadString, draw_strings
from trellis.theory import compare_models

SMUDGE = 0.35  # standard deviation of the noise; pixels are between 0 and 1
FAILURES, FAILURE = (
    0.1,
    3.0,
)  # the share of digits on which the scanner fails, and the noise that it gives then
L2_VALUES = (1.0, 10.0, 100.0, 1000.0)

# What may follow each digit. Digits that look alike (3 and 8, 4 and 9, 1 and 7) go different ways.
SUCCESSORS = {
    0: [1, 5, 6],
    1: [2, 0, 9],
    2: [3, 7, 1],
    3: [4, 6, 0],
    4: [5, 8, 2],
    5: [6, 3, 9],
    6: [7, 2, 4],
    7: [8, 4, 5],
    8: [9, 1, 7],
    9: [0, 3, 8],
}
PROBABILITIES = [0.5, 0.3, 0.2]
ALONE = "each digit alone"
OUTPUT = Path("demo_output/digit_strings.png")

Readings = dict[str, list[list[int]]]


@dataclass(frozen=True)
class Strings:
    """``X``: one (length, 64) array of pixels per string; ``y``: its digits."""

    X: list[np.ndarray]
    y: list[list[int]]


def make_strings(images: np.ndarray, digits: np.ndarray, n: int, rng: np.random.Generator) -> Strings:
    """``n`` strings of 6 to 11 digits from the grammar, each digit drawn from the images of its kind."""
    by_digit = [images[digits == d] for d in range(10)]
    X, y = [], []
    for _ in range(n):
        string = [int(rng.integers(10))]
        length = int(rng.integers(6, 12))
        while len(string) < length:
            string.append(int(rng.choice(SUCCESSORS[string[-1]], p=PROBABILITIES)))
        pixels = np.array([by_digit[d][rng.integers(len(by_digit[d]))] for d in string])
        X.append(np.clip(pixels + rng.normal(scale=SMUDGE, size=pixels.shape), 0, 1))
        y.append(string)
    return Strings(X, y)


def load_strings(seed: int = 0) -> tuple[Strings, Strings]:
    """Training and held-out strings, from disjoint halves of the images."""
    rng = np.random.default_rng(seed)
    bunch = load_digits()
    order = rng.permutation(len(bunch.target))
    images, digits = bunch.data[order] / 16, bunch.target[order]
    half = len(digits) // 2
    training = make_strings(images[:half], digits[:half], 200, rng)
    return training, make_strings(images[half:], digits[half:], 300, rng)


def with_failures(strings: Strings, rng: np.random.Generator) -> Strings:
    """The same strings by a scanner that gives mere noise for some digits."""
    X = [
        np.where(rng.random((len(x), 1)) < FAILURES, rng.normal(scale=FAILURE, size=x.shape), x)
        for x in strings.X
    ]
    return Strings(X, strings.y)


def alone(strings: Strings) -> Strings:
    """Every digit as a string of its own: nothing is left for the structure to say."""
    return Strings([row[None] for x in strings.X for row in x], [[d] for string in strings.y for d in string])


def letters_wrong(read: list[list[int]], true: list[list[int]]) -> float:
    return float(np.mean(np.concatenate(read) != np.concatenate(true)))


def strings_wrong(read: list[list[int]], true: list[list[int]]) -> float:
    return float(np.mean([list(a) != list(b) for a, b in zip(read, true, strict=True)]))


def learners() -> dict[str, SequenceLabeler]:
    """The same structure and pixels under each objective; the baseline is the CRF without a structure."""
    return {
        ALONE: SequenceLabeler("log", l2=1.0),
        "perceptron": SequenceLabeler("perceptron", max_iter=20, random_state=0),
        "structural SVM": SequenceLabeler("margin", l2=10.0, random_state=0),
        "CRF": SequenceLabeler("log", l2=1.0),
        "direct loss": SequenceLabeler("direct", random_state=0),
    }


def read_strings(name: str, model: SequenceLabeler, strings: Strings) -> list[list[int]]:
    """What the model reads; the baseline reads digit by digit."""
    if name != ALONE:
        return model.predict(strings.X)
    digits = iter(model.predict(alone(strings).X))
    return [[next(digits)[0] for _ in string] for string in strings.y]


def compare(
    training: Strings, held_out: Strings, console: Console
) -> tuple[dict[str, SequenceLabeler], Readings]:
    """Fit every learner, print the table, and return the fitted models and what they read."""
    table = Table(title=f"{len(training.y)} training strings, {len(held_out.y)} held out; percent wrong")
    table.add_column("learner", no_wrap=True)
    for heading in ("training\nletters", "held-out\nletters", "held-out\nstrings", "\nseconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    models, readings = learners(), {}
    for name, model in models.items():
        began = time.perf_counter()
        part = alone(training) if name == ALONE else training
        model.fit(part.X, part.y)
        seconds = time.perf_counter() - began
        on_training = read_strings(name, model, training)
        readings[name] = read_strings(name, model, held_out)
        table.add_row(
            name,
            f"{100 * letters_wrong(on_training, training.y):.1f}",
            f"{100 * letters_wrong(readings[name], held_out.y):.1f}",
            f"{100 * strings_wrong(readings[name], held_out.y):.1f}",
            f"{seconds:.2f}",
        )
    console.print(table)
    for name, model in models.items():
        console.print(f"[bold]{name}:[/bold] {model.status_}", highlight=False)
    return models, readings


def choose_l2(objective: str, strings: Strings) -> SequenceLabeler:
    """The l2 with the fewest errors on a fifth of the strings; then all of them are trained on."""
    kept = 4 * len(strings.y) // 5
    errors = {}
    for l2 in L2_VALUES:
        model = SequenceLabeler(objective, l2=l2, random_state=0).fit(strings.X[:kept], strings.y[:kept])
        errors[l2] = letters_wrong(model.predict(strings.X[kept:]), strings.y[kept:])
    best = min(errors, key=lambda l2: errors[l2])
    return SequenceLabeler(objective, l2=best, random_state=0).fit(strings.X, strings.y)


def compare_with_failures(training: Strings, held_out: Strings, console: Console) -> None:
    """The same task by a scanner that fails now and then; differences to direct loss with their intervals."""
    rng = np.random.default_rng(1)
    training, held_out = with_failures(training, rng), with_failures(held_out, rng)
    direct = SequenceLabeler("direct", random_state=0).fit(training.X, training.y)
    table = Table(title=f"The scanner fails on {FAILURES:.0%} of the digits; percent wrong")
    for heading in ("learner", "held-out\nletters", "direct loss\nis ahead by", "\n95 % interval"):
        table.add_column(heading, justify="left" if heading == "learner" else "right", no_wrap=True)
    for name, objective in (("CRF", "log"), ("structural SVM", "margin")):
        model = choose_l2(objective, training)
        found = compare_models(model, direct, held_out.X, held_out.y, loss="hamming")
        table.add_row(
            name,
            f"{100 * found.a:.1f}",
            f"{100 * found.difference:.1f}",
            f"{100 * found.low:.1f} to {100 * found.high:.1f}",
        )
    table.add_row("direct loss", f"{100 * letters_wrong(direct.predict(held_out.X), held_out.y):.1f}", "", "")
    console.print(table)
    console.print(f"[bold]direct loss:[/bold] {direct.status_}", highlight=False)


def draw(held_out: Strings, crf: SequenceLabeler, readings: Readings, n: int = 4) -> None:
    """A picture of long strings on which the learners disagree most."""
    disagreement = [
        sum(len(set(digits)) - 1 for digits in zip(*(read[i] for read in readings.values()), strict=True))
        if len(string) >= 9
        else -1
        for i, string in enumerate(held_out.y)
    ]
    chosen = np.argsort(disagreement, kind="stable")[::-1][:n]
    marginals = crf.predict_marginals([held_out.X[i] for i in chosen])
    strings = [
        ReadString(
            held_out.X[i].reshape(-1, 8, 8),
            held_out.y[i],
            {name: read[i] for name, read in readings.items()},
            probabilities,
        )
        for i, probabilities in zip(chosen, marginals, strict=True)
    ]
    title = "The held-out strings on which the learners disagree most"
    OUTPUT.parent.mkdir(exist_ok=True)
    draw_strings(OUTPUT, strings, list(crf.classes_), title=title, marginals_of="CRF")


def compile_kernels() -> None:
    """Fill the compile cache on two cores, a process for each learner with kernels of its own."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(try_learner, ["CRF", "perceptron", "structural SVM"]))


def try_learner(name: str) -> None:
    strings = load_strings()[0]
    model = learners()[name].fit(strings.X, strings.y)
    model.predict(strings.X[:1])
    model.predict_marginals(strings.X[:1])


def main() -> None:
    console = Console()
    training, held_out = load_strings()
    with console.status("compiling the kernels (the first time only) ..."):
        compile_kernels()
    models, readings = compare(training, held_out, console)
    compare_with_failures(training, held_out, console)
    draw(held_out, models["CRF"], readings)
    console.print(f"\npicture: {OUTPUT}")


if __name__ == "__main__":
    main()
