"""Best labellings of graphs: bounds, values and times of message passing, HiGHS and AD3.

Instances: networks of the UAI 2014 competition whose optimum is proved (``verified_answers.json``). All
figures are log10 of the product of factors, as there. ``bound`` must not be below the proved optimum and
``value`` not above it, or the script stops. HiGHS solves the same relaxation exactly (left out above 60,000
variables); AD3 (pip install ad3, where it compiles) runs to its own tolerance, with forbidden entries at
-1000 and with the time to build its graph. The labellings of HiGHS and AD3 are the largest marginals,
improved by single nodes; ours are improved by forests as well.

The choice: bounds of the same relaxation by MPLP (which shares out each edge evenly to its two ends), after
the same number of passes; a pass of MPLP computes both messages of each edge, ours one of them.

Growth: a pass of message passing over square grids with 8 labels; the exponent in the number of nodes.

    python benchmarks/relaxations.py [--quick] [--data FOLDER]
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table

from _common import check, fastest, files, parser
from trellis import FactorGraph
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.structures.graph.oracle.graph_oracle import GraphInference
from trellis.structures.graph.oracle.message_passing import Passes, icm, message_passing
from trellis.structures.graph.oracle.ordered_graph import OrderedGraph
from trellis.structures.graph.scores.graph_scores import GraphScores, HigherOrder

LN10 = np.log(10.0)
MOST_FOR_HIGHS = 60_000
MOST_FOR_AD3 = 400_000
FORBIDDEN = -1000.0
QUICK = ("Grids_11", "Grids_12", "Segmentation_11", "DBN_11")


def main() -> None:
    options = parser(__doc__).parse_args()
    folder = options.data / "uai2014"
    (answers,) = files(folder, "verified_answers.json")
    proved = json.loads(answers.read_text())
    names = sorted(name.removesuffix(".uai") for name in proved)
    names = [name for name in names if not options.quick or name in QUICK]
    message_passing(grid(3, 2, 0), 2, 1e-6)  # compiled before a clock starts
    console = Console(width=160)
    instances(console, folder / "MAR", names, proved)
    choice(console, 32 if options.quick else 64)
    growth(console, (32, 64, 128) if options.quick else (32, 64, 128, 256))


def instances(console: Console, folder: Path, names: list[str], proved: dict[str, Any]) -> None:
    table = Table(title="Proved optima (log10); CPU time", title_justify="left")
    columns = ("instance", "nodes", "optimum", "bound", "value", "time", "HiGHS bound", "value", "time")
    for column in (*columns, "AD3 relaxed", "value", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in names:
        record = proved[name + ".uai"]
        best = record.get("log10_MAP_toulbar2", record.get("log10_MAP_ve"))
        scores = read(folder / f"{name}.uai")
        check(
            "map_assignment_toulbar2" not in record or holds(scores, record, best), f"the optimum of {name}"
        )
        row = [name, str(scores.n_nodes), f"{best:.3f}"]
        for method in ("message_passing", "lp"):
            row += solved(scores, method, best, name)
        table.add_row(*row, *ad3_solved(scores))
    console.print(table)


def holds(scores: GraphScores, record: dict[str, Any], best: float) -> bool:
    return abs(scores.score(record["map_assignment_toulbar2"]) / LN10 - best) < 1e-3


def solved(scores: GraphScores, method: str, best: float, name: str) -> list[str]:
    size = scores.unary.size + scores.pairwise.size + sum(f.table.size for f in scores.factors)
    if method == "lp" and size > MOST_FOR_HIGHS:
        return ["", "", ""]
    began = time.process_time()
    try:
        found = GraphInference(method, max_iter=2000).best(scores)
    except InfeasibleError:
        return ["", "none found", f"{time.process_time() - began:.3f} s"]
    except UnsupportedError:
        return ["", "too wide", ""]
    seconds = time.process_time() - began
    value, bound = found.value / LN10, found.bound / LN10
    check(value <= best + 1e-3 and bound >= best - 1e-3, f"{method} encloses the optimum of {name}")
    return [f"{bound:.3f}", f"{value:.3f}", f"{seconds:.3f} s"]


def ad3_solved(scores: GraphScores) -> list[str]:
    try:
        import ad3
    except ImportError:
        return ["not there", "", ""]
    if scores.factors or scores.pairwise.size > MOST_FOR_AD3:
        return ["", "", ""]
    graph = OrderedGraph.of(scores)
    edges = np.stack([graph.topology.low, graph.topology.high], axis=1)
    unary, pairwise = np.maximum(graph.unary, FORBIDDEN), np.maximum(graph.pairwise, FORBIDDEN)
    began = time.process_time()
    marginals, _, relaxed, _ = ad3.general_graph(unary, edges, pairwise, verbose=0, n_iterations=2000)
    seconds = time.process_time() - began
    labels = np.argmax(marginals.reshape(unary.shape), axis=1).astype(np.int32)
    value = icm(scores, graph.labels(labels)).value
    return [f"{relaxed / LN10:.3f}", f"{value / LN10:.3f}", f"{seconds:.3f} s"]


def read(path: Path) -> GraphScores:
    """Log factors at the evidence; nodes with fewer states than the largest have forbidden labels."""
    (path,) = files(path.parent, path.name)
    graph = FactorGraph.read(path)
    sizes, k = graph.cardinalities, int(graph.cardinalities.max())
    unary = np.where(np.arange(k) < sizes[:, None], 0.0, -np.inf)
    evidence = [int(word) for word in path.with_suffix(".uai.evid").read_text().split()]
    for node, state in zip(evidence[1::2], evidence[2::2], strict=True):
        unary[node, np.arange(k) != state] = -np.inf
    edges, pairwise, wide = [], [], []
    for variables, values in graph.factors():
        with np.errstate(divide="ignore"):
            logs = np.log(values)
        padded = np.zeros((k,) * logs.ndim)  # forbidden labels are forbidden by the nodes
        padded[tuple(slice(size) for size in logs.shape)] = logs
        if logs.ndim == 1:
            unary[variables[0]] += padded
        elif logs.ndim == 2:
            edges.append(variables)
            pairwise.append(padded)
        elif logs.ndim > 2:
            wide.append(HigherOrder(variables, padded))
        else:
            unary[0] += float(logs)
    return GraphScores.of(unary, edges, np.array(pairwise).reshape(-1, k, k), wide)


def grid(side: int, n_labels: int, seed: int, strength: float = 0.5) -> GraphScores:
    rng = np.random.default_rng(seed)
    place = np.arange(side * side).reshape(side, side)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)
    edges = np.concatenate([across, np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)])
    pairwise = strength * rng.standard_normal((len(edges), n_labels, n_labels))
    return GraphScores.of(rng.standard_normal((side * side, n_labels)), edges, pairwise)


@njit
def mplp(pairwise: Any, low: Any, high: Any, belief: Any, to_low: Any, to_high: Any) -> float:
    """One pass of MPLP over the edges; returns the sum of the maxima of all beliefs, its bound."""
    k = belief.shape[1]
    for e in range(len(low)):
        a, b = belief[low[e]] - to_low[e], belief[high[e]] - to_high[e]
        for x in range(k):
            to_low[e, x] = 0.5 * (np.max(pairwise[e, x] + b) - a[x])
            to_high[e, x] = 0.5 * (np.max(pairwise[e, :, x] + a) - b[x])
        belief[low[e]] = a + to_low[e]
        belief[high[e]] = b + to_high[e]
    total = 0.0
    for i in range(len(belief)):
        total += np.max(belief[i])
    return total


def choice(console: Console, side: int) -> None:
    """The bound after the same number of passes over all edges."""
    table = Table(
        title=f"Bounds after passes over a {side} x {side} grid with 8 labels", title_justify="left"
    )
    for column in ("passes", "TRW-S (ours)", "MPLP"):
        table.add_column(column, justify="right")
    graph = OrderedGraph.of(grid(side, 8, 1))
    t = graph.topology
    ours, state = Passes(graph), (graph.unary.copy(), np.zeros((len(t.low), 8)), np.zeros((len(t.low), 8)))
    shown = (2, 10, 50, 200)
    for number in range(1, shown[-1] + 1):
        ours_bound = ours.forward() if number % 2 else ours.backward()
        peer_bound = mplp(graph.pairwise, t.low, t.high, *state)
        if number in shown:
            table.add_row(str(number), f"{ours_bound:.2f}", f"{peer_bound:.2f}")
    console.print(table)


def one_iteration(passes: Passes) -> None:
    passes.forward()
    passes.backward()


def growth(console: Console, sides: tuple[int, ...]) -> None:
    table = Table(title="One iteration (two passes) on square grids with 8 labels", title_justify="left")
    for column in ("side", "CPU time", "gap after 20 iterations, of the bound"):
        table.add_column(column, justify="right")
    times = []
    for side in sides:
        scores = grid(side, 8, 2)
        passes = Passes(OrderedGraph.of(scores))
        (seconds,) = fastest(partial(one_iteration, passes), repeats=5)
        times.append(seconds)
        found = message_passing(scores, 20, 0.0)
        table.add_row(str(side), f"{1e3 * seconds:.2f} ms", f"{found.gap / found.bound:.2%}")
    console.print(table)
    exponent = np.polyfit(2 * np.log(sides), np.log(times), 1)[0]
    console.print(f"time grows with the number of nodes to the power {exponent:.2f}")


if __name__ == "__main__":
    main()
