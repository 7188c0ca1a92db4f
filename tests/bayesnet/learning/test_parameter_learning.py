"""Learning tables: counts by hand, EM against textbook EM by enumeration, certificates, frames, recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_networks import joint, random_network, seeds
from trellis import BayesianNetwork
from trellis.bayesnet.learning.network_em import NetworkEM
from trellis.bayesnet.model.data_frames import decode_frame
from trellis.bayesnet.model.distinct_rows import distinct_rows
from trellis.core.errors import DataError
from trellis.factors.flat_factors import flatten

RAIN = BayesianNetwork(
    {"Rain": ["yes", "no"], "Wet": ["yes", "no"]},
    {"Wet": ["Rain"]},
    {"Rain": [0.3, 0.7], "Wet": [[0.9, 0.1], [0.2, 0.8]]},
)


def incomplete(network: BayesianNetwork, n: int, seed: int, share: float) -> np.ndarray:
    """Rows from the network as states, a share of them missing (None)."""
    rng = np.random.default_rng(seed)
    codes = network.sample(n, random_state=seed, output="codes")
    frame = np.array([[network.states[i][c] for i, c in enumerate(row)] for row in codes], dtype=object)
    frame[rng.random(frame.shape) < share] = None
    return frame


def posterior(network: BayesianNetwork, row: np.ndarray) -> tuple[np.ndarray, float]:
    """P(all variables | row) and P(row) by enumeration."""
    table = joint(network)
    mask = np.zeros(table.shape)
    place = [slice(None) if s is None else network.states[i].index(s) for i, s in enumerate(row)]
    mask[tuple(place)] = 1.0
    table = table * mask
    return table / table.sum(), table.sum()


def textbook_em(network: BayesianNetwork, frame: np.ndarray, pseudocount: float, n_iter: int) -> list:
    """Tables and log-likelihoods of EM that enumerates everything for each row."""
    history = []
    for t in range(n_iter + 1):
        counts = [np.full(table.shape, float(pseudocount)) for table in network.tables]
        total = 0.0
        for row in frame:
            p, evidence = posterior(network, row)
            total += np.log(evidence)
            for i in range(len(network.names)):
                family = [*network.parent_indices[i], i]
                kept = p.sum(axis=tuple(a for a in range(p.ndim) if a not in family))
                order = sorted(family)
                counts[i] = counts[i] + kept.transpose([order.index(a) for a in family])
        history.append((network.tables, total))
        if t < n_iter:
            rows = [c.sum(axis=-1, keepdims=True) for c in counts]
            tables = [
                np.where(r > 0, c / np.where(r > 0, r, 1.0), old)
                for c, r, old in zip(counts, rows, network.tables, strict=True)
            ]
            network = network.with_tables(tables)
    return history


def check_certificates(history: dict[str, list[float]]) -> None:
    primal, dual = np.array(history["primal"]), np.array(history["dual"])
    assert len(primal) == len(dual) + 1
    slack = 1e-9 * max(1.0, np.abs(primal).max())
    assert np.all(primal[:-1] >= dual - slack)
    assert np.all(dual >= primal[1:] - slack)


def test_counts_by_hand() -> None:
    frame = {"Rain": ["yes", "yes", "yes", "no"], "Wet": ["yes", "yes", "no", "no"]}
    learned = RAIN.fit(frame)
    np.testing.assert_allclose(learned.table("Rain"), [3 / 4, 1 / 4])
    np.testing.assert_allclose(learned.table("Wet"), [[2 / 3, 1 / 3], [0, 1]])
    assert learned.fit_.log_likelihood == pytest.approx(
        3 * np.log(3 / 4) + np.log(1 / 4) + 2 * np.log(2 / 3) + np.log(1 / 3)
    )
    assert learned.log_likelihood(frame) == pytest.approx(learned.fit_.log_likelihood)
    assert str(learned.fit_.status) == (
        "converged after 1 iteration: all rows are complete, and counting is exact"
    )
    assert learned.names == RAIN.names
    smoothed = RAIN.fit(frame, pseudocount=0.5)
    np.testing.assert_allclose(smoothed.table("Wet"), [[2.5 / 4, 1.5 / 4], [0.5 / 2, 1.5 / 2]])
    chosen = RAIN.fit(frame, pseudocount={"Wet": [[0, 0], [3, 0]]})
    np.testing.assert_allclose(chosen.table("Wet"), [[2 / 3, 1 / 3], [3 / 4, 1 / 4]])
    np.testing.assert_allclose(chosen.table("Rain"), [3 / 4, 1 / 4])


@settings(max_examples=20)
@given(seed=seeds, pseudocount=st.sampled_from([0.0, 0.7]))
def test_complete_rows_are_counted(seed: int, pseudocount: float) -> None:
    network = random_network(np.random.default_rng(seed), 5)
    codes = network.sample(300, random_state=seed, output="codes")
    learned = network.fit(decode_frame(network.variables, codes), pseudocount=pseudocount)
    for i, table in enumerate(learned.tables):
        counts = np.full(table.shape, pseudocount)
        np.add.at(counts, tuple(codes[:, [*network.parent_indices[i], i]].T), 1.0)
        total = counts.sum(axis=-1, keepdims=True)
        expected = np.where(total > 0, counts / np.where(total > 0, total, 1.0), network.tables[i])
        np.testing.assert_allclose(table, expected, atol=1e-14)
        assert learned.fit_.unseen.get(network.names[i], 0) == (total == 0).sum()
    chosen = np.log([joint(learned)[tuple(row)] for row in codes]).sum()
    assert learned.fit_.log_likelihood == pytest.approx(chosen)


def test_rows_of_a_table_without_data_stay_and_are_reported() -> None:
    learned = RAIN.fit({"Rain": ["yes"], "Wet": ["no"]})
    np.testing.assert_array_equal(learned.table("Wet")[1], RAIN.table("Wet")[1])
    assert learned.fit_.unseen == {"Wet": 1}


def test_many_rows_recover_the_tables() -> None:
    network = random_network(np.random.default_rng(5), 5, max_parents=2)
    learned = network.fit(network.sample(200_000, random_state=0))
    for found, true in zip(learned.tables, network.tables, strict=True):
        assert np.abs(found - true).max() < 0.03


@settings(max_examples=15)
@given(seed=seeds, share=st.sampled_from([0.1, 0.5, 0.9]), pseudocount=st.sampled_from([0.0, 0.5]))
def test_em_is_textbook_em_with_certificates(seed: int, share: float, pseudocount: float) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 5, zeros=pseudocount == 0.0 and bool(seed % 2))
    frame = incomplete(network, 12, seed % 1000, share)
    frame[0, 0] = None
    steps = textbook_em(network, frame, pseudocount, 4)
    for t in (1, 4):
        learned = network.fit(frame, pseudocount=pseudocount, max_iter=t, tol=0.0)
        n_iter = learned.fit_.n_iter
        check_certificates(learned.fit_.history)
        tables, log_likelihood = steps[n_iter]
        for found, expected in zip(learned.tables, tables, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-9)
        assert learned.fit_.log_likelihood == pytest.approx(log_likelihood)
        penalty = pseudocount * sum(np.log(table).sum() for table in tables) if pseudocount else 0.0
        assert learned.fit_.history["primal"][-1] == pytest.approx(-log_likelihood - penalty)
        if pseudocount == 0.0:
            primal = [-value for _, value in steps[: n_iter + 1]]
            np.testing.assert_allclose(learned.fit_.history["primal"], primal, rtol=1e-9, atol=1e-9)


def test_the_dual_is_the_lower_bound_at_the_new_tables_and_the_old_posteriors() -> None:
    network = random_network(np.random.default_rng(11), 4)
    frame = incomplete(network, 20, 3, 0.4)
    history = network.fit(frame, max_iter=1, tol=0.0).fit_.history
    (_, _), (tables, _) = textbook_em(network, frame, 0.0, 1)
    new = joint(network.with_tables(tables))
    bound = 0.0
    for row in frame:
        q, _ = posterior(network, row)
        used = q > 0
        bound += (q[used] * (np.log(new[used]) - np.log(q[used]))).sum()
    assert history["dual"][0] == pytest.approx(-bound)


@settings(max_examples=15)
@given(seed=seeds, share=st.sampled_from([0.0, 0.4, 1.0]))
def test_log_likelihood_by_enumeration(seed: int, share: float) -> None:
    network = random_network(np.random.default_rng(seed), 6, zeros=bool(seed % 2))
    frame = incomplete(network, 10, seed % 1000, share)
    each = network.log_likelihood(frame, per_row=True)
    expected = [np.log(posterior(network, row)[1]) for row in frame]
    np.testing.assert_allclose(each, expected, atol=1e-10)
    assert network.log_likelihood(frame, n_jobs=3) == pytest.approx(sum(expected), abs=1e-9)


def test_an_impossible_row_has_minus_infinity_and_cannot_be_learned_from() -> None:
    never = RAIN.with_tables([[1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]]])
    frame = {"Rain": ["yes", "no", None], "Wet": ["yes", "yes", "yes"]}
    each = never.log_likelihood(frame, per_row=True)
    np.testing.assert_allclose(each, [np.log(0.5), -np.inf, np.log(0.5)])
    assert never.log_likelihood(frame) == -np.inf
    with pytest.raises(DataError, match="row 1 of the data is impossible"):
        never.fit(frame)
    never.fit(frame, sample_weight=[1, 0, 1])  # a row of weight 0 says nothing


def test_weights_are_repetitions() -> None:
    network = random_network(np.random.default_rng(2), 4)
    frame = incomplete(network, 30, 0, 0.3)
    times = np.random.default_rng(0).integers(0, 4, size=30)
    weighted = network.fit(frame, sample_weight=times, max_iter=5, tol=0.0)
    repeated = network.fit(np.repeat(frame, times, axis=0), max_iter=5, tol=0.0, n_jobs=2)
    for a, b in zip(weighted.tables, repeated.tables, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(weighted.fit_.history["primal"], repeated.fit_.history["primal"])


def test_a_hidden_cause_is_found_again() -> None:
    """Naive Bayes with a class that is never seen: four symptoms identify it, up to names."""
    rows = [[0.9, 0.1], [0.15, 0.85]]
    symptoms = [f"s{i}" for i in range(4)]
    states = {"H": ["a", "b"]} | {s: ["+", "-"] for s in symptoms}
    truth = BayesianNetwork(
        states, {s: ["H"] for s in symptoms}, {"H": [0.35, 0.65]} | dict.fromkeys(symptoms, rows)
    )
    frame = truth.sample(50_000, random_state=0)
    del frame["H"]
    learned = truth.fit(frame, start="random", n_init=3, random_state=0, max_iter=2000)
    check_certificates(learned.fit_.history)
    assert learned.fit_.status.converged
    swap = learned.table("H")[0] > 0.5
    np.testing.assert_allclose(
        learned.table("H")[::-1] if swap else learned.table("H"), [0.35, 0.65], atol=0.02
    )
    for s in symptoms:
        found = learned.table(s)[::-1] if swap else learned.table(s)
        np.testing.assert_allclose(found, rows, atol=0.02)
    assert learned.fit_.log_likelihood >= truth.log_likelihood(frame)


def test_kept_tables_stay_bit_for_bit() -> None:
    frame = incomplete(RAIN, 50, 1, 0.3)
    learned = RAIN.fit(frame, keep="Wet", pseudocount=1.0)
    np.testing.assert_array_equal(learned.table("Wet"), RAIN.table("Wet"))
    assert not np.array_equal(learned.table("Rain"), RAIN.table("Rain"))
    check_certificates(learned.fit_.history)
    assert "Wet" not in learned.fit_.unseen


def test_starts_that_lead_nowhere_are_said() -> None:
    uniform = BayesianNetwork({"H": ["a", "b"], "X": ["0", "1"]}, {"X": ["H"]})
    with pytest.raises(DataError, match=r"'H' is never observed .* start='random'"):
        uniform.fit({"X": ["0", "1", "1"]})
    never = RAIN.with_tables([[1.0, 0.0], RAIN.table("Wet")])
    with pytest.raises(DataError, match=r"'Rain' contains zeros"):
        never.fit({"Wet": ["yes", "no"]}, pseudocount=1.0)
    for options, words in [
        ({"start": "somewhere"}, "start is 'somewhere'; give 'network' or 'random'"),
        ({"n_init": 3}, "n_init is 3"),
        ({"pseudocount": -1.0}, "pseudo-counts of 'Rain'"),
        ({"pseudocount": {"Wet": [1.0, 2.0, 3.0]}}, r"pseudo-counts of 'Wet' .* \(2, 2\)"),
        ({"pseudocount": "K2"}, "pseudo-counts of 'Rain' must be numbers"),
        ({"pseudocount": [1.0, 2.0]}, "a number for all tables, or a dictionary"),
        ({"n_init": 2.5, "start": "random"}, "n_init is 2.5"),
        ({"max_iter": -1}, "max_iter is -1"),
        ({"random_state": -1, "start": "random"}, "random_state is -1"),
        ({"sample_weight": ["a", "b"]}, "sample_weight must hold numbers"),
        ({"sample_weight": [1.0]}, "sample_weight has shape"),
        ({"sample_weight": [0.0, 0.0]}, "no rows of positive weight"),
        ({"keep": "Snow"}, "no variable 'Snow'"),
    ]:
        with pytest.raises(DataError, match=words):
            RAIN.fit({"Rain": ["yes", None]}, **options)
    with pytest.raises(DataError, match="no rows"):
        RAIN.fit({"Rain": []}, pseudocount=1.0)


def test_a_variable_that_data_say_nothing_about_stays() -> None:
    """Nothing observed lies below it, so that no start could do better, and none is asked for."""
    network = BayesianNetwork(
        {"A": ["0", "1"], "B": ["0", "1"], "C": ["0", "1"]}, {"B": ["A"], "C": ["B"]}
    )  # uniform
    learned = network.fit({"A": ["0", "0", "1", None]})
    np.testing.assert_allclose(learned.table("A"), [2 / 3, 1 / 3], atol=1e-4)
    for name in ("B", "C"):
        np.testing.assert_allclose(learned.table(name), np.full((2, 2), 0.5), atol=1e-12)
    with pytest.raises(DataError, match="'B' is never observed"):
        network.fit({"A": ["0", "1"], "C": ["0", "1"]})


def test_the_likelihood_is_flat_where_em_stops() -> None:
    """Finite differences within the tables; on the border of zero they may only fall."""
    network = random_network(np.random.default_rng(8), 6, max_parents=2)
    frame = incomplete(network, 60, 5, 0.2)
    learned = network.fit(frame, tol=1e-15, max_iter=20_000)
    assert learned.fit_.status.converged

    def rise(i: int, place: tuple[int, ...], best: int, step: float) -> float:
        tables = [np.array(table) for table in learned.tables]
        tables[i][place] += step
        tables[i][*place[:-1], best] -= step
        return (learned.with_tables(tables).log_likelihood(frame) - learned.fit_.log_likelihood) / step

    checked = 0
    for i, table in enumerate(learned.tables):
        for place in np.ndindex(*table.shape):
            best = int(table[place[:-1]].argmax())
            if place[-1] != best and table[place] > 1e-3:
                assert abs(rise(i, place, best, 1e-5) + rise(i, place, best, -1e-5)) < 2e-2
                checked += 1
            elif place[-1] != best:
                assert rise(i, place, best, 1e-6) < 1e-3
    assert checked > 3


def test_running_out_of_iterations_is_not_convergence() -> None:
    frame = incomplete(random_network(np.random.default_rng(1), 5), 30, 0, 0.5)
    learned = random_network(np.random.default_rng(1), 5).fit(frame, max_iter=1, tol=0.0)
    assert not learned.fit_.status.converged


def test_a_long_hidden_chain_is_that_of_a_hidden_markov_model() -> None:
    """2^30 configurations of states that are never seen, and its log-likelihood and EM step by hand."""
    n, rng = 30, np.random.default_rng(0)
    start, move, emit = rng.dirichlet([1, 1]), rng.dirichlet([1, 1], size=2), rng.dirichlet([1, 1, 1], size=2)
    states: dict[str, list[str]] = {}
    parents: dict[str, list[str]] = {}
    tables: dict[str, Any] = {}
    for t in range(n):
        states |= {f"h{t}": ["a", "b"], f"x{t}": ["0", "1", "2"]}
        parents |= {f"h{t}": [f"h{t - 1}"] if t else [], f"x{t}": [f"h{t}"]}
        tables |= {f"h{t}": move if t else start, f"x{t}": emit}
    network = BayesianNetwork(states, parents, tables)
    frame = {name: column for name, column in network.sample(4, random_state=1).items() if name[0] == "x"}
    x = np.array([frame[f"x{t}"].astype(int) for t in range(n)]).T
    expected = []
    for row in x:
        forward = start * emit[:, row[0]]
        for t in range(1, n):
            forward = (forward @ move) * emit[:, row[t]]
        expected.append(np.log(forward.sum()))
    np.testing.assert_allclose(network.log_likelihood(frame, per_row=True), expected, atol=1e-10)
    learned = network.fit(frame, max_iter=20, tol=0.0)
    check_certificates(learned.fit_.history)
    assert learned.fit_.history["primal"][0] == pytest.approx(-sum(expected))
    backward = [np.ones(2)] * n
    for t in range(n - 1, 0, -1):
        backward[t - 1] = move @ (emit[:, x[0, t]] * backward[t])
    first = start * emit[:, x[0, 0]] * backward[0]
    one = network.fit({name: column[:1] for name, column in frame.items()}, max_iter=1, tol=0.0)
    np.testing.assert_allclose(one.table("h0"), first / first.sum(), atol=1e-12)


# -- hard data ----------------------------------------------------------------------------------------------


@given(seed=seeds)
def test_traces_of_counts_have_finite_certificates(seed: int) -> None:
    """Counts down to the smallest number there is, whose share of a row of thousands is no number."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 4)
    layout = flatten(network.cardinalities, network.factors())
    codes = np.full((1, 4), -1, dtype=np.int32)
    rows = distinct_rows(codes, np.ones(1))
    problem = NetworkEM(layout, rows, np.zeros(len(layout.values)), np.zeros(len(layout.values), dtype=bool))
    kinds = [0.0, 5e-324, 1e-321, 1e-310, 1e-200, 1.0, 1e4]
    counts = rng.choice(kinds, size=len(layout.values))
    problem._rows = lambda u: (0.0, counts)
    _, v = problem.h(np.log(layout.values))
    conjugate, u = problem.g_conjugate(v)
    assert np.isfinite(conjugate)
    assert np.isfinite(problem.inner(u, v))
    np.testing.assert_allclose(v.counts, counts, atol=1e-290)


@pytest.mark.parametrize("seed", range(8))
def test_posteriors_that_vanish_cost_nothing(seed: int) -> None:
    """Expected counts about the smallest number there is: their shares are none, and certificates finite."""
    rng = np.random.default_rng(seed)
    tiny = 10.0 ** -rng.uniform(159.0, 163.0, size=2)
    network = BayesianNetwork(
        {"H": [0, 1], "x": [0, 1], "y": [0, 1]},
        {"x": ["H"], "y": ["H"]},
        {
            "H": [0.5, 0.5],
            "x": [[0.4, 0.6], [1 - tiny[0], tiny[0]]],
            "y": [[0.4, 0.6], [1 - tiny[1], tiny[1]]],
        },
    )
    frame = {"x": [1, 0, 0, 0], "y": [1, 0, 0, 0]}
    learned = network.fit(frame, tol=0.0, max_iter=20)
    assert np.isfinite(learned.fit_.log_likelihood)
    assert learned.log_likelihood(frame) == pytest.approx(learned.fit_.log_likelihood)
    assert learned.fit_.log_likelihood >= network.log_likelihood(frame)
    for table in learned.tables:
        np.testing.assert_allclose(table.sum(axis=-1), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sample_weight": [1e-320, 1.0]},
            "sample_weight: .* is out of range; give 0 or numbers between 1e-140",
        ),
        ({"sample_weight": [1e308, 1e308]}, r"1e\+308 is out of range"),
        ({"pseudocount": 5e-324}, "pseudo-counts of 'A': .* out of range"),
        ({"pseudocount": 1e308}, "pseudo-counts of 'A': .* out of range"),
        ({"pseudocount": True}, "pseudo-counts of 'A' must be finite numbers"),
        ({"tol": "x"}, "tol is 'x'"),
        ({"n_init": True}, "n_init is True"),
    ],
)
@pytest.mark.parametrize("hidden", [None, "yes"])
def test_weights_and_counts_beyond_numbers(options: dict, message: str, hidden: str | None) -> None:
    net = BayesianNetwork(
        {"A": [0, 1], "B": ["yes", "no"]}, {"B": ["A"]}, {"A": [0.5, 0.5], "B": [[0.9, 0.1], [0.2, 0.8]]}
    )
    with pytest.raises(DataError, match=message):
        net.fit({"A": [0, 1], "B": [hidden, "no"]}, **options)


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e120])
def test_weights_of_any_scale_give_the_same_tables(scale: float) -> None:
    net = BayesianNetwork(
        {"A": [0, 1], "B": ["yes", "no"]}, {"B": ["A"]}, {"A": [0.5, 0.5], "B": [[0.9, 0.1], [0.2, 0.8]]}
    )
    frame = {"A": [0, 1, None], "B": ["yes", "no", "no"]}
    plain = net.fit(frame, sample_weight=[1.0, 2.0, 3.0])
    scaled = net.fit(frame, sample_weight=np.array([1.0, 2.0, 3.0]) * scale)
    for one, other in zip(plain.tables, scaled.tables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_nothing_observed_is_nothing_to_learn_from() -> None:
    net = BayesianNetwork({"A": [0, 1], "B": ["yes", "no"]}, {"B": ["A"]})
    with pytest.raises(DataError, match="every entry of the frame is missing"):
        net.fit({"A": [None, None], "B": [np.nan, None]})
