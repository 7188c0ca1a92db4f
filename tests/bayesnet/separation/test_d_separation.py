"""d-separation against networkx, against numerical independence, and on an exam's questions."""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_networks import joint, random_network, seeds
from trellis import BayesianNetwork
from trellis.core.errors import DataError, UnsupportedError

EXAM = "A>B A>E B>C C>D C>G E>F F>G H>I I>E I>J J>K J>L K>M L>M"


def network_of(arrows: str) -> BayesianNetwork:
    pairs = [arrow.split(">") for arrow in arrows.split()]
    parents: dict[str, list[str]] = {}
    for tail, head in pairs:
        parents.setdefault(head, []).append(tail)
    return BayesianNetwork({name: ["t", "f"] for name in sorted(set(chain(*pairs)))}, parents)


def random_dag(rng: np.random.Generator, n: int, density: float) -> tuple[BayesianNetwork, nx.DiGraph]:
    order = [f"v{i}" for i in rng.permutation(n)]
    arrows = [(a, b) for a, b in combinations(order, 2) if rng.random() < density]
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(order))
    graph.add_edges_from(arrows)
    return BayesianNetwork.from_networkx(graph), graph


def split(rng: np.random.Generator, names: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    """Disjoint x, y and given; x and y are not empty."""
    shuffled = [names[i] for i in rng.permutation(len(names))]
    a, b = 1 + rng.integers(0, 2), 1 + rng.integers(0, 2)
    c = rng.integers(0, len(names) - a - b + 1)
    return shuffled[:a], shuffled[a : a + b], shuffled[a + b : a + b + c]


@given(seeds, st.integers(5, 14), st.sampled_from([0.1, 0.25, 0.5]))
def test_networkx_agrees(seed: int, n: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    net, graph = random_dag(rng, n, density)
    for _ in range(10):
        x, y, z = split(rng, net.names)
        assert net.d_separated(x, y, z) == nx.is_d_separator(graph, set(x), set(y), set(z))


def dependence(table: np.ndarray, x: int, y: int, z: tuple[int, ...]) -> float:
    """max over all values of |P(x, y | z) - P(x | z) P(y | z)|, from the joint distribution."""
    rest = tuple(i for i in range(table.ndim) if i not in (x, y, *z))
    marginal = np.moveaxis(table.sum(axis=rest, keepdims=True), (x, y), (0, 1))
    total = marginal.sum(axis=(0, 1))
    known = total > 1e-12
    pair = marginal / np.where(known, total, 1.0)
    alone = pair.sum(axis=1, keepdims=True) * pair.sum(axis=0, keepdims=True)
    return float(np.abs((pair - alone) * known).max())


@given(seeds)
def test_it_is_independence_in_random_networks(seed: int) -> None:
    """Separated pairs are independent in every network; others are dependent in almost every one."""
    rng = np.random.default_rng(seed)
    _, graph = random_dag(rng, 5, 0.4)
    parents = {v: list(graph.predecessors(v)) for v in graph}
    tables = {v: rng.dirichlet([1.0, 1.0], size=(2,) * len(above)) for v, above in parents.items()}
    net = BayesianNetwork({v: ["t", "f"] for v in graph}, parents, tables)
    table = joint(net)
    for x, y in combinations(range(5), 2):
        others = [v for v in range(5) if v not in (x, y)]
        for z in chain.from_iterable(combinations(others, size) for size in range(4)):
            names = [net.names[v] for v in z]
            separated = net.d_separated(net.names[x], net.names[y], names)
            assert (dependence(table, x, y, z) < 1e-12) == separated


@given(seeds, st.integers(4, 8), st.sampled_from([0.25, 0.45]))
def test_the_paths_are_all_paths_and_give_the_answer(seed: int, n: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    net, graph = random_dag(rng, n, density)
    x, y, z = split(rng, net.names)
    reasons = net.explain_separation(x, y, z, max_paths=10_000)
    assert reasons.separated == net.d_separated(x, y, z)
    assert reasons.complete
    assert any(path.open for path in reasons.paths) == (not reasons.separated)
    skeleton = graph.to_undirected()
    expected = {
        tuple(path)
        for a in x
        for b in y
        for path in nx.all_simple_paths(skeleton, a, b)
        if not {*path[1:-1]} & {*x, *y}
    }
    assert {path.names for path in reasons.paths} == expected
    assert len(reasons.paths) == len(expected)
    lengths = [len(path.names) for path in reasons.paths]
    assert lengths == sorted(lengths)
    for path in reasons.paths:
        for a, b, forward in zip(path.names, path.names[1:], path.forward, strict=False):
            assert graph.has_edge(*((a, b) if forward else (b, a)))
        for node in path.nodes:
            below = nx.descendants(graph, node.name) | {node.name}
            if node.rule == "collider":
                assert node.open == bool(below & {*z})
                assert (node.opened_by in below & {*z}) if node.open else node.opened_by is None
            else:
                assert node.open == (node.name not in z)
    # However short the list is, what proves dependence is in it.
    if not reasons.separated:
        short = net.explain_separation(x, y, z, max_paths=1)
        assert short.paths[0].open
        assert short.complete == (len(expected) == 1)


@pytest.mark.parametrize(
    ("x", "y", "given_", "separated", "words"),
    [
        ("D", "H", "", True, ["E is a collider, and neither it nor a descendant of it is observed",
                              "G is a collider, and neither it nor a descendant of it is observed"]),
        ("A", "I", "", True, ["A -> E <- I", "E is a collider"]),
        ("A", "I", "G", False, ["open: E is a collider whose descendant G is observed."]),
        ("J", "G", "F", False, ["J <- I -> E <- A -> B -> C -> G",
                                "E is a collider whose descendant F is observed; B, C are chains and are not "
                                "observed; I, A are forks and are not observed."]),
        ("J", "M", "KL", True, ["K is a chain and is observed", "L is a chain and is observed"]),
        ("E", "C", "AG", False, ["E -> F -> G <- C", "G is a collider and is observed"]),
        ("E", "C", "A", True, ["A is a fork and is observed", "G is a collider, and neither"]),
    ],
)  # fmt: skip
def test_the_questions_of_the_exam(x: str, y: str, given_: str, separated: bool, words: list[str]) -> None:
    net = network_of(EXAM)
    assert net.d_separated(x, y, list(given_)) is separated
    text = str(net.explain_separation(x, y, list(given_)))
    verb = "are d-separated" if separated else "are not d-separated"
    assert text.startswith(f"{x} and {y} {verb} given {', '.join(given_) or 'nothing'}.")
    for expected in words:
        assert expected in text


def test_words_for_a_single_edge_and_for_no_path() -> None:
    net = network_of("A>B C>D")
    assert str(net.explain_separation("A", "B")) == (
        "A and B are not d-separated given nothing.\n  A -> B\n    open: nothing can block an edge."
    )
    assert str(net.explain_separation("A", ["C", "D"])) == (
        "A and C, D are d-separated given nothing.\n  No path joins them."
    )


def test_more_paths_than_shown() -> None:
    net = network_of("A>B A>C A>D B>Z C>Z D>Z")
    text = str(net.explain_separation("A", "Z", max_paths=2))
    assert text.endswith("There are more paths; max_paths=2 limits this list.")


def test_long_paths() -> None:
    """Each path of a ladder goes over at one rung; a chain has one path, however long."""
    n = 1500
    names = [f"{side}{i}" for i in range(n) for side in "ab"]
    parents = {f"{side}{i}": [f"{side}{i - 1}"] for i in range(1, n) for side in "ab"}
    for i in range(n):
        parents.setdefault(f"b{i}", []).append(f"a{i}")
    ladder = BayesianNetwork(dict.fromkeys(names, (0, 1)), parents)
    reasons = ladder.explain_separation("a0", f"b{n - 1}", max_paths=5)
    assert [len(path.names) for path in reasons.paths] == [n + 1] * 5
    assert len({path.names for path in reasons.paths}) == 5
    assert not reasons.complete
    chain_of_many = BayesianNetwork(
        {f"v{i}": [0, 1] for i in range(5000)}, {f"v{i}": [f"v{i - 1}"] for i in range(1, 5000)}
    )
    reasons = chain_of_many.explain_separation("v0", "v4999", "v77")
    assert reasons.complete
    assert reasons.separated
    assert [str(node) for node in reasons.paths[0].blocked_by] == ["v77 is a chain and is observed"]


def test_overlapping_sets() -> None:
    net = network_of("A>B B>C")
    assert not net.d_separated("A", "A")
    assert not net.d_separated(["A", "B"], ["B", "C"], "A")
    assert net.d_separated("A", "C", ["A"])  # what is known depends on nothing
    assert net.d_separated(["A", "B"], "C", ["B"])
    with pytest.raises(DataError, match="'B' appears in more than one of x, y and given"):
        net.explain_separation("A", "B", "B")
    with pytest.raises(DataError, match="x is empty"):
        net.d_separated([], "A")
    with pytest.raises(DataError, match="there is no variable 'X'"):
        net.d_separated("A", "B", ["X"])
    with pytest.raises(DataError, match="expected the name of a variable or a list of names, got 0"):
        net.d_separated(0, "B")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="max_paths is 0; give a whole number of at least 1"):
        net.explain_separation("A", "B", max_paths=0)


@given(seeds, st.integers(3, 9))
def test_markov_blankets_and_moral_graphs(seed: int, n: int) -> None:
    net, graph = random_dag(np.random.default_rng(seed), n, 0.3)
    moral = nx.moral_graph(graph)
    assert {v: set(near) for v, near in net.moral_graph().items()} == {v: set(moral[v]) for v in moral}
    for name in net.names:
        blanket = net.markov_blanket(name)
        assert set(blanket) == set(moral[name])  # its neighbours once parents are married
        rest = [v for v in net.names if v not in {name, *blanket}]
        if rest:
            assert net.d_separated(name, rest, blanket)


@given(seeds, st.integers(3, 9))
def test_minimal_separators(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    net, graph = random_dag(rng, n, 0.35)
    x, y = (net.names[i] for i in rng.choice(n, 2, replace=False))
    separator = net.minimal_separator(x, y)
    if separator is None:
        assert graph.has_edge(x, y) or graph.has_edge(y, x)
        return
    assert nx.is_minimal_d_separator(graph, {x}, {y}, set(separator))
    others = [v for v in net.names if v not in (x, y)]
    fixed, within = others[:1], others[::2]
    limited = net.minimal_separator(x, y, include=fixed, within=within)
    exists = nx.find_minimal_d_separator(graph, {x}, {y}, included=set(fixed), restricted={*within, *fixed})
    assert (limited is None) == (exists is None)
    if limited is not None:
        assert set(fixed) <= set(limited) <= {*within, *fixed}
        assert net.d_separated(x, y, limited)
        for v in set(limited) - set(fixed):
            assert not net.d_separated(x, y, set(limited) - {v})


def test_separators_of_what_cannot_be_apart() -> None:
    net = network_of("A>B B>C")
    assert net.minimal_separator("A", "C") == ["B"]
    assert net.minimal_separator("A", "B") is None
    assert net.minimal_separator("A", "C", within=[]) is None
    with pytest.raises(DataError, match="no variable in common"):
        net.minimal_separator("A", "C", include="A")


def test_all_independencies() -> None:
    assert [str(i) for i in network_of("A>C B>C C>D").independencies()] == [
        "A \u27c2 B",
        "A \u27c2 D | B, C",
        "A \u27c2 D | C",
        "B \u27c2 D | A, C",
        "B \u27c2 D | C",
    ]
    wide = BayesianNetwork({f"v{i}": [0, 1] for i in range(20)})
    with pytest.raises(UnsupportedError, match=r"20 variables have too many subsets to list \([\d,]+ walks"):
        wide.independencies()
    assert len(wide.independencies(max_given=0)) == 20 * 19 // 2
    wider = BayesianNetwork({f"v{i}": [0, 1] for i in range(1000)})
    with pytest.raises(UnsupportedError, match="1000 variables have too many subsets"):
        wider.independencies(max_given=2)
    with pytest.raises(DataError, match="max_given is -1; give a whole number of at least 0"):
        wide.independencies(max_given=-1)


@given(seeds)
def test_independencies_are_those_of_single_questions(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), 5)
    listed = {(i.x, i.y, i.given) for i in net.independencies()}
    for x, y in combinations(net.names, 2):
        others = [v for v in net.names if v not in (x, y)]
        for z in chain.from_iterable(combinations(others, size) for size in range(4)):
            assert ((x, y, z) in listed) == net.d_separated(x, y, z)


def test_a_picture_of_the_reasons(tmp_path: Path) -> None:
    reasons = network_of(EXAM).explain_separation("J", "G", "F")
    reasons.draw(tmp_path / "why.dot")
    text = (tmp_path / "why.dot").read_text()
    names = sorted("ABCDEFGHIJKLM")
    number = {name: names.index(name) for name in names}
    assert f'{number["A"]} -> {number["E"]} [color="#009e73"' in text  # on the open path
    assert f'{number["E"]} -> {number["F"]} [color="#d55e00"' in text  # on the blocked one
    assert f'{number["K"]} -> {number["M"]} [color="#b5bac3"' in text  # on none
    reasons.draw(tmp_path / "why.png")
    assert (tmp_path / "why.png").read_bytes()[:4] == b"\x89PNG"
