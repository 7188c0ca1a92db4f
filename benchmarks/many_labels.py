"""Chains of 22 to 5,000 labels with about 10 successors each: time and memory by allowed pairs, not by K x K.

    python benchmarks/many_labels.py [--quick]

* Best labelling: over allowed pairs, over a table (ours), and by a recursion in NumPy over the same sparse
matrix,
  with the same labels. The exponent is the slope of log time over log K from 100 labels on: pairs grow as K.
* One evaluation of a CRF and its gradient on generated sentences: over pairs, over a table with -inf for
all other
  pairs (the same number), and CRFsuite (of 500 labels on 1,000 tokens, in which not all of them occur),
  whose model lets all other pairs follow each other with score 0.
* Peak memory of a child process that trains for five iterations. * Beam search over full tables: time
against exact search, and how many labellings it proves to be the best. "plain"
  scores are normal, of standard deviation 3 for labels and 1 for transitions; "hard" ones 1 and 2.
* 500 labels end to end: fit, file, command line.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csc_array

from _common import Figures, check, fastest, parser
from _memory import peak_memory, print_peak_memory
from trellis import SequenceLabeler, load
from trellis.data.labels import LabelSet
from trellis.features.encoders import encoder_for
from trellis.losses.labelings import Hamming
from trellis.objectives import Log
from trellis.structures.chain import Chain, ChainScores, SparseChain, SparseChainScores, beam_search
from trellis.structures.chain.labeler.chain_training import Examples, linear_problem
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.sparse_layout import SparseLayout, sparse_penalties
from trellis.structures.chain.scores.transition_pairs import TransitionPairs

SIZES = (22, 100, 500, 5000)
SUCCESSORS = 10
LENGTH = 25
TRELLIS = [sys.executable, "-c", "from trellis.cli import main; main()"]
TABLE = 500  # the largest K of which a table is evaluated for training


def successors(k: int) -> np.ndarray:
    """(K, 10), the same for every call."""
    graph = np.random.default_rng(k)
    return np.stack([graph.choice(k, SUCCESSORS, replace=False) for _ in range(k)])


def sentences(n: int, k: int, seed: int = 0) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Walks over labels with 10 successors each; words that tell the label in 7 of 10 cases, and their
    neighbours."""
    rng, follow = np.random.default_rng(seed), successors(k)
    X, y = [], []
    for _ in range(n):
        states = [int(rng.integers(k))]
        for _ in range(LENGTH - 1):
            states.append(int(follow[states[-1]][rng.integers(SUCCESSORS)]))
        words = [3 * s + rng.integers(3) if rng.random() < 0.7 else rng.integers(3 * k) for s in states]
        around = ["<", *(f"{word}" for word in words), ">"]
        X.append(
            [
                [
                    f"w={around[t]}",
                    f"p={around[t - 1]}",
                    f"n={around[t + 1]}",
                    f"m={words[t - 1] % 50}",
                    "bias",
                ]
                for t in range(1, LENGTH + 1)
            ]
        )
        y.append([f"L{s:04d}" for s in states])
    return X, y


def random_scores(k: int, n: int, rng: np.random.Generator) -> SparseChainScores:
    before = np.repeat(np.arange(k), SUCCESSORS)
    after = np.concatenate([rng.choice(k, SUCCESSORS, replace=False) for _ in range(k)])
    table = coo_array((rng.normal(size=len(before)), (before, after)), shape=(k, k))
    return SparseChainScores.of(rng.normal(size=(n, k)), table, lengths=[LENGTH] * (n // LENGTH))


def numpy_viterbi(scores: SparseChainScores, unary: np.ndarray) -> np.ndarray:
    """The same recursion over the columns of a SciPy matrix, a step a few NumPy calls."""
    table: Any = csc_array(scores.transition_matrix())
    table.sort_indices()
    source, bounds = table.indices, table.indptr
    some = np.diff(bounds) > 0
    labels = np.empty(len(unary), np.int32)
    for lo, hi in zip(scores.offsets[:-1], scores.offsets[1:], strict=True):
        v = np.full((hi - lo, scores.n_labels), -np.inf)
        v[0] = scores.start + unary[lo]
        for t in range(1, hi - lo):
            v[t, some] = np.maximum.reduceat(v[t - 1][source] + table.data, bounds[:-1][some])
            v[t] += unary[lo + t]
        labels[hi - 1] = np.argmax(v[-1] + scores.end)
        for t in range(hi - lo - 1, 0, -1):
            own = slice(bounds[labels[lo + t]], bounds[labels[lo + t] + 1])
            labels[lo + t - 1] = source[own][np.argmax(v[t - 1][source[own]] + table.data[own])]
    return labels


def decoding(quick: bool) -> None:
    rng, pace = np.random.default_rng(0), []
    figures = Figures(
        "best labelling, microseconds a token", ("pairs", "table", "NumPy", "table / pairs", "met")
    )
    for k in SIZES:
        n = 10 * LENGTH if k > 1000 else 40 * LENGTH
        scores = random_scores(k, n, rng)
        dense, unary = scores.to_dense(), scores.unary
        found = SparseChain().best(scores).labels
        check(bool((found == numpy_viterbi(scores, unary)).all()), "labels of pairs and of NumPy")
        check(bool((found == Chain().best(dense).labels).all()), "labels of pairs and of a table")
        repeats = 1 if k > 1000 else 5
        pairs, table, plain = fastest(
            lambda: SparseChain().best(scores),  # noqa: B023
            lambda: Chain().best(dense),  # noqa: B023
            lambda: numpy_viterbi(scores, unary),  # noqa: B023
            repeats=repeats,
        )
        pairs = min(pairs, *fastest(lambda: SparseChain().best(scores), repeats=5))  # noqa: B023
        pace.append(pairs / n)
        cells = [f"{1e6 * one / n:,.2f}" for one in (pairs, table, plain)]
        figures.row(f"K = {k:,}", *cells, f"{table / pairs:.1f}x", met=None)
    _exponent(figures, pace)
    figures.print()


def _exponent(figures: Figures, pace: list[float]) -> None:
    slope = np.polyfit(np.log(SIZES[1:]), np.log(pace[1:]), 1)[0]
    figures.row("exponent in K, from 100 on", f"{slope:.2f}", "", "", "\u2264 1.15", met=bool(slope <= 1.15))


def problems(k: int, n: int) -> tuple[Any, Any, list[Any], list[Any]]:
    """The log objective of K labels over their 10 K pairs, and over a table where that is possible."""
    X, y = sentences(n, k)
    encoder = encoder_for(X, 1, (), flat=False)
    inputs, names = encoder.fit(X), LabelSet(f"L{s:04d}" for s in range(k))
    labels, every = names.encode(y), np.ones(k, np.bool_)
    pairs = TransitionPairs.of(np.repeat(np.arange(k), SUCCESSORS), successors(k).ravel(), k)

    def problem(layout: Any, penalties: Penalties) -> Any:
        data, one = Examples(inputs, labels), np.ones(n)
        return linear_problem(data, layout, penalties, names, Log(), Hamming(), one, None, l2=1.0)

    sparse = problem(
        SparseLayout.of(inputs, labels, pairs, boundaries=False), sparse_penalties(every, every, pairs)
    )
    dense = None
    if k <= TABLE:
        allowed = np.isfinite(pairs.to_dense(np.zeros(len(pairs))))
        layout = LinearLayout.observed(inputs, labels.codes, None, k, boundaries=False)
        dense = problem(layout, Penalties.where_not(every, allowed, every))
    return sparse, dense, X, y


def crfsuite_evaluation(X: list[Any], y: list[Any]) -> float:
    """CPU seconds of one of CRFsuite's evaluations."""
    try:
        from _crfsuite import ClockedTrainer
    except ImportError:
        return np.nan
    trainer = ClockedTrainer()
    trainer.select("lbfgs")
    trainer.set_params({"c1": 0.0, "c2": 0.5, "max_iterations": 4})
    for items, labels in zip(X, y, strict=True):
        trainer.append(items, labels)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
    return min(trainer.cpu, default=np.nan)


def evaluation(quick: bool) -> None:
    pace = []
    columns = ("pairs", "table", "CRFsuite", "table / pairs", "CRFsuite / pairs", "met")
    figures = Figures("one evaluation of a CRF, microseconds a token", columns)
    for k in SIZES:
        n = 400 if k <= 100 else 200
        sparse, dense, X, y = problems(k, n)
        w = np.random.default_rng(1).normal(size=sparse.dimension) * sparse.layout.mask
        work = [lambda: sparse.value_and_gradient(w)]  # noqa: B023
        if dense is not None:
            pairs, places = sparse.layout.pairs, sparse.layout.views(w)
            table = np.zeros((pairs.n_labels,) * 2)
            table[pairs.source, pairs.target] = places.transitions
            rest = np.concatenate([table.ravel(), places.start, places.end])
            v = dense.layout.from_dense(sparse.layout.feature_weights(w), rest)
            values = sparse.value_and_gradient(w)[0], dense.value_and_gradient(v)[0]
            check(bool(np.isclose(*values, rtol=1e-9)), f"objectives {values}")
            work.append(lambda: dense.value_and_gradient(v))  # noqa: B023
        for one in work:
            one()
        seconds = [*fastest(*work, repeats=3), np.nan][:2]
        few = 40 if k == 500 else n  # CRFsuite takes seconds for each of them
        peer = crfsuite_evaluation(X[:few], y[:few]) / few if k <= 500 and not (quick and k > 100) else np.nan
        ours = seconds[0] / n
        pace.append(ours / LENGTH)
        cells = [_microseconds(one / LENGTH) for one in (ours, seconds[1] / n, peer)]
        ratios = ["" if np.isnan(one) else f"{one / ours:.1f}x" for one in (seconds[1] / n, peer)]
        met = None if np.isnan(peer) or k < 100 else bool(peer >= ours)
        figures.row(f"K = {k:,}, {len(sparse.layout.pairs):,} pairs", *cells, *ratios, met=met)
    slope = np.polyfit(np.log(SIZES[1:]), np.log(pace[1:]), 1)[0]
    figures.row(
        "exponent in K, from 100 on", f"{slope:.2f}", "", "", "", "\u2264 1.15", met=bool(slope <= 1.15)
    )
    figures.print()


def _microseconds(seconds: float) -> str:
    return "" if np.isnan(seconds) else f"{1e6 * seconds:,.1f}"


def memory(quick: bool) -> None:
    figures = Figures("peak memory of training, MB", ("pairs", "table", "met"))
    for k in (100, 500, 5000):
        ours = peak_memory(__file__, "--child", "observed", str(k))
        table = "" if k > TABLE else f"{peak_memory(__file__, '--child', 'all', str(k)):,.0f}"
        figures.row(f"K = {k:,}, 10,000 tokens", f"{ours:,.0f}", table, met=None)
    imports = peak_memory(__file__, "--child", "nothing", "0")
    figures.row("imports alone", f"{imports:,.0f}", "", met=None)
    figures.print()


def child(transitions: str, k: int) -> None:
    if transitions != "nothing":
        X, y = sentences(400, k)
        SequenceLabeler(transitions=transitions, max_iter=5, verbose=False).fit(X, y)
    print_peak_memory()


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and its CPU seconds: of work that is too long to repeat."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def beams(quick: bool) -> None:
    columns = ("beam", "exact", "ratio", "proved the best", "right", "met")
    figures = Figures("beam search over a full table, microseconds a token", columns)
    rng = np.random.default_rng(0)
    for k, n in ((500, 2000), (5000, 100 if quick else 1000)):
        for name, labels, moves in (("plain", 3.0, 1.0), ("hard", 1.0, 2.0)):
            scores = ChainScores.of(
                labels * rng.normal(size=(n, k)),
                moves * rng.normal(size=(k, k)),
                lengths=[LENGTH] * (n // LENGTH),
            )
            beam_search(scores, 4)
            nothing = ChainScores.of(scores.unary[:0], scores.transitions[0])
            _, once = timed(lambda: beam_search(nothing, 4))  # noqa: B023
            figures.row(f"K = {k:,}, {name}, once a call", f"{1e3 * once:.1f} ms", "", "", "", "", met=None)
            best, exact = timed(lambda: Chain().best(scores).scores)  # noqa: B023
            for width, most in ((16, 16), (64, 64), (16, k)):
                found, seconds = timed(lambda: beam_search(scores, width, most))  # noqa: B023
                right = np.abs(found.scores - best) <= 1e-9 * np.abs(best)
                check(bool((found.bounds >= best - 1e-9 * np.abs(best)).all()), "bounds")
                check(bool(right[found.exact].all()), "certificates")
                shown = f"{width}" if most == width else f"{width}, doubled until proved"
                figures.row(
                    f"K = {k:,}, {name}, width {shown}",
                    _microseconds(seconds / n),
                    _microseconds(exact / n),
                    f"{exact / seconds:.1f}x",
                    f"{found.exact.mean():.0%}",
                    f"{right.mean():.0%}",
                    met=None,
                )
    figures.print()


def end_to_end(quick: bool) -> None:
    figures = Figures("500 labels, end to end", ("figure", "met"))
    X, y = sentences(300 if quick else 1000, 500)
    new, gold = sentences(100, 500, seed=1)
    began = time.process_time()
    model = SequenceLabeler(transitions="observed", max_iter=30, verbose=False).fit(X, y)
    figures.row(
        f"fit, {len(X) * LENGTH:,} tokens, 30 iterations", f"{time.process_time() - began:.1f} s", met=None
    )
    figures.row("weights", f"{len(model.weights_):,}", met=None)
    figures.row("allowed pairs, of 250,000", f"{model.layout_.transition_shape[0]:,}", met=None)
    figures.row("accuracy on new sentences", f"{model.score(new, gold):.1%}", met=None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder / "model")
        check(load(folder / "model").predict(new) == model.predict(new), "the saved model")
        figures.row("model file", f"{(folder / 'model').stat().st_size / 1e6:.1f} MB", met=None)
        lines = [
            "\n".join(f"{label}\t" + "\t".join(f) for label, f in zip(*one, strict=True))
            for one in zip(y, X, strict=True)
        ]
        (folder / "train.txt").write_text("\n\n".join(lines) + "\n")
        options = f"--format crfsuite --transitions observed --max-iter 30 --jobs 1 -q -o {folder}/m".split()
        began = time.perf_counter()
        subprocess.run([*TRELLIS, "train", folder / "train.txt", *options], check=True)
        wall = time.perf_counter() - began
        check(len(load(folder / "m").weights_) == len(model.weights_), "weights of trellis train")
        figures.row("trellis train, the whole command", f"{wall:.1f} s wall", met=None)
    figures.print()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        child(given.child[0], int(given.child[1]))
        return
    for part in (decoding, evaluation, memory, beams, end_to_end):
        part(given.quick)


if __name__ == "__main__":
    main()
