"""Exact inference in Bayesian networks and factor graphs: is it right, and how fast?

Truth: all marginals of every network of the repository with random evidence on 5 nodes, equal to pyAgrum's
(LazyPropagation) to 1e-9. Instances of the UAI 2014 competition: log10 Z within 1e-3 of the reference,
marginals within 1e-5, the value of the most probable assignment equal to the verified one. libDAI's test
graphs: the exact marginals that it lists. What needs more memory than the limit is refused before it runs.

Speed: CPU time of one thread, the least of repeats that take turns. "again": new evidence on the same
network. "first": without any plan, so that plan and first answer count. A batch: 10,000 rows of evidence
on 5 columns (many of them equal), and on 20 columns with gaps (hardly any), all marginals, next to a loop
over pyAgrum (on a sample of the rows, scaled up).

    python benchmarks/bayesnet.py [--quick] [--data FOLDER] [--memory GIB]
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from _common import Figures, check, cold_seconds, fastest, files, parser, require_peers
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet import read_evidence
from trellis.bayesnet.inference.query import log_partition
from trellis.core.errors import UnsupportedError

GIB = 2.0**30
NETWORKS = [
    *("asia", "cancer", "earthquake", "survey", "sachs", "child", "insurance", "alarm", "hailfinder"),
    *("hepar2", "win95pts", "andes", "pigs", "barley", "diabetes", "link", "munin1"),
]
SLOW_PEER = {"link", "munin1", "diabetes", "barley"}  # seconds for one answer of pyAgrum
TIMED = {"alarm": 5, "hailfinder": 5, "win95pts": 5, "andes": 5, "link": 3, "munin1": 3}
N_OBSERVED, N_ROWS = 5, 10_000

COLD = """
from trellis import BayesianNetwork
net = BayesianNetwork({"A": [0, 1], "B": [0, 1]}, {"B": ["A"]})
net.query("B", {"A": 0})
"""


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--memory", type=float, default=8.0, help="GiB that exact inference may use")
    options = options_parser.parse_args()
    require_peers("pyagrum")
    import pyagrum

    pyagrum.setNumberOfThreads(1)
    folder = options.data
    paths = files(folder / "bn_repository", *(f"{name}.bif.gz" for name in NETWORKS))
    networks = {
        name: BayesianNetwork.read(path)
        for name, path in zip(NETWORKS, paths, strict=True)
        if not options.quick or name not in SLOW_PEER
    }
    figures = Figures("Bayesian networks: exact inference (CPU, one thread)")
    first, again = cold_seconds(COLD)
    figures.value("first query of a process: import and compile, empty cache", f"{first:.1f} s")
    figures.value("the same with a full cache", f"{again:.1f} s")
    peers = {name: peer_of(net) for name, net in networks.items()}
    speed(figures, networks, peers)
    for name in ("alarm", "hailfinder"):
        batch(figures, name, networks[name], peers[name], 100 if options.quick else 300)
    figures.print()
    agreement(networks, peers)
    competition(folder / "uai2014", options.memory, options.quick)
    libdai(folder / "libdai_tests")


# -- the peer -----------------------------------------------------------------------------------------------


def peer_of(net: BayesianNetwork) -> Any:
    """The same network in pyAgrum, whose reader does not take all names: nodes and states become numbers."""
    import pyagrum

    peer = pyagrum.BayesNet()
    for i, size in enumerate(net.cardinalities):
        peer.add(pyagrum.RangeVariable(f"x{i}", "", 0, int(size) - 1))
    for i in range(len(net.names)):
        for parent in net.parent_indices[i]:
            peer.addArc(parent, i)
    for i, table in enumerate(net.tables):
        order = [f"x{v}" for v in (*net.parent_indices[i], i)]
        names = list(reversed(peer.cpt(i).names))  # pyAgrum's arrays have their axes in the opposite order
        peer.cpt(i)[:] = np.ascontiguousarray(table.transpose([order.index(name) for name in names]))
    return peer


class Peer:
    """pyAgrum's LazyPropagation, compiled when made."""

    def __init__(self, network: Any) -> None:
        import pyagrum

        self.engine = pyagrum.LazyPropagation(network)
        self.n = network.size()

    def marginals(self, evidence: dict[int, int]) -> list[np.ndarray]:
        self.engine.setEvidence({f"x{v}": state for v, state in evidence.items()})
        self.engine.makeInference()
        return [self.engine.posterior(v).toarray() for v in range(self.n)]


def evidences(net: BayesianNetwork, count: int, seed: int = 0) -> list[dict[str, str]]:
    """Possible evidence on random nodes: parts of samples."""
    rng = np.random.default_rng(seed)
    columns = net.sample(count, random_state=seed)
    chosen = [rng.choice(net.names, min(N_OBSERVED, len(net.names) - 1), replace=False) for _ in range(count)]
    return [{str(v): str(columns[v][row]) for v in names} for row, names in enumerate(chosen)]


def first_query(net: BayesianNetwork, evidence: dict[str, str]) -> None:
    """All marginals by a network that has forgotten its plans."""
    net.junction_trees.clear()
    net.query(None, evidence)


def first_query_of_peer(network: Any, evidence: dict[int, int]) -> None:
    Peer(network).marginals(evidence)


def each(ask: Callable[[Any], object], questions: list[Any]) -> None:
    for question in questions:
        ask(question)


# -- speed --------------------------------------------------------------------------------------------------


def speed(figures: Figures, networks: dict[str, BayesianNetwork], peers: dict[str, Any]) -> None:
    for name, target in TIMED.items():
        if name not in networks:
            continue
        net, slow = networks[name], name in SLOW_PEER
        *questions, other = evidences(net, 2 if slow else 11)
        coded = [net.variables.encode(evidence) for evidence in questions]
        engine = Peer(peers[name])
        net.query(None, other)  # with slow peers no plan for the evidence of the questions is there yet
        ours, peer = fastest(
            partial(each, partial(net.query, None), questions),
            partial(each, engine.marginals, coded),
            repeats=1 if slow else 5,
        )
        count = len(questions)
        figures.times(f"{name}, all marginals, again", ours / count, peer / count, at_least=target)
        ours, peer = fastest(
            partial(first_query, net, questions[0]),
            partial(first_query_of_peer, peers[name], coded[0]),
            repeats=1 if slow else 5,
        )
        figures.times(f"{name}, all marginals, first", ours, peer, at_least=1)


def batch(figures: Figures, name: str, net: BayesianNetwork, network: Any, sample: int) -> None:
    rng = np.random.default_rng(0)
    drawn = net.sample(N_ROWS, random_state=0)
    for n_columns, share in ((N_OBSERVED, 0.0), (4 * N_OBSERVED, 0.3)):
        chosen = sorted(rng.choice(net.names, n_columns, replace=False).tolist())
        hidden = rng.random((N_ROWS, n_columns)) < share
        frame = {v: np.where(hidden[:, i], None, drawn[v].astype(object)) for i, v in enumerate(chosen)}
        rows = [
            {net.index(v): net.variables.code(net.index(v), frame[v][row]) for v in chosen if frame[v][row]}
            for row in range(sample)
        ]
        engine = Peer(network)
        found = net.predict_proba(frame)
        for row in range(20):
            exact = engine.marginals(rows[row])
            check(
                all(np.allclose(found[v][row], exact[net.index(v)], atol=1e-9) for v in found),
                f"{name}, row {row}",
            )
        ours, peer = fastest(
            partial(net.predict_proba, frame),
            partial(each, engine.marginals, rows),
            repeats=2,
        )
        different = len(set(zip(*frame.values(), strict=True)))
        label = f"{name}, 10,000 rows ({different:,} different) of {n_columns} columns, {share:.0%} missing"
        figures.times(label, ours, peer * N_ROWS / sample, at_least=50)


# -- truth --------------------------------------------------------------------------------------------------


def agreement(networks: dict[str, BayesianNetwork], peers: dict[str, Any]) -> None:
    figures = Figures("All marginals against pyAgrum", ("evidence sets", "largest difference", "met"))
    for name, net in networks.items():
        questions = [evidences(net, 2)[0]] if name in SLOW_PEER else evidences(net, 5, seed=1)
        engine = Peer(peers[name])
        worst = 0.0
        for evidence in questions:
            ours = net.query(None, evidence)
            exact = engine.marginals(net.variables.encode(evidence))
            worst = max(worst, *(np.abs(p.values - exact[net.index(v)]).max() for v, p in ours.items()))
        figures.row(name, str(len(questions)), f"{worst:.1e}", met=worst <= 1e-9)
    figures.print()


def competition(folder: Path, memory: float, quick: bool) -> None:
    answers = json.loads((folder / "verified_answers.json").read_text()) if folder.exists() else {}
    figures = Figures(
        "UAI 2014", ("width", "log10 Z off by", "marginals off by", "best off by", "CPU", "met")
    )
    for path in sorted((folder / "MAR").glob("*.uai")):
        if quick and not path.name.startswith(("Grids_12", "Pedigree", "Segmentation", "Promedus_11")):
            continue
        graph = FactorGraph.read(path)
        evidence = read_evidence(f"{path}.evid", graph)
        reference = float((folder / "PR" / f"{path.name}.PR").read_text().split()[1])
        verified = answers.get(path.name, {})
        best = verified.get("log10_MAP_toulbar2", verified.get("log10_MAP_ve"))
        began = time.process_time()
        try:
            found = graph.query(None, evidence, memory_limit=memory * GIB)
        except UnsupportedError:
            needed = graph.forecast(evidence)
            figures.row(
                path.name, str(needed.width), "", f"refused: {needed.bytes / GIB:.3g} GiB", "", "", met=None
            )
            continue
        seconds = time.process_time() - began
        graph.junction_trees.clear()  # and the memory that it keeps for the next question
        log_z = log_partition(graph, evidence, memory_limit=memory * GIB) / np.log(10.0)
        off = [abs(log_z - reference), marginals_off(path, graph, found)]
        shown = [f"{off[0]:.1e}", f"{off[1]:.1e}", ""]
        if best is not None:
            mine = graph.mpe(evidence, memory_limit=memory * GIB).log_probability / np.log(10.0)
            off.append(abs(mine - best))
            shown[2] = f"{off[2]:.1e}"
        met = off[0] <= 1e-3 and off[1] <= 1e-5 and all(x <= 1e-5 for x in off[2:])
        figures.row(path.name, str(graph.forecast(evidence).width), *shown, f"{seconds:.2f} s", met=met)
    figures.print()


def marginals_off(path: Path, graph: FactorGraph, found: dict[str, Any]) -> float:
    """The largest difference from a ``.MAR`` file: the number of variables, then size and values of each."""
    words = Path(f"{path}.MAR").read_text().split()[1:]
    place, worst = 1, 0.0
    for name in graph.names:
        size = int(words[place])
        values = np.array(words[place + 1 : place + 1 + size], dtype=np.float64)
        place += 1 + size
        if name in found:
            worst = max(worst, float(np.abs(values - found[name].values).max()))
    return worst


def libdai(folder: Path) -> None:
    """Two exact methods against each other, and for one graph libDAI's own answers, printed to 4 digits."""
    figures = Figures(
        "libDAI's test graphs", ("variables", "tree against elimination", "against libDAI", "met")
    )
    for path in sorted(folder.glob("*.fg")):
        graph = FactorGraph.read(path)
        ours, other = graph.query(None), graph.query(None, method="elimination")
        apart = max(float(np.abs(ours[v].values - other[v].values).max()) for v in ours)
        listed = exact_marginals(folder / "testfast.out") if path.stem == "testfast" else {}
        off = max((float(np.abs(ours[v].values - values).max()) for v, values in listed.items()), default=0.0)
        shown = f"{off:.1e}" if listed else ""
        figures.row(path.name, str(len(ours)), f"{apart:.1e}", shown, met=apart < 1e-9 and off < 1e-4)
    figures.print()


def exact_marginals(path: Path) -> dict[str, np.ndarray]:
    """The lines ``# ({x0}, (3.500e-01, 6.500e-01))`` after the line EXACT."""
    found = {}
    lines = iter(path.read_text().splitlines())
    next(line for line in lines if line.startswith("EXACT"))
    for line in lines:
        match = re.match(r"# \(\{(\w+)\}, \(([^)]*)\)\)", line)
        if not match:
            break
        found[match[1]] = np.array(match[2].split(","), dtype=np.float64)
    return found


if __name__ == "__main__":
    main()
