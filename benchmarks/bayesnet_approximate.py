"""Approximate inference and learning: libDAI's reference results, and pyAgrum in the same run.

Loopy belief propagation: single-variable beliefs and the error of log Z on libDAI's ``testfast.fg``, against
the figures that its authors list for belief propagation in ``testfast.out`` (four digits).

Samplers: all marginals of alarm with 5 observed variables of probability 0.01, the time of one sample (one
that is accepted, one that is weighted, one sweep) from 100,000 of ours and 2,000 of pyAgrum's, and the
largest error of ours against exact inference.

Learning: the tables of alarm from 100,000 complete rows, and by EM from 300 rows of which one state in ten is
missing (pyAgrum takes milliseconds for each row and iteration). Both sides start from pandas frames of names.
They must find the same tables by counting; likelihoods that EM has reached stand next to each other.

    python benchmarks/bayesnet_approximate.py [--quick] [--data FOLDER]
"""

from __future__ import annotations

import re
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from _common import Figures, check, fastest, files, parser, require_peers
from trellis import BayesianNetwork, FactorGraph

N_SAMPLES, N_PEER, N_EM = 100_000, 2_000, 300


def main() -> None:
    options = parser(__doc__).parse_args()
    require_peers("pandas", "pyagrum")
    import pyagrum

    warnings.filterwarnings("ignore")
    figures = Figures("Bayesian networks: approximations and learning (CPU)")
    belief_propagation(figures, *files(options.data / "libdai_tests", "testfast.fg", "testfast.out"))
    (source,) = files(options.data / "bn_repository", "alarm.bif.gz")
    net = BayesianNetwork.read(source)
    peer = to_pyagrum(net, pyagrum)
    sample(figures, net, peer, pyagrum)
    learn(figures, net, peer, pyagrum, options.quick)
    figures.print()


def belief_propagation(figures: Figures, graph_file: Path, results: Path) -> None:
    graph = FactorGraph.read(graph_file)
    answer = graph.query(None, method="loopy")
    exact, _ = as_lists(results.read_text(), "EXACT")
    theirs, log_z_error = as_lists(results.read_text(), "BP_SEQFIX")
    ours = np.array([found.values for found in answer.values()])
    difference = np.abs(ours - theirs).max()
    check(difference <= 5.1e-5, f"beliefs differ by {difference:.2g}")
    report = next(iter(answer.values())).diagnostics
    parts: list[Any] = [part for f in graph.factors() for part in (f.values, list(f.variables))]
    joint = np.einsum(*parts, [])
    error = report["log_evidence"] - float(np.log(joint))
    check(abs(error - log_z_error) <= 1e-7, f"log Z off by {error:.6g} and {log_z_error:.6g}")
    figures.value("belief propagation, testfast.fg: largest error", f"{np.abs(ours - exact).max():.2e}",
                  f"{np.abs(theirs - exact).max():.2e}")  # fmt: skip
    figures.value("the same, error of log Z by Bethe", f"{error:+.3e}", f"{log_z_error:+.3e}")


def as_lists(text: str, method: str) -> tuple[np.ndarray, float]:
    """The beliefs of a method in libDAI's list, and the fifth figure of its line: the error of log Z."""
    found = re.search(rf"^{method} +\t(.*)\n((?:#.*\n)+)", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"the list of results has no line for {method}")
    head, body = found.groups()
    rows = [[float(x) for x in re.findall(r"\d\.\d+e[+-]\d+", line)] for line in body.splitlines()]
    numbers = head.split()
    return np.array(rows), float(numbers[4]) if len(numbers) > 4 else 0.0


def to_pyagrum(net: BayesianNetwork, pyagrum: Any) -> Any:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "net.bif"
        net.write(path)
        return pyagrum.loadBN(str(path))


def sample(figures: Figures, net: BayesianNetwork, peer: Any, pyagrum: Any) -> None:
    rng = np.random.default_rng(0)
    row = net.sample(1, random_state=1, output="codes")[0]
    evidence = net.variables.decode({int(i): int(row[i]) for i in rng.choice(len(row), 5, replace=False)})
    exact = pyagrum.LazyPropagation(peer)
    exact.setEvidence(evidence)
    exact.makeInference()
    truth = {name: exact.posterior(name).toarray() for name in net.names if name not in evidence}

    def theirs(kind: Any, n: int) -> Any:
        engine = kind(peer)
        engine.setEvidence(evidence)
        engine.setEpsilon(1e-12)
        engine.setMinEpsilonRate(1e-12)
        engine.setMaxTime(1e9)
        engine.setMaxIter(n)
        engine.setPeriodSize(n)
        engine.makeInference()
        return engine

    methods: list[tuple[str, Any, dict[str, Any]]] = [
        ("rejection", pyagrum.MonteCarloSampling, {"n_samples": 10 * N_SAMPLES}),
        ("likelihood_weighting", pyagrum.WeightedSampling, {"n_samples": N_SAMPLES}),
        ("gibbs", pyagrum.GibbsSampling, {"n_sweeps": N_SAMPLES // 8}),
    ]
    for name, kind, options in methods:
        found = net.query(None, evidence, method=name, random_state=0, **options)
        ours_time, their_time = fastest(
            partial(net.query, None, evidence, method=name, random_state=0, **options),
            partial(theirs, kind, N_PEER),
            repeats=1,
        )
        report = next(iter(found.values())).diagnostics
        n = report.get("n_accepted", N_SAMPLES)
        their_n = theirs(kind, N_PEER).nbrIterations()
        figures.times(f"alarm, {name}: time of a sample", ours_time / n, their_time / their_n)
        error = max(np.abs(found[v].values - truth[v]).max() for v in truth)
        figures.value(
            f"its largest error, {n:,} samples worth {report['effective_sample_size']:,.0f}", f"{error:.4f}"
        )


def learn(figures: Figures, net: BayesianNetwork, peer: Any, pyagrum: Any, quick: bool) -> None:
    frame = net.sample(20_000 if quick else 100_000, random_state=0, output="pandas").astype(str)

    def learner(data: Any) -> Any:
        found = pyagrum.BNLearner(data, peer)
        found.useSmoothingPrior(1)
        return found

    ours, theirs = net.fit(frame, pseudocount=1), learner(frame).learnParameters(peer.dag())
    for name in net.names:
        check(np.allclose(ours.table(name), in_our_order(net, theirs, name), atol=1e-9), f"table of {name}")
    mine, other = fastest(
        lambda: net.fit(frame, pseudocount=1), lambda: learner(frame).learnParameters(peer.dag()), repeats=3
    )
    figures.times(f"alarm, tables from {len(frame):,} complete rows", mine, other)
    hidden = frame.iloc[:10_000]
    hidden = hidden.mask(np.random.default_rng(0).random(hidden.shape) < 0.1)
    few = hidden.iloc[:N_EM]

    def em() -> Any:
        found = learner(few.fillna("?"))
        found.useEM(1e-4)
        return found.learnParameters(peer.dag()), found.EMnbrIterations()

    options: dict[str, Any] = {"pseudocount": 1, "start": "random", "random_state": 0}
    began = time.process_time()
    fitted, n_iter = em()
    other = time.process_time() - began
    learned = net.fit(few, **options)
    mine, many = fastest(lambda: net.fit(few, **options), lambda: net.fit(hidden, **options), repeats=3)
    figures.times(
        f"alarm, EM from {N_EM} rows with 10% missing: one iteration",
        mine / learned.fit_.n_iter,
        other / n_iter,
    )
    found = net.with_tables([in_our_order(net, fitted, name) for name in net.names])
    figures.value(
        f"its log-likelihood, after {learned.fit_.n_iter} and {n_iter} iterations",
        f"{learned.fit_.log_likelihood:,.1f}", f"{found.log_likelihood(few):,.1f}",
    )  # fmt: skip
    figures.value("the same from 10,000 rows, until convergence", f"{many:.2f} s")


def in_our_order(net: BayesianNetwork, peer: Any, name: str) -> np.ndarray:
    """The table of a variable in pyAgrum, with its axes in our order; its arrays list them backwards."""
    order, table = [*net.parents(name), name], peer.cpt(name)
    backwards = list(reversed(table.names))
    return np.ascontiguousarray(table.toarray().transpose([backwards.index(v) for v in order]))


if __name__ == "__main__":
    main()
