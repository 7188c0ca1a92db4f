"""What shards and clusters cost: one CRF on CoNLL-2000, twenty times over, on threads and on Dask workers.

    python benchmarks/scaling.py [--data FOLDER] [--copies 20] [--iterations 8] [--picture FILE] [--quick]

Every row is a fit (L-BFGS, the same number of iterations) in a process of its own: seconds of an iteration
(median), tokens a second, bytes that an iteration moves between this process and the workers, the *serial
part* (the share of an iteration in which no shard is asked), and the objective, which has to be the same
everywhere.

    overhead      two Dask workers against two threads on the same cores; goal: at most 20%
    growth        slopes of log time and log memory over log tokens, streamed in little memory; goals: at
                  most 1.05, and about 0
    simulation    an iteration on two workers as simulated (``_cluster_simulation.py``) from what one worker
                  and small questions cost, next to the measured one; then 4 to 1,000 workers for 10^8, 10^10
                  and 10^12 tokens on an assumed network (10 Gbit/s, 0.2 ms), and up to how many workers at
                  least half of their time is work

``--quick``: two copies, three iterations.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from _cluster_simulation import BYTES, Costs, Job, iteration, pays_until, tasks
from _common import files, parser

PLACES = ("threads 1", "threads 2", "processes:1", "processes:2")
STREAMED = "threads 2, streamed"
NETWORK = {"latency": 2e-4, "bandwidth": 1.25e9}  # assumed: 0.2 ms, 10 Gbit/s
SIZES = (1e8, 1e10, 1e12)
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
HALF = 0.5
MEMORY = "450MB"  # of streamed fits, which must not depend on the data


@dataclass(frozen=True)
class Measured:
    place: str
    tokens: int
    shards: int
    weights: int
    seconds: float  # of an iteration
    asking: float  # of these, spent on questions to shards
    moved: float  # bytes in an iteration
    spread: float
    objective: float
    peak_mb: float


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--copies", type=int, default=20)
    options.add_argument("--iterations", type=int, default=8)
    options.add_argument("--picture", type=Path)
    options.add_argument("--one", help="one fit, as JSON: used by the script itself")
    given = options.parse_args()
    if given.quick:
        given.copies, given.iterations = 2, 3
    (source,) = files(given.data, "conll2000/train.txt")
    if given.one:
        print(json.dumps(asdict(fit(given.one, source, given.copies, given.iterations))))
        return
    console = Console(width=120)
    rows = [run(place, given.copies, given) for place in PLACES]
    console.print(f"{rows[0].weights:,} weights")
    _show(console, rows)
    by_place = {row.place: row for row in rows}
    overhead = by_place["processes:2"].seconds / by_place["threads 2"].seconds - 1.0
    console.print(f"overhead of Dask, two workers against two threads: {100 * overhead:.0f}% (goal 20%)")
    copies = sorted({max(given.copies // 4, 1), max(given.copies // 2, 1), given.copies})
    streamed = [run(STREAMED, n, given) for n in copies]
    _show(console, streamed)
    if len(streamed) > 1:
        console.print(
            f"growth, streamed in {MEMORY}: time {_slope(streamed, 'seconds'):.2f} (goal 1.05), "
            f"memory {_slope(streamed, 'peak_mb'):.2f} (goal 0)"
        )
    costs = measured_costs(by_place)
    simulated(console, costs, by_place, given.picture)


# -- one fit ----------------------------------------------------------------------------------------------


def run(place: str, copies: int, given: Any) -> Measured:
    arguments = ["--one", place, "--copies", str(copies), "--iterations", str(given.iterations)]
    done = subprocess.run(
        [sys.executable, __file__, "--data", str(given.data), *arguments], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{place} failed: {done.stderr[-2000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def fit(place: str, source: Path, copies: int, iterations: int) -> Measured:
    from trellis import SequenceLabeler, ShardFiles
    from trellis.core.backends import as_backend
    from trellis.objectives.sharded_problem import ShardedProblem

    threads = int(place.split()[1].rstrip(",")) if place.startswith("threads") else None
    memory = MEMORY if place == STREAMED else "8GB"
    backend: Any = as_backend("threads" if threads else place, threads, memory)
    watch = _Watch(ShardedProblem, getattr(backend, "traffic", None))
    with tempfile.TemporaryDirectory() as folder:
        for i in range(copies):
            os.symlink(source.resolve(), Path(folder, f"{i:03d}.conll"))
        model = SequenceLabeler(
            solver="lbfgs", l2=2.0, boundaries=False, max_iter=iterations, backend=backend, verbose=False
        )
        with watch:
            model.fit(ShardFiles(folder), None)
    steps = np.diff([0.0, *model.history_["seconds"]])[1:]
    calls = len(watch.seconds)
    return Measured(
        place,
        watch.tokens,
        watch.shards,
        len(model.weights_),
        float(np.median(steps)),
        float(np.median(watch.seconds[1:])) * calls / max(len(model.history_["seconds"]), 1),
        float(np.median(watch.moved)) * calls / max(len(model.history_["seconds"]), 1),
        watch.spread,
        float(model.history_["objective"][-1]),
        _peak(),
    )


class _Watch:
    """Times the questions of a sharded problem, and once each of its shards; counts the bytes they move."""

    def __init__(self, kind: Any, traffic: Any) -> None:
        self._kind, self._ask, self._traffic = kind, kind.value_and_gradient, traffic
        self.seconds: list[float] = []
        self.moved: list[int] = []
        self.tokens, self.shards, self.spread = 0, 0, 0.0

    def __enter__(self) -> None:
        watch, ask = self, self._ask

        def timed(problem: Any, weights: Any) -> Any:
            began, before = time.perf_counter(), watch._bytes()
            found = ask(problem, weights)
            watch.seconds.append(time.perf_counter() - began)
            watch.moved.append(watch._bytes() - before)
            if len(watch.seconds) == 2:
                each = [x for x in problem.shards.ask(timed_shard, weights) if x is not None]
                watch.shards, watch.tokens = len(each), sum(n for n, _ in each)
                watch.spread = float(np.std(np.log([t / n for n, t in each]))) if len(each) > 1 else 0.0
            return found

        self._kind.value_and_gradient = timed

    def _bytes(self) -> int:
        return 0 if self._traffic is None else self._traffic.bytes_out + self._traffic.bytes_back

    def __exit__(self, *_: object) -> None:
        self._kind.value_and_gradient = self._ask


def timed_shard(shard: Any, weights: Any) -> tuple[int, float] | None:
    """Tokens of a shard, and the seconds of its gradient."""
    if shard.problem is None:
        return None
    began = time.perf_counter()
    shard.problem.value_and_gradient(weights)
    return int(shard.problem.design.offsets[-1]), time.perf_counter() - began


def _peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0


# -- costs ------------------------------------------------------------------------------------------------


def nothing(state: Any, *_: Any) -> int:
    return 0


def same(source: Any) -> Any:
    return source


def measured_costs(rows: dict[str, Measured]) -> Costs:
    """From fits on one thread and one worker, and from small questions to two workers."""
    from trellis.core.backends import as_backend

    thread, worker = rows["threads 1"], rows["processes:1"]
    backend: Any = as_backend("processes:2")
    few, many = backend.place(same, range(2)), backend.place(same, range(400))
    latency = _least(lambda: few.ask(nothing)) / 2.0
    task = max(_least(lambda: many.ask(nothing)) - 2.0 * latency, 0.0) / 400.0
    large = np.zeros(4_000_000)
    bandwidth = large.nbytes / max(_least(lambda: few.ask(nothing, large)) - 2.0 * latency, 1e-6)
    add = _least(lambda: np.add(large, large, out=large)) / large.nbytes
    size = BYTES * thread.weights
    job = Job(worker.tokens, worker.weights, worker.tokens / worker.shards)
    beside = (2 * latency + size / bandwidth) + tasks(job, 1) * task
    overhead = max((worker.asking - thread.asking - beside) / worker.shards, 0.0)
    return Costs(
        token=(thread.asking - thread.shards * size * add) / thread.tokens,
        overhead=overhead,
        spread=thread.spread,
        latency=latency,
        bandwidth=bandwidth,
        add=add,
        task=task,
        step=max(thread.seconds - thread.asking, 0.0) / size,
    )


def _least(work: Any, repeats: int = 5) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


# -- what it says -----------------------------------------------------------------------------------------


def _show(console: Console, rows: list[Measured]) -> None:
    table = Table(
        "place", "tokens", "shards", "s / iteration", "tokens / s", "moved", "serial", "objective", "peak"
    )
    for row in rows:
        serial = max(1.0 - row.asking / row.seconds, 0.0)
        table.add_row(
            row.place,
            f"{row.tokens:,}",
            str(row.shards),
            f"{row.seconds:.3f}",
            f"{row.tokens / row.seconds:,.0f}",
            f"{row.moved / 1e6:.1f} MB",
            f"{100 * serial:.0f}%",
            f"{row.objective:.6f}",
            f"{row.peak_mb:.0f} MB",
        )
    console.print(table)


def _slope(rows: list[Measured], name: str) -> float:
    x = np.log([row.tokens for row in rows])
    return float(np.polyfit(x, np.log([getattr(row, name) for row in rows]), 1)[0])


def simulated(console: Console, costs: Costs, rows: dict[str, Measured], picture: Path | None) -> None:
    two = rows["processes:2"]
    job = Job(two.tokens, two.weights, two.tokens / two.shards)
    guess = iteration(costs, job, 2).seconds
    console.print(
        f"costs: token {1e6 * costs.token:.2f} us, shard {1e3 * costs.overhead:.1f} ms, "
        f"spread {costs.spread:.2f}, latency {1e3 * costs.latency:.1f} ms, "
        f"{costs.bandwidth / 1e9:.2f} GB/s, task {1e3 * costs.task:.2f} ms, "
        f"step {1e9 * costs.step:.2f} ns a byte"
    )
    console.print(
        f"two workers: {two.seconds:.3f} s measured, {guess:.3f} s simulated "
        f"({100 * (guess / two.seconds - 1):+.0f}%)"
    )
    costs = replace(costs, **NETWORK)
    ways = {
        "as it is": lambda tokens: Job(tokens, two.weights),
        "shards of 5 M": lambda tokens: Job(tokens, two.weights, 5e6),
        "gradients / 10": lambda tokens: Job(tokens, two.weights, 5e6, compression=10.0),
        "10 local steps": lambda tokens: Job(tokens, two.weights, 5e6, local_steps=10),
    }
    table = Table("tokens", "way", *(str(w) for w in WORKERS[2::2]), "pays until")
    for tokens in SIZES:
        for name, job_of in ways.items():
            found = [iteration(costs, job_of(tokens), w) for w in WORKERS[2::2]]
            cells = [f"{_duration(one.seconds)} {100 * one.efficiency:.0f}%" for one in found]
            table.add_row(
                f"1e{math.log10(tokens):.0f}", name, *cells, str(pays_until(costs, job_of(tokens), 1024))
            )
    console.print(table)
    if picture is not None:
        _draw(costs, ways, picture)


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def _draw(costs: Costs, ways: Any, picture: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(SIZES), figsize=(12, 4), sharey=True, layout="constrained")
    for axis, tokens in zip(axes, SIZES, strict=True):
        for name, job_of in ways.items():
            shares = [100 * iteration(costs, job_of(tokens), w).efficiency for w in WORKERS]
            axis.semilogx(WORKERS, shares, marker="o", markersize=3, label=name, base=2)
        axis.axhline(100 * HALF, color="0.6", linewidth=1, linestyle=":")
        axis.set_title(f"$10^{{{math.log10(tokens):.0f}}}$ tokens")
        axis.set_xlabel("workers")
        axis.set_ylim(0, 105)
    axes[0].set_ylabel("time that is work (%)")
    axes[-1].legend(loc="lower left", frameon=False)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main()
