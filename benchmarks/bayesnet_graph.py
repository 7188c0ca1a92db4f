"""Networks before any probability is asked: reading files, and d-separation in a large graph.

Reading: BIF files of the network repository, unpacked, ours next to pgmpy's and pyAgrum's readers. pyAgrum
must find the same parents, and the same probabilities to 1e-6 (files are rounded; ours are normalised).

d-separation: 200 questions (one node against one, 20 observed) in a random directed acyclic graph of 2,000
nodes with about 3 parents each, next to networkx and to pyAgrum's C++. All sides must give the same answers.
The time is the mean over the questions; ours includes finding nodes by their names.

    python benchmarks/bayesnet_graph.py [--quick] [--data FOLDER]
"""

from __future__ import annotations

import gzip
import logging
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from _common import Figures, check, cold_seconds, fastest, files, parser, require_peers
from trellis import BayesianNetwork

N_NODES, N_QUESTIONS, N_OBSERVED = 2000, 200, 20

COLD = """
from trellis import BayesianNetwork
net = BayesianNetwork({"A": [0, 1], "B": [0, 1]}, {"B": ["A"]})
net.d_separated("A", "B")
"""


def main() -> None:
    options = parser(__doc__).parse_args()
    require_peers("pgmpy", "pyagrum")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    figures = Figures("Bayesian networks: files and graphs (CPU)")
    separate(figures)
    first, again = cold_seconds(COLD)
    figures.value("first d-separation of a process: import and compile, empty cache", f"{first:.1f} s")
    figures.value("the same with a full cache", f"{again:.1f} s")
    read_files(figures, options.data / "bn_repository", options.quick)
    figures.print()


def read_files(figures: Figures, folder: Path, quick: bool) -> None:
    import pyagrum

    names = ["alarm", "hailfinder"] if quick else ["alarm", "hailfinder", "andes", "munin1", "link"]
    packed = files(folder, *(f"{name}.bif.gz" for name in names))
    with tempfile.TemporaryDirectory() as scratch:
        for name, source in zip(names, packed, strict=True):
            path = Path(scratch) / f"{name}.bif"
            path.write_bytes(gzip.decompress(source.read_bytes()))
            net = BayesianNetwork.read(path)
            ours, agrum = fastest(
                partial(BayesianNetwork.read, path), partial(pyagrum.loadBN, str(path)), repeats=5
            )
            compare(net, pyagrum.loadBN(str(path)))
            figures.times(f"read {name}.bif, against pyAgrum", ours, agrum)
            if name == "hailfinder" or not quick:
                (pgm,) = fastest(partial(read_by_pgmpy, path), repeats=1)
                figures.times(f"read {name}.bif, against pgmpy", ours, pgm, at_least=20)


def read_by_pgmpy(path: Path) -> Any:
    from pgmpy.readwrite import BIFReader

    return BIFReader(str(path)).get_model()


def compare(net: BayesianNetwork, peer: Any) -> None:
    for name in net.names:
        table = peer.cpt(name)
        order = [*net.parents(name), name]
        check(sorted(table.names) == sorted(order), f"parents of {name}")
        # pyAgrum's array has its axes in the opposite order of names
        values = np.moveaxis(
            table.toarray(), range(len(order)), [order.index(v) for v in reversed(table.names)]
        )
        check(np.allclose(values, net.table(name), atol=1e-6), f"table of {name}")


def separate(figures: Figures) -> None:
    import pyagrum

    rng = np.random.default_rng(0)
    names = [f"v{i}" for i in rng.permutation(N_NODES)]
    arrows = []
    for i in range(1, N_NODES):
        above = rng.choice(i, size=min(i, int(rng.integers(0, 7))), replace=False)
        arrows += [(names[j], names[i]) for j in above]
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(arrows)
    parents: dict[str, list[str]] = {}
    for tail, head in arrows:
        parents.setdefault(head, []).append(tail)
    dag = pyagrum.DAG()
    number = {name: dag.addNode() for name in names}
    for tail, head in arrows:
        dag.addArc(number[tail], number[head])
    # Tables of binary variables with few parents are small, so that this is a network like any other.
    net = BayesianNetwork(dict.fromkeys(names, ("no", "yes")), parents)
    questions = []
    for _ in range(N_QUESTIONS):
        chosen = [names[i] for i in rng.choice(N_NODES, 2 + N_OBSERVED, replace=False)]
        questions.append((chosen[0], chosen[1], chosen[2:]))
    coded = [(number[x], number[y], {number[v] for v in z}) for x, y, z in questions]
    mine = [net.d_separated(x, y, z) for x, y, z in questions]
    check(mine == [nx.is_d_separator(graph, {x}, {y}, set(z)) for x, y, z in questions], "networkx")
    check(mine == [dag.dSeparation({x}, {y}, z) for x, y, z in coded], "pyAgrum")
    ours, agrum = fastest(
        lambda: [net.d_separated(x, y, z) for x, y, z in questions],
        lambda: [dag.dSeparation({x}, {y}, z) for x, y, z in coded],
        repeats=5,
    )
    (theirs,) = fastest(
        lambda: [nx.is_d_separator(graph, {x}, {y}, set(z)) for x, y, z in questions[:50]], repeats=2
    )
    title = (
        f"d-separation, {N_NODES:,} nodes, {len(arrows):,} arrows ({sum(mine)} of {N_QUESTIONS} separated)"
    )
    figures.times(f"{title}, against networkx", ours / N_QUESTIONS, theirs / 50, at_least=10)
    figures.times("the same, against pyAgrum", ours / N_QUESTIONS, agrum / N_QUESTIONS, at_least=1)
    (reasons,) = fastest(lambda: [net.explain_separation(x, y, z) for x, y, z in questions[:3]], repeats=1)
    figures.value("explain_separation with 20 paths, the same graph", f"{1e3 * reasons / 3:.0f} ms")


if __name__ == "__main__":
    main()
