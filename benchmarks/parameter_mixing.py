"""What mixing costs: online solvers on 1 to 16 shards of CoNLL-2000, F1 of chunks by passes.

Each pass is made in every shard from the same weights, and these are averaged
(trellis.solvers.online.parameter_mixing). One shard is the solver itself. Direct loss is fine-tuned from one
CRF, 40 iterations of L-BFGS, for all. Time is that of a pass on two threads, the fastest of all passes.

    python benchmarks/parameter_mixing.py [--data FOLDER] [--quick]
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from _common import chain_problem, files, parser
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.shards import shard_bounds
from trellis.data.columns import read_columns
from trellis.data.labels import LabelSet
from trellis.features import Template, TemplateEncoder
from trellis.losses.metrics import packed_span_report
from trellis.objectives import Direct, Log, Perceptron
from trellis.objectives.sharded_problem import ProblemShard, ShardedProblem, as_it_is
from trellis.solvers import LBFGS, FineTuning, get_solver
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.linear_chain_scores import linear_chain_scores
from trellis.training import minimise
from trellis.training.direct_recipe import typical_gap

SHARDS = (1, 2, 4, 8, 16)
SHOWN = (1, 2, 5, 10)
QUICK = (1, 2)


def in_shards(problem: Any, n: int) -> ShardedProblem:
    bounds = shard_bounds(problem.design.offsets, n)
    shards = [ProblemShard(problem.run(a, b).with_(n_jobs=1), i, "") for i, (a, b) in enumerate(bounds)]
    return ShardedProblem.of(LocalBackend(2, "8GB").place(as_it_is, shards), problem.l2)


class Corpus:
    def __init__(self, train: Any, test: Any) -> None:
        data, held = read_columns(train), read_columns(test)
        encoder = TemplateEncoder(Template.crfsuite_chunking())
        self.inputs, y = encoder.fit(data.without(-1)), data.sequences(-1)
        self.names = LabelSet.of(y)
        self.labels = self.names.encode(y)
        self.test = encoder.transform(held.without(-1))
        self.gold = self.names.extended(held.sequences(-1))
        self.gold_codes = self.gold.encode(held.sequences(-1)).codes

    def problem(self, objective: Any, l2: float) -> Any:
        return chain_problem(self.inputs, self.labels, self.names, objective, l2=l2, observed=True)

    def f1(self, problem: Any, weights: Any) -> float:
        design = problem.layout.design(self.test, sort=False)
        scores = linear_chain_scores(problem.layout, design, problem.penalties, weights, 2)
        found = Chain(2).best(scores).labels
        report = packed_span_report(self.gold_codes, found, scores.offsets, self.gold.labels)
        return 100.0 * report.overall.f1


@threadpool_limits.wrap(limits=1, user_api="blas")
def curve(corpus: Corpus, problem: Any, solver: Any, start: Any, n: int, passes: int) -> tuple[Any, float]:
    """F1 after each pass, and the seconds of the fastest."""
    run = solver.start(in_shards(problem, n), start.copy(), np.random.default_rng(0))
    found, seconds = [], []
    for _ in range(passes):
        began = time.perf_counter()
        run.step()
        seconds.append(time.perf_counter() - began)
        found.append(corpus.f1(problem, run.weights))
    return found, min(seconds)


def main() -> None:
    options = parser(__doc__).parse_args()
    corpus = Corpus(*files(options.data / "conll2000", "train.txt", "test.txt"))
    shown = QUICK if options.quick else SHOWN
    log, direct = corpus.problem(Log(), 2.0), corpus.problem(Direct(), 2.0)
    zero = np.zeros(log.dimension)
    trained = minimise(LBFGS(), log, zero, max_iter=40, rng=np.random.default_rng(0)).weights
    epsilon = typical_gap(direct, trained)
    cells = {
        "perceptron": (corpus.problem(Perceptron(), 0.0), get_solver("perceptron"), zero),
        "CRF by sgd": (log, get_solver("sgd"), zero),
        "CRF by adagrad": (log, get_solver("adagrad"), zero),
        f"direct, from a CRF of {corpus.f1(log, trained):.2f}": (
            direct.with_(epsilon=epsilon),
            FineTuning(passes=shown[-1]),
            trained,
        ),
    }
    table = Table("", "shards", *(f"F1 after {p}" for p in shown), "seconds a pass")
    for name, (problem, solver, start) in cells.items():
        for n in SHARDS:
            found, seconds = curve(corpus, problem, solver, start, n, shown[-1])
            table.add_row(name, str(n), *(f"{found[p - 1]:.2f}" for p in shown), f"{seconds:.2f}")
            print(name, n, [round(value, 2) for value in found], f"{seconds:.2f} s", flush=True)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
