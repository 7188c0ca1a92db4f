"""Junction trees, elimination orders and rows of evidence against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from small_networks import joint, random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.logspace import log_sum_exp, softmax
from trellis.factors.elimination_order import (
    HEURISTICS,
    LITTLE_MORE,
    elimination_order,
    elimination_orders,
    given_order,
)
from trellis.factors.junction_tree import compiled_plan, log_passes, plan, plan_choice
from trellis.factors.junction_tree.junction_tree import JunctionTree, log_table
from trellis.factors.junction_tree.row_tree import RowTree
from trellis.factors.possible_states import ContradictionError, PossibleStates, restrict
from trellis.factors.tables import Table, aligned
from trellis.factors.variable_elimination import eliminate

Model = BayesianNetwork | FactorGraph


def random_model(seed: int) -> tuple[Model, np.random.Generator]:
    """Networks with zeros, and factor graphs with zeros; single states and lonely variables among them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    if rng.random() < 0.5:
        return random_network(rng, n, zeros=bool(rng.integers(2))), rng
    graph = random_graph(rng, n, int(rng.integers(0, 9)))
    if rng.random() < 0.5:
        return graph, rng
    factors = [(t.variables, t.values * (rng.random(t.values.shape) < 0.8)) for t in graph.factors()]
    return FactorGraph(graph.cardinalities, factors), rng


def random_evidence(model: Model, rng: np.random.Generator) -> dict[int, int]:
    n = len(model.names)
    chosen = rng.choice(n, int(rng.integers(0, min(n, 3) + 1)), replace=False)
    return {int(v): int(rng.integers(model.cardinalities[v])) for v in chosen}


def random_weights(model: Model, rng: np.random.Generator) -> dict[int, np.ndarray]:
    chosen = rng.choice(len(model.names), int(rng.integers(0, 2)), replace=False)
    return {int(v): rng.random(model.cardinalities[v]) * 3 for v in chosen}


def at_evidence(whole: np.ndarray, evidence: dict[int, int], weights: dict[int, np.ndarray]) -> np.ndarray:
    """The joint with everything that contradicts the evidence set to zero, times soft evidence."""
    whole = whole.copy()
    for v, state in evidence.items():
        only = np.zeros(whole.shape[v])
        only[state] = 1.0
        weights = {**weights, v: only * weights.get(v, 1.0)}
    for v, values in weights.items():
        whole *= values.reshape([-1 if axis == v else 1 for axis in range(whole.ndim)])
    return whole


def marginals_of(whole: np.ndarray) -> list[np.ndarray]:
    axes = range(whole.ndim)
    return [whole.sum(axis=tuple(a for a in axes if a != v)) / whole.sum() for v in axes]


@pytest.fixture(params=["one plan", "a plan for the evidence", "matrix products", "log space"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every way that a question can take, forced."""
    monkeypatch.setattr(plan_choice, "REPLAN_ABOVE", np.inf if request.param == "one plan" else -1.0)
    if request.param == "log space":
        monkeypatch.setattr(compiled_plan, "LARGEST_LEAF_SPAN", -1.0)
        monkeypatch.setattr(log_passes, "LARGEST", 4)
    if request.param == "matrix products":
        monkeypatch.setattr(plan, "MATRIX_AXIS", 2)
        monkeypatch.setattr(plan, "MATRIX_WORK", 1)
    return str(request.param)


@pytest.mark.parametrize("seed", range(40))
def test_marginals_partition_and_best_equal_enumeration(seed: int, way: str) -> None:
    model, rng = random_model(seed)
    evidence, weights = random_evidence(model, rng), random_weights(model, rng)
    whole = at_evidence(joint(model), evidence, weights)
    tree = JunctionTree(model.cardinalities, model.factors())
    found, best = tree.marginals(evidence, weights), tree.best_assignment(evidence, weights)
    log_partition = tree.log_partition(evidence, weights)
    if whole.sum() == 0:
        assert found.log_partition == best.log_value == log_partition == -np.inf
        return
    assert found.log_partition == pytest.approx(np.log(whole.sum()), abs=1e-10)
    assert log_partition == pytest.approx(np.log(whole.sum()), abs=1e-10)
    for v, marginal in enumerate(marginals_of(whole)):
        np.testing.assert_allclose(found.of[v], marginal, atol=1e-12)
    assert best.log_value == pytest.approx(np.log(whole.max()), abs=1e-10)
    assert whole[tuple(best.states)] == pytest.approx(whole.max(), rel=1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_elimination_keeps_any_variables(seed: int, way: str) -> None:
    model, rng = random_model(seed)
    n = len(model.names)
    keep = rng.permutation(n)[: int(rng.integers(0, min(n, 3) + 1))].tolist()
    whole = joint(model)
    log_scale, table = eliminate(model.cardinalities, model.factors(), keep)
    held = {v for t in model.factors() for v in t.variables}
    free = [v for v in range(n) if v not in held and v not in keep]  # not summed: no factor holds them
    expected = whole.sum(axis=tuple(v for v in range(n) if v not in keep)) / model.cardinalities[free].prod()
    expected = expected.transpose(np.argsort(np.argsort(keep))) if keep else expected
    if whole.sum() == 0:
        assert log_scale == -np.inf
    else:
        np.testing.assert_allclose(np.exp(log_scale) * table.values, expected, rtol=1e-10, atol=1e-300)


@given(seeds)
def test_every_order_gives_the_same_answer(seed: int) -> None:
    model, rng = random_model(seed)
    reference = JunctionTree(model.cardinalities, model.factors()).log_partition()
    n = len(model.names)
    for order in (*HEURISTICS, rng.permutation(n).tolist()):
        tree = JunctionTree(model.cardinalities, model.factors(), order=order)
        np.testing.assert_allclose(tree.log_partition(), reference, atol=1e-10)


# -- elimination orders -------------------------------------------------------------------------------------


def greedy_by_sets(
    sizes: np.ndarray, scopes: list[tuple[int, ...]], heuristic: str
) -> tuple[list[int], list[float]]:
    """The rules of the kernel on Python sets."""
    around: dict[int, set[int]] = {v: set() for scope in scopes for v in scope}
    for scope in scopes:
        for v in scope:
            around[v].update(set(scope) - {v})
    order, clusters = [], []
    weight = sizes if heuristic == "weighted_min_fill" else np.ones(len(sizes))

    def cost(v: int) -> tuple[float, float, int]:
        size = float(sizes[v] * np.prod([sizes[u] for u in around[v]]))
        if heuristic == "min_weight":
            return size, size, v
        pairs = itertools.combinations(sorted(around[v]), 2)
        return float(sum(weight[a] * weight[b] for a, b in pairs if b not in around[a])), size, v

    while around:
        v = min(around, key=cost)
        clusters.append(cost(v)[1])
        neighbours = around.pop(v)
        for u in neighbours:
            around[u] |= neighbours - {u}
            around[u].discard(v)
        order.append(v)
    return order, clusters


@given(seeds, st.sampled_from(HEURISTICS))
def test_orders_follow_their_rules(seed: int, heuristic: str) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 15))
    sizes = rng.integers(2, 5, size=n)
    scopes = [tuple(rng.choice(n, min(n, 3), replace=False).tolist()) for _ in range(n)]
    order, clusters = greedy_by_sets(sizes, scopes, heuristic)
    found = elimination_order(sizes, scopes, heuristic)
    assert list(found.variables) == order
    np.testing.assert_allclose(np.exp(found.log_sizes), clusters)
    again = given_order(sizes, scopes, order)
    np.testing.assert_allclose(again.log_sizes, found.log_sizes)
    assert again.width == found.width
    best = elimination_order(sizes, scopes)
    assert best.total <= found.total * (1 + 1e-12)
    assert best.variables == elimination_order(sizes, scopes).variables


def test_a_pool_that_is_too_small_grows() -> None:
    """A star whose centre goes first connects everything with everything."""
    n = 60
    scopes = [(0, i) for i in range(1, n)]
    order = given_order([2] * n, scopes, range(n))
    assert order.width == n - 1
    mixed = elimination_order([2] * n, [*scopes, *((i, i + 1) for i in range(1, n - 1))], "min_weight")
    assert sorted(mixed.variables) == list(range(n))
    assert mixed.width == 2


def test_kept_variables_stay() -> None:
    found = elimination_order([2, 2, 2], [(0, 1), (1, 2)], keep=[1])
    assert sorted(found.variables) == [0, 2]


def test_wrong_orders_are_named() -> None:
    with pytest.raises(DataError, match="variable 2 is missing"):
        given_order([2, 2, 2], [(0, 1), (1, 2)], [0, 1])
    with pytest.raises(DataError, match="variable 7 is not"):
        given_order([2, 2, 2], [(0, 1), (1, 2)], [0, 1, 2, 7])
    with pytest.raises(DataError, match="twice"):
        given_order([2, 2], [(0, 1)], [0, 1, 1])
    with pytest.raises(DataError, match="order is 'max_fill'; give one of best, min_fill"):
        elimination_order([2], [(0,)], "max_fill")


# -- range of numbers ---------------------------------------------------------------------------------------


def test_a_long_chain_does_not_underflow() -> None:
    """1,000 observations of probability 1e-5 each: P(evidence) is 1e-5000, without log space."""
    n, rng = 1000, np.random.default_rng(0)
    steps = [Table((i, i + 1), rng.dirichlet(np.ones(3), 3)) for i in range(n - 1)]
    seen = [Table((i,), 1e-5 * rng.random(3)) for i in range(n)]
    tree = JunctionTree([3] * n, [Table((0,), np.full(3, 1 / 3)), *steps, *seen])
    alpha, log_z = np.full(3, 1 / 3) * seen[0].values, 0.0
    for i in range(n - 1):
        log_z += np.log(alpha.sum())
        alpha = (alpha / alpha.sum()) @ steps[i].values * seen[i + 1].values
    found = tree.marginals()
    assert found.log_partition == pytest.approx(log_z + np.log(alpha.sum()), rel=1e-12)
    np.testing.assert_allclose(found.of[n - 1], alpha / alpha.sum(), rtol=1e-10)


def test_entries_beyond_double_precision_go_through_log_space() -> None:
    """Each factor favours state 0 by 1e150, and others forbid it: what is left is far below the maxima."""
    tiny = np.array([1.0, 1e-150])
    chain = [Table((i, i + 1), np.outer(tiny, tiny)) for i in range(3)]
    only_second = [Table((i,), np.array([0.0, 1.0])) for i in range(4)]
    tree = JunctionTree([2] * 4, [*chain, *only_second])
    found, best = tree.marginals(), tree.best_assignment()
    assert found.log_partition == pytest.approx(6 * np.log(1e-150), rel=1e-12)
    assert best.log_value == pytest.approx(found.log_partition)
    assert best.states.tolist() == [1, 1, 1, 1]
    np.testing.assert_array_equal(found.of[2], [0.0, 1.0])


@given(seeds, st.sampled_from([100.0, 300.0, 600.0]))
@example(970, 600.0)  # all slopes are small, and yet the pass back loses the one that matters
def test_whatever_underflow_takes_is_noticed(seed: int, depth: float) -> None:
    """Entries between exp(-depth) and 1: products leave double precision in either pass, or in none."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(2, 7)), int(rng.integers(2, 9)))
    logs = [Table(t.variables, rng.uniform(-depth, 0.0, t.values.shape)) for t in graph.factors()]
    tables = [Table(t.variables, np.exp(t.values)) for t in logs]
    whole = np.zeros(graph.cardinalities)
    for table in logs:
        whole = whole + aligned(table, range(whole.ndim))
    exact = np.exp(whole - whole.max())
    tree = JunctionTree(graph.cardinalities, tables)
    found, best = tree.marginals(), tree.best_assignment()
    assert found.log_partition == pytest.approx(whole.max() + np.log(exact.sum()), rel=1e-12, abs=1e-10)
    assert tree.log_partition() == pytest.approx(found.log_partition, rel=1e-12, abs=1e-10)
    for v, marginal in enumerate(marginals_of(exact)):
        np.testing.assert_allclose(found.of[v], marginal, atol=1e-10)
    assert best.log_value == pytest.approx(whole.max(), rel=1e-12, abs=1e-10)
    assert whole[tuple(best.states)] == pytest.approx(whole.max(), rel=1e-12)


def test_large_steps_are_matrix_products() -> None:
    """Two tables that share 32 x 16 states, with 12 x 5 and 40 states of their own, which others hold too."""
    rng = np.random.default_rng(0)
    sizes, order = [12, 32, 5, 16, 40], [3, 1, 4, 0, 2]
    scopes = [(0, 1, 2, 3), (4, 3, 1), (0, 4), (2, 4)]
    factors = [Table(scope, rng.random([sizes[v] for v in scope]) * 1e-3) for scope in scopes]
    assert plan.Plan(sizes, scopes, order).matrix_steps == [0]
    whole = np.einsum("abcd,edb,ae,ce->abcde", *(table.values for table in factors))
    found = JunctionTree(sizes, factors, order=order).marginals()
    assert found.log_partition == pytest.approx(np.log(whole.sum()), rel=1e-12)
    for v, marginal in enumerate(marginals_of(whole)):
        np.testing.assert_allclose(found.of[v], marginal, rtol=1e-12)


@given(seeds, st.booleans())
def test_factors_from_1e_300_to_1e300(seed: int, observed: bool) -> None:
    """Entries of one table that no scaling of it brings into double precision together."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(2, 6)), int(rng.integers(2, 7)))
    n = len(graph.names)
    reach = np.log(1e300)
    logs = [Table(t.variables, rng.uniform(-reach, reach, t.values.shape)) for t in graph.factors()]
    weights = {n - 1: np.exp(rng.uniform(-reach, reach, graph.cardinalities[n - 1]))}
    evidence = {0: int(rng.integers(graph.cardinalities[0]))} if observed else {}
    whole = np.zeros(graph.cardinalities)
    for table in [*logs, Table((n - 1,), np.log(weights[n - 1]))]:
        whole = whole + aligned(table, range(n))
    for v, state in evidence.items():
        other = np.arange(graph.cardinalities[v]) != state
        whole[other] = -np.inf
    factors = [Table(t.variables, np.exp(t.values)) for t in logs]
    tree = JunctionTree(graph.cardinalities, factors)
    log_z = float(log_sum_exp(whole, None))
    found, best = tree.marginals(evidence, weights), tree.best_assignment(evidence, weights)
    assert found.log_partition == pytest.approx(log_z, rel=1e-12, abs=1e-9)
    assert tree.log_partition(evidence, weights) == pytest.approx(log_z, rel=1e-12, abs=1e-9)
    for v, marginal in enumerate(marginals_of(softmax(whole, None))):
        np.testing.assert_allclose(found.of[v], marginal, atol=1e-9)
    assert best.log_value == pytest.approx(whole.max(), rel=1e-12, abs=1e-9)
    assert whole[tuple(best.states)] == pytest.approx(whole.max(), rel=1e-12, abs=1e-9)
    soft = [*factors, Table((n - 1,), weights[n - 1])]
    if not observed:
        log_scale, table = eliminate(graph.cardinalities, soft, [n - 1])
        held = {v for t in soft for v in t.variables}
        free = float(np.log([graph.cardinalities[v] for v in range(n) if v not in held]).sum())
        wanted = log_sum_exp(whole, tuple(range(n - 1))) - free
        assert log_scale == pytest.approx(wanted.max(), rel=1e-12, abs=1e-9)
        np.testing.assert_allclose(table.values, np.exp(wanted - wanted.max()), atol=1e-9)
    codes = np.full((3, n), -1)
    codes[1:, 0] = 0
    scopes = [t.variables for t in soft]
    sizes = graph.cardinalities.tolist()
    rows = RowTree(sizes, scopes, [], [0], range(n), 3).marginals([log_table(t).values for t in soft], codes)
    for row, code in enumerate(codes[:, 0]):
        exact = tree.marginals({} if code < 0 else {0: 0}, weights)
        for v in rows.of:
            np.testing.assert_allclose(rows.of[v][row], exact.of[v], atol=1e-9)


def test_huge_and_tiny_factors() -> None:
    tree = JunctionTree([2, 2], [Table((0, 1), 1e300 * np.array([[1.0, 2.0], [3.0, 4.0]]))] * 5)
    values = np.array([1.0, 2.0, 3.0, 4.0]) ** 5
    assert tree.log_partition() == pytest.approx(5 * np.log(1e300) + np.log(values.sum()))


# -- impossible states, memory, input -----------------------------------------------------------------------


@given(seeds)
def test_impossible_states_have_probability_zero(seed: int) -> None:
    model, rng = random_model(seed)
    evidence = random_evidence(model, rng)
    whole = at_evidence(joint(model), evidence, {})
    try:
        allowed = PossibleStates(model.cardinalities.tolist(), model.factors()).given(evidence, {})
    except ContradictionError:
        assert whole.sum() == 0
        return
    if whole.sum() > 0:
        for states, marginal in zip(allowed, marginals_of(whole), strict=True):
            assert not marginal[~states].any()
        kept = [restrict(table, allowed) for table in model.factors()]
        sizes = [int(states.sum()) for states in allowed]
        assert all(t.values.shape == tuple(sizes[v] for v in t.variables) for t in kept)


def test_impossibility_spreads_along_a_chain() -> None:
    same = np.eye(3)
    tables = [Table((i, i + 1), same) for i in range(5)]
    allowed = PossibleStates([3] * 6, tables).given({0: 1}, {})
    assert all(states.tolist() == [False, True, False] for states in allowed)
    with pytest.raises(ContradictionError, match="contradict each other"):
        PossibleStates([3] * 6, tables).given({0: 1, 5: 2}, {})


def grid(side: int) -> list[Table]:
    rng = np.random.default_rng(0)
    cells = [(i, j) for i in range(side) for j in range(side)]
    pairs = [((i, j), (i + a, j + b)) for i, j in cells for a, b in ((0, 1), (1, 0))]
    return [
        Table((a[0] * side + a[1], b[0] * side + b[1]), rng.random((2, 2)))
        for a, b in pairs
        if b[0] < side and b[1] < side
    ]


def test_what_does_not_fit_is_refused_with_a_forecast() -> None:
    tree = JunctionTree([2] * 36, grid(6), memory_limit=1000)
    with pytest.raises(UnsupportedError, match=r"width 6, .*limit is 1e\+03 bytes.*conditioning.*gibbs"):
        tree.marginals()
    with pytest.raises(UnsupportedError, match="width"):
        tree.best_assignment()
    assert tree.forecast().bytes > 1000
    assert tree.forecast(range(30)).bytes < tree.forecast().bytes


def test_the_first_plan_that_fits_into_memory_is_taken() -> None:
    scopes = [table.variables for table in grid(6)]
    rows, columns = list(range(36)), [6 * (i % 6) + i // 6 for i in range(36)]
    middle = sorted(range(36), key=lambda v: abs(v - 17))  # from the middle outwards: large tables
    orders = [given_order([2] * 36, scopes, order) for order in (middle, rows, columns)]
    bytes_of = [plan.Plan([2] * 36, scopes, o.variables).forecast.bytes for o in orders]
    assert bytes_of[0] > 2 * max(bytes_of[1:])
    for limit, expected in ((bytes_of[0], bytes_of[0]), (bytes_of[0] - 1, bytes_of[1]), (0, min(bytes_of))):
        chosen = plan_choice.choose_plan([2] * 36, scopes, orders, limit)
        assert chosen.forecast.bytes == expected


def test_large_plans_have_several_orders_to_choose_from() -> None:
    """A grid of 14 x 14 with 4 states: the orders are near each other in work, the best one first."""
    scopes = [table.variables for table in grid(14)]
    orders = elimination_orders([4] * 196, scopes)
    totals = [order.total for order in orders]
    assert len(orders) > 1
    assert totals == sorted(totals)
    assert totals[-1] <= LITTLE_MORE * totals[0]
    assert totals[0] < min(elimination_order([4] * 196, scopes, rule).total for rule in HEURISTICS)
    assert all(sorted(order.variables) == list(range(196)) for order in orders)
    assert elimination_orders([4] * 196, scopes)[0].variables == orders[0].variables


def test_a_hopeless_graph_is_refused_before_it_is_planned() -> None:
    n = 70
    everything = [Table((i, j), np.ones((2, 2))) for i in range(n) for j in range(i)]
    with pytest.raises(UnsupportedError, match="width 69"):
        JunctionTree([2] * n, everything).marginals()
    with pytest.raises(UnsupportedError, match="width 69"):
        eliminate([2] * n, everything, ())


def test_bad_evidence_is_named() -> None:
    tree = JunctionTree([2, 3], [Table((0, 1), np.ones((2, 3)))])
    with pytest.raises(DataError, match="variable 1 to state 3"):
        tree.marginals({1: 3})
    with pytest.raises(DataError, match="likelihood of variable 0"):
        tree.marginals({}, {0: np.ones(3)})


# -- rows ---------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(seeds)
def test_rows_equal_single_questions(seed: int) -> None:
    """Columns observed always, sometimes and never; more rows than a block holds, and fewer."""
    model, rng = random_model(seed)
    n, n_rows = len(model.names), int(rng.choice([1, 2, 5, 300]))
    distinct = rng.integers(model.cardinalities, size=(6, n))
    kind = rng.integers(3, size=n)  # never, sometimes, always
    hidden = (kind == 0) | ((kind == 1) & (rng.random((6, n)) < 0.5))
    distinct[hidden] = -1
    codes = distinct[rng.integers(6, size=n_rows)]
    seen = codes >= 0
    always, sometimes = np.flatnonzero(seen.all(axis=0)), np.flatnonzero(seen.any(axis=0) & ~seen.all(axis=0))
    held = {v for t in model.factors() for v in t.variables}
    ones = [Table((v,), np.ones(model.cardinalities[v])) for v in range(n) if v not in held]
    wanted = [v for v in range(n) if v not in always]
    factors = [*model.factors(), *ones]
    scopes = [table.variables for table in factors]
    rows = RowTree(model.cardinalities.tolist(), scopes, always, sometimes, wanted, n_rows)
    logs = [log_table(table).values for table in factors]
    found, threaded = (rows.marginals(logs, codes, n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(found.log_partition, threaded.log_partition)
    tree = JunctionTree(model.cardinalities, model.factors())
    for row in range(min(n_rows, 12)):
        exact = tree.marginals({v: int(codes[row, v]) for v in range(n) if seen[row, v]})
        assert found.log_partition[row] == pytest.approx(exact.log_partition, abs=1e-10)
        for v in wanted if exact.of else ():
            np.testing.assert_allclose(found.of[v][row], exact.of[v], atol=1e-12)
            np.testing.assert_array_equal(found.of[v], threaded.of[v])


@pytest.mark.parametrize("seed", [238, 593, 850, 1312])
def test_the_best_assignment_of_tables_that_underflow_together(seed: int) -> None:
    """Each step's best product is far above underflow, and an assignment lost before is better than all."""
    rng = np.random.default_rng(seed)
    logs = []
    for _ in range(9):
        variables = tuple(sorted(rng.permutation(4)[: rng.integers(1, 3)].tolist()))
        shape = (2,) * len(variables)
        logs.append((variables, -rng.uniform(0, 600, shape) * (rng.random(shape) < 0.7)))
    found = JunctionTree([2] * 4, [Table(v, np.exp(t)) for v, t in logs]).best_assignment()
    every = [
        sum(float(t[tuple(y[v] for v in variables)]) for variables, t in logs)
        for y in itertools.product(range(2), repeat=4)
    ]
    assert found.log_value == pytest.approx(max(every), abs=1e-6)


@settings(max_examples=20)
@given(seed=seeds)
def test_evidence_that_leaves_as_many_states_shares_a_plan(seed: int) -> None:
    """The same variables observed in other states: the answers of enumeration, from one plan."""
    model, rng = random_model(seed)
    whole = joint(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_choice, "REPLAN_ABOVE", -1.0)
        tree = JunctionTree(model.cardinalities, model.factors())
        observed = rng.choice(len(model.names), int(rng.integers(1, len(model.names) + 1)), replace=False)
        left = set()
        for _ in range(6):
            evidence = {int(v): int(rng.integers(model.cardinalities[v])) for v in observed}
            found = tree.marginals(evidence)
            p = at_evidence(whole, evidence, {})
            if p.sum() == 0.0:
                assert found.log_partition == -np.inf
                continue
            allowed = tree._possible_states.given(evidence, {})
            left.add(tuple(int(states.sum()) for states in allowed))
            for v, shares in found.of.items():
                others = tuple(u for u in range(p.ndim) if u != v)
                np.testing.assert_allclose(shares, p.sum(axis=others) / p.sum(), atol=1e-10)
        assert len(tree._plans) == len(left)
