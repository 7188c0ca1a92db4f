"""What checkpoints cost at their usual cadence: a CRF, EM of an HMM, an aligner, and a perceptron (target: at
most 2%).

The data are synthetic: sentences of the size of CoNLL-2000's training set (8,936, of 24 words, 22 labels, 19
features a word), series of Gaussian observations, and 88 sentences of synthetic speech. Each model is fitted
with and without ``checkpoint=``, by turns, and must be the same to the last bit. Two figures say what storing
costs:

* spent: the seconds inside of storing (checksums of the data, snapshots, files forced to disk), as a share of
  the rest of the fit; the median over repeats, and the largest;
* ratio: the least time of a fit with checkpoints over the least without. On a machine that others use, it
  tells little: both vary by more than the cost.

    python benchmarks/checkpoints.py [--quick] [--repeats 3] [--only aligner]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from _common import parser
from trellis import HMM, SequenceLabeler
from trellis.hmm.emissions import Gaussian
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align.aligner import Aligner
from trellis.speech.corpus.synthetic import synthetic_corpus
from trellis.training import checkpoints
from trellis.training.checkpoint_folder import CheckpointFolder
from trellis.training.checkpoints import Checkpoints

TARGET = 0.02
SPEECH = Path(__file__).resolve().parents[1] / "tests" / "support" / "synthetic_speech"
SENTENCES, LENGTH, LABELS, WORDS = 8936, 24, 22, 19_000


def sentences(n: int, rng: np.random.Generator) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Words that prefer a label, labels that prefer a successor; windows of words and classes as features."""
    X, y = [], []
    prefers = rng.integers(0, LABELS, WORDS)
    steps = np.argsort(rng.random((LABELS, LABELS)), axis=1)[:, :4]
    for _ in range(n):
        tags = [int(rng.integers(LABELS))]
        for choice in rng.integers(0, 4, LENGTH - 1):
            tags.append(int(steps[tags[-1], choice]))
        drawn = np.minimum(rng.zipf(1.3, LENGTH), WORDS // LABELS) * LABELS % WORDS
        words = [int(w) + (tag - int(prefers[int(w)])) % LABELS for w, tag in zip(drawn, tags, strict=True)]
        shown = [f"w{w}" for w in words]
        classes = [f"c{w % 45}" for w in words]
        X.append([_window(shown, classes, t) for t in range(LENGTH)])
        y.append([f"t{tag}" for tag in tags])
    return X, y


def _window(words: list[str], classes: list[str], t: int) -> list[str]:
    found = []
    for name, row in (("w", words), ("c", classes)):
        near = {k: row[t + k] if 0 <= t + k < LENGTH else "_" for k in range(-2, 3)}
        found += [f"{name}[{k}]={one}" for k, one in near.items()]
        found += [f"{name}[{k}|{k + 1}]={near[k]}|{near[k + 1]}" for k in (-1, 0)]
        if name == "c":
            found += [f"c[{k}||]={near[k]}|{near[k + 1]}|{near[k + 2]}" for k in (-2, -1, 0)]
            found += [f"c[{k}|]={near[k]}|{near[k + 1]}" for k in (-2, 1)]
    return found


class Task(NamedTuple):
    name: str
    fit: Callable[[Path | None], Any]
    learned: Callable[[Any], bytes]


class Spent:
    """Seconds inside of storing, files written, and the size of the largest in bytes."""

    def __init__(self) -> None:
        self.seconds, self.files, self.size, self._inside = 0.0, 0, 0, False

    @contextmanager
    def counting(self) -> Iterator[None]:
        places: list[tuple[Any, str]] = [
            (checkpoints, "run_identity"),
            (Aligner, "_checkpoints"),
            *((Checkpoints, name) for name in ("__init__", "offer", "finish", "close")),
        ]
        before = [(where, name, getattr(where, name)) for where, name in places]
        write = CheckpointFolder.write
        try:
            for where, name, work in before:
                setattr(where, name, self._timed(work))
            setattr(CheckpointFolder, "write", self._counted(write))  # noqa: B010
            yield
        finally:
            setattr(CheckpointFolder, "write", write)  # noqa: B010
            for where, name, work in before:
                setattr(where, name, work)

    def _timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **options: Any) -> Any:
            if self._inside:
                return work(*given, **options)
            self._inside, began = True, time.perf_counter()
            try:
                return work(*given, **options)
            finally:
                self.seconds += time.perf_counter() - began
                self._inside = False

        return timed

    def _counted(self, write: Callable[..., None]) -> Callable[..., None]:
        def counted(folder: CheckpointFolder, *content: Any) -> None:
            self.files += 1
            write(folder, *content)
            self.size = max(self.size, *(path.stat().st_size for path in Path(folder.shown).iterdir()))

        return counted


def measure(task: Task, repeats: int) -> bool:
    """Print a line; whether the target is met."""
    without, with_, shares, files, size = [], [], [], 0, 0
    for _ in range(repeats):
        began = time.perf_counter()
        plain = task.fit(None)
        without.append(time.perf_counter() - began)
        spent = Spent()
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            with spent.counting():
                stored = task.fit(Path(folder))
            with_.append(time.perf_counter() - began)
        if task.learned(plain) != task.learned(stored):
            raise SystemExit(f"{task.name}: the models differ")
        shares.append(spent.seconds / (with_[-1] - spent.seconds))
        files, size = spent.files, spent.size
    share, ratio = float(np.median(shares)), min(with_) / min(without)
    print(
        f"{task.name:32} {min(without):6.1f} s without, {min(with_):6.1f} s with; {files} files of at most "
        f"{size / 1e6:.1f} MB; spent {100 * share:.2f}% (most {100 * max(shares):.2f}%), ratio {ratio:.3f}",
        flush=True,
    )
    return share <= TARGET


def tasks(quick: bool) -> list[Task]:
    rng = np.random.default_rng(0)
    X, y = sentences(SENTENCES // (10 if quick else 1), rng)

    def chain(objective: str, max_iter: int, folder: Path | None, **options: Any) -> SequenceLabeler:
        model = SequenceLabeler(objective, max_iter=max_iter, random_state=0, verbose=False, **options)
        return model.set_params(checkpoint=folder).fit(X, y)

    centres = rng.normal(size=(8, 4))
    series = centres[np.repeat(rng.integers(0, 8, 100_000), 5)] + rng.normal(size=(500_000, 4))
    series = series[:: 10 if quick else 1]

    def em(folder: Path | None) -> HMM:
        model = HMM(8, Gaussian("diag"), n_init=1, max_iter=40, tol=0.0, random_state=0, verbose=False)
        return model.set_params(checkpoint=folder).fit(series)

    speech = synthetic_corpus(folder=SPEECH)

    def aligner(folder: Path | None) -> Aligner:
        network = ConvolutionalOptions(passes=3, fewest_steps=30) if quick else ConvolutionalOptions()
        return Aligner("log", classifier=network, checkpoint=folder).fit(speech)

    return [
        Task("CRF by L-BFGS, 60 iterations", lambda f: chain("log", 60, f), lambda m: m.weights_.tobytes()),
        Task(
            "CRF by L-BFGS, 400 iterations",
            lambda f: chain("log", 400, f, tol=1e-14),
            lambda m: m.weights_.tobytes(),
        ),
        Task("HMM by EM, 40 iterations", em, lambda m: m.transitions_.tobytes()),
        Task("aligner, synthetic corpus", aligner, _arrays_of),
        Task("perceptron, 10 passes", lambda f: chain("perceptron", 10, f), lambda m: m.weights_.tobytes()),
    ]


def _arrays_of(model: Aligner) -> bytes:
    arrays = model.to_state()[1]
    return b"".join(arrays[name].tobytes() for name in sorted(arrays))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--only", default="", metavar="NAME", help="models whose line has this in its name")
    given = options.parse_args()
    chosen = [task for task in tasks(given.quick) if given.only in task.name]
    met = [measure(task, given.repeats) for task in chosen]
    print(f"at most {100 * TARGET:g}% is spent on storing: {'met' if all(met) else 'missed'}")


if __name__ == "__main__":
    main()
