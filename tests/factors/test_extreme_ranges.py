"""Tables from 1e-320 to 1e308, zeros and soft evidence: no false zero and no wrong marginal, by any method.

The reference adds logarithms of the entries over all assignments; a product of ten tables has a logarithm of
at most 1e4, so that its sums are right to 1e-11.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet.inference.query import log_partition
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.logspace import log_sum_exp, softmax

RANGES = [(-320.0, 308.0), (-310.0, -280.0), (-300.0, 0.0), (-323.0, -318.0)]


class Case(NamedTuple):
    graph: FactorGraph
    evidence: dict[int, int]
    likelihoods: dict[str, Any]
    logs: np.ndarray  # of the product of all tables, the evidence included

    def marginal(self, *axes: int) -> np.ndarray:
        others = tuple(v for v in range(self.logs.ndim) if v not in axes)
        return softmax(log_sum_exp(self.logs, others), None)


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _spread(values: np.ndarray, scope: list[int], n: int) -> np.ndarray:
    """A table over all variables, of length 1 where it does not have one."""
    turned = values.transpose(np.argsort(scope)) if scope else values
    return turned.reshape([values.shape[scope.index(v)] if v in scope else 1 for v in range(n)])


def draw_case(seed: int, *, tree: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    sizes = rng.integers(1, 4, size=n)

    def table(shape: list[int]) -> np.ndarray:
        low, high = RANGES[int(rng.integers(len(RANGES)))]
        values = 10.0 ** rng.uniform(low, high, size=shape)
        return np.where(rng.random(shape) < 0.15 * rng.integers(2), 0.0, values)

    scopes = [[int(v)] for v in range(n) if rng.random() < 0.5]
    if tree:
        scopes += [[v, int(rng.integers(v))] for v in range(1, n)]
    else:
        scopes += [
            rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False).tolist()
            for _ in range(int(rng.integers(1, 8)))
        ]
    factors = [(scope, table([int(sizes[v]) for v in scope])) for scope in scopes]
    evidence = {v: int(rng.integers(sizes[v])) for v in range(n) if rng.random() < 0.15}
    soft = {v: table([int(sizes[v])]) for v in range(n) if rng.random() < 0.2}
    soft = {v: values for v, values in soft.items() if values.max() > 0.0}
    logs = np.zeros(sizes.tolist())
    for scope, values in [*factors, *(([v], values) for v, values in soft.items())]:
        logs = logs + _spread(_log(values), scope, n)
    for v, state in evidence.items():
        logs = logs + _spread(_log(np.arange(sizes[v]) == state), [v], n)
    likelihoods = {f"x{v}": values for v, values in soft.items()}
    return Case(FactorGraph(sizes, factors), evidence, likelihoods, logs)


def names(case: Case) -> dict[str, str]:
    return case.graph.variables.decode(case.evidence)


@given(st.integers(0, 2**32))
@example(2)
def test_every_exact_method_equals_enumeration(seed: int) -> None:
    case = draw_case(seed)
    graph, n = case.graph, case.logs.ndim
    seen, soft = names(case), case.likelihoods or None
    free = [v for v in range(n) if v not in case.evidence]
    pair = free[:2][::-1]
    total = float(log_sum_exp(case.logs, None))
    assert log_partition(graph, seen, soft) == pytest.approx(total, rel=1e-11, abs=1e-9)
    questions: dict[str, Any] = {
        method: lambda method=method: graph.query(None, seen, likelihoods=soft, method=method)
        for method in ("junction_tree", "elimination", "conditioning")
    }
    if not free:
        return
    if total == -np.inf:
        for question in (*questions.values(), lambda: graph.mpe(seen, likelihoods=soft)):
            with pytest.raises(InfeasibleError):
                question()
        return
    for method, question in questions.items():
        for name, found in question().items():
            wanted = case.marginal(graph.index(name))
            assert_allclose(found.values, wanted, rtol=1e-8, atol=1e-12, err_msg=method)
    together = graph.query([f"x{v}" for v in pair], seen, likelihoods=soft).values
    wanted = case.marginal(*pair)
    assert_allclose(together, wanted.T if len(pair) == 2 else wanted, rtol=1e-8, atol=1e-12)
    best = graph.mpe(seen, likelihoods=soft)
    at = tuple(int(best[name]) for name in graph.names)
    assert case.logs[at] == pytest.approx(case.logs.max(), rel=1e-11, abs=1e-9)
    assert best.log_probability == pytest.approx(case.logs.max(), rel=1e-11, abs=1e-9)
    assert best.log_posterior == pytest.approx(case.logs.max() - total, rel=1e-9, abs=1e-8)


@given(st.integers(0, 2**32))
def test_messages_bound_the_best_assignment(seed: int) -> None:
    case = draw_case(seed)
    if case.logs.max() == -np.inf:
        with pytest.raises(InfeasibleError):
            case.graph.mpe(names(case), likelihoods=case.likelihoods or None, method="message_passing")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = case.graph.mpe(names(case), likelihoods=case.likelihoods or None, method="message_passing")
    at = tuple(int(best[name]) for name in case.graph.names)
    scale = 1e-9 * (1.0 + abs(case.logs.max()))
    assert case.logs[at] == pytest.approx(best.log_probability, rel=1e-11, abs=1e-9)
    assert best.log_probability <= case.logs.max() + scale <= best.bound + 2 * scale
    if best.exact:
        assert best.log_probability == pytest.approx(case.logs.max(), rel=2e-6, abs=2e-6)
    else:
        assert "the gap is" in best.report


@given(st.integers(0, 2**32))
def test_branches_that_contradict_each_other_about_the_targets(seed: int) -> None:
    """Several parts that share nothing but the targets: each is summed out by itself."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(3, 6)), int(rng.integers(2, 5))
    targets = int(rng.integers(1, 3))
    logs, factors = np.zeros([k] * n), []
    lowest = float(rng.choice([-300.0, -200.0]))
    for v in np.repeat(range(targets, n), 2).tolist():
        scope = [int(rng.integers(targets)), v] if rng.random() < 0.5 else [*range(targets), v]
        values = 10.0 ** rng.uniform(lowest, 0.0, size=[k] * len(scope))
        values[rng.random(values.shape) < 0.1] = 0.0
        factors.append((scope, values))
        logs = logs + _spread(_log(values), scope, n)
    if logs.max() == -np.inf:
        return
    graph = FactorGraph([k] * n, factors)
    wanted = softmax(log_sum_exp(logs, tuple(range(targets, n))), None)
    found = graph.query([f"x{v}" for v in range(targets)], method="elimination").values
    assert_allclose(found, wanted, rtol=1e-8, atol=1e-12)


@given(st.integers(0, 2**32))
def test_rows_of_a_frame_equal_enumeration(seed: int) -> None:
    case = draw_case(seed)
    graph, n = case.graph, case.logs.ndim
    plain = sum(_spread(_log(t.values), list(t.variables), n) for t in graph.factors()) + np.zeros(
        graph.cardinalities
    )
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(5):
        codes = [int(rng.integers(size)) if rng.random() < 0.4 else None for size in graph.cardinalities]
        rows.append([None if code is None else str(code) for code in codes])
    columns = {name: [row[i] for row in rows] for i, name in enumerate(graph.names)}
    found = graph.predict_proba(columns, list(graph.names), impossible="nan")
    for r, row in enumerate(rows):
        logs = plain
        for v, state in enumerate(row):
            if state is not None:
                logs = logs + _spread(_log(np.arange(graph.cardinalities[v]) == int(state)), [v], n)
        for v, name in enumerate(graph.names):
            if logs.max() == -np.inf:
                assert np.isnan(found[name][r]).all()
                continue
            others = tuple(u for u in range(n) if u != v)
            assert_allclose(found[name][r], softmax(log_sum_exp(logs, others), None), rtol=1e-8, atol=1e-12)


@given(st.integers(0, 2**32), st.booleans())
def test_propagation_is_exact_on_trees_and_says_nothing_else(seed: int, tree: bool) -> None:
    case = draw_case(seed, tree=tree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = case.graph.query(
                None, names(case), likelihoods=case.likelihoods or None, method="loopy", max_iter=50
            )
        except InfeasibleError:
            assert case.logs.max() == -np.inf
            return
    assert case.logs.max() > -np.inf or not found
    for name, answer in found.items():
        exact = "exact, because there are no cycles" in answer.report
        assert exact == answer.diagnostics["tree"]
        assert exact or answer.values.size == 1 or np.isnan(answer.standard_errors).all()
        assert exact or not tree
        if exact:
            wanted = case.marginal(case.graph.index(name))
            assert_allclose(answer.values, wanted, rtol=1e-8, atol=1e-12)
            total = float(log_sum_exp(case.logs, None))
            assert answer.diagnostics["log_evidence"] == pytest.approx(total, rel=1e-10, abs=1e-8)


@given(st.integers(0, 2**32))
def test_elimination_step_by_step(seed: int) -> None:
    case = draw_case(seed)._replace(likelihoods={})
    graph, n = case.graph, case.logs.ndim
    logs = np.zeros(graph.cardinalities)
    for t in graph.factors():
        logs = logs + _spread(_log(t.values), list(t.variables), n)
    for v, state in case.evidence.items():
        logs = logs + _spread(_log(np.arange(graph.cardinalities[v]) == state), [v], n)
    free = [v for v in range(n) if v not in case.evidence]
    if not free:
        return
    if logs.max() == -np.inf:
        with pytest.raises(InfeasibleError):
            graph.explain_elimination(f"x{free[0]}", names(case))
        return
    steps = graph.explain_elimination(f"x{free[0]}", names(case))
    others = tuple(v for v in range(n) if v != free[0])
    assert_allclose(steps.posterior.values, softmax(log_sum_exp(logs, others), None), rtol=1e-8, atol=1e-12)
    held = {v for t in graph.factors() for v in t.variables}
    unheld = [v for v in range(n) if v not in held and v not in (free[0], *case.evidence)]
    wanted = float(log_sum_exp(logs, None)) - np.log(graph.cardinalities[unheld]).sum()
    assert steps.log_evidence == pytest.approx(wanted, rel=1e-11, abs=1e-9)
    assert "nan" not in str(steps)


def test_four_hundred_features_of_a_naive_bayes_classifier() -> None:
    features = [f"f{i}" for i in range(400)]
    rows = [[0.99, 0.01], [0.98, 0.02]]
    states = {"class": ["a", "b"]} | {name: ["no", "yes"] for name in features}
    network = BayesianNetwork(
        states, {name: ["class"] for name in features}, {"class": [0.5, 0.5]} | dict.fromkeys(features, rows)
    )
    evidence = dict.fromkeys(features, "yes")
    steps = network.explain_elimination("class", evidence)
    assert_allclose(steps.posterior.values, network.query("class", evidence).values, rtol=1e-9)
    assert steps.log_evidence == pytest.approx(network.log_probability(evidence), rel=1e-12)
    assert "= 1.29112e-680:" in str(steps)
    assert steps.evidence_probability == 0.0


def test_the_joint_table_of_the_targets_counts_towards_the_limit() -> None:
    chain = FactorGraph([4] * 20, [([i, i + 1], np.ones((4, 4))) for i in range(19)])
    words = r"joint distribution of 20 targets has 1\.1e\+12 cells, which take 8 TiB .*fewer targets at once"
    with pytest.raises(UnsupportedError, match=words):
        chain.query(list(chain.names))
    with pytest.raises(UnsupportedError, match="too many to show"):
        chain.explain_elimination(list(chain.names))
    assert chain.forecast(targets=list(chain.names)).bytes > 2 * 8 * 4**20
    few = chain.forecast(targets=["x0", "x19"])
    assert few.bytes < 1e5
    chain.query(["x0", "x19"], memory_limit=few.bytes)
    with pytest.raises(UnsupportedError, match="limit is"):
        chain.query(["x0", "x19"], memory_limit=few.bytes - 1)
    observed = dict.fromkeys(chain.names[2:], "0")
    with pytest.raises(UnsupportedError, match="20 targets"):  # observed targets have an axis, too
        chain.query(list(chain.names), observed)


@given(st.integers(0, 2**32))
def test_a_network_keeps_what_is_possible_or_is_refused(seed: int) -> None:
    case = draw_case(seed)._replace(likelihoods={})
    try:
        network = case.graph.to_network()
    except InfeasibleError:
        return
    except UnsupportedError as error:
        if "below 1e-308" not in str(error):
            raise
        return
    n = case.logs.ndim
    logs = np.zeros(case.graph.cardinalities)
    for table in case.graph.factors():
        logs = logs + _spread(_log(table.values), list(table.variables), n)
    for v in range(n):
        others = tuple(u for u in range(n) if u != v)
        found = network.query(f"x{v}").values
        assert_allclose(found, softmax(log_sum_exp(logs, others), None), rtol=1e-8, atol=1e-12)
