"""The gap by simulation: against exact distributions, below valid bounds, the same however it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.report.theory_figures import draw_gap, draw_learning_curve
from trellis.theory import GapSample, simulate_generalization_gap, simulate_learning_curve
from trellis.training.checkpoint_folder import CheckpointWarning


def coin(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels that are 1 with probability 0.3, whatever x is."""
    return np.zeros((n, 1)), (rng.random(n) < 0.3).astype(int)


class Always:
    """The one hypothesis 0."""

    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X), dtype=int)


def always(X: Any, y: Any) -> Always:
    return Always()


def exact_error(model: Always) -> float:
    return 0.3


def threshold(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.random((n, 1))
    noise = rng.random(n) < 0.1
    return x, ((x[:, 0] > 0.4) ^ noise).astype(int)


STUMP = DecisionTreeClassifier(max_depth=1)


def simulate(**options: Any) -> GapSample:
    given = {"m": 60, "n_repeats": 40, "vc_dimension": 2, **options}
    return simulate_generalization_gap(threshold, STUMP, **given)


def test_one_hypothesis_has_a_known_distribution() -> None:
    """gap = 0.3 - (errors of 50) / 50, so its quantiles are those of the binomial."""
    found = simulate_generalization_gap(
        coin, always, 50, 3000, 0.1, true_error=exact_error, log_hypotheses=0.0
    )
    truth = 0.3 - stats.binom(50, 0.3).ppf(0.1) / 50
    assert found.epsilon.low - 1e-12 <= truth <= found.epsilon.high + 1e-12
    assert found.gap.mean() == pytest.approx(0, abs=4 * np.sqrt(0.21 / 50 / 3000))
    assert found.gap.std() == pytest.approx(np.sqrt(0.21 / 50), rel=0.05)
    (bound,) = found.bounds()
    assert float(bound.epsilon) >= found.epsilon.low


def test_the_test_error_is_near_the_exact_one() -> None:
    found = simulate_generalization_gap(coin, always, 20, 50, n_test=4000)
    assert found.true == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / 4000))


def test_no_simulation_beats_a_valid_bound() -> None:
    for m in (30, 300):
        found = simulate(m=m, n_repeats=60, log_hypotheses=np.log(2 * m))
        assert len(found.bounds()) == 3
        for bound in found.bounds():
            assert found.epsilon.low <= float(bound.epsilon)
            assert np.mean(found.gap > float(bound.epsilon)) <= 0.05 + 3 * np.sqrt(0.05 / 60)
        assert all(factor > 1 for factor in found.looseness().values())


def test_consistent_learners_get_the_consistent_bound() -> None:
    def sampler(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.random((n, 1))
        return x, (x[:, 0] > 0.4).astype(int)

    found = simulate_generalization_gap(sampler, STUMP, 50, 30, log_hypotheses=5.0)
    assert not found.train.any()
    assert [b.name for b in found.bounds()] == ["finite class, consistent learner", "finite class, agnostic"]
    assert found.epsilon.low <= float(found.bounds()[0].epsilon)


def test_the_same_for_any_number_of_workers() -> None:
    alone = simulate()
    for options in ({"n_jobs": 2, "backend": "threads"}, {"n_jobs": 2, "backend": "processes"}):
        other = simulate(**options)
        assert (other.train == alone.train).all()
        assert (other.true == alone.true).all()
    assert (simulate(seed=1).true != alone.true).any()
    assert (simulate(n_repeats=10).true == alone.true[:10]).all()


def test_a_stopped_simulation_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "gaps"
    calls = []

    def sampler(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        calls.append(n)
        if len(calls) == 15:
            raise KeyboardInterrupt
        return threshold(n, rng)

    options: dict[str, Any] = {"m": 60, "n_repeats": 40, "checkpoint": path}
    with pytest.raises(KeyboardInterrupt):
        simulate_generalization_gap(sampler, STUMP, **options)
    kind, meta, arrays = storage.read(path / "checkpoint.0")
    assert (kind, meta["kind"]) == ("Checkpoint", "GeneralizationGap")
    done = int(np.isfinite(arrays["true_60"]).sum())
    assert 0 < done <= 7
    found = simulate_generalization_gap(sampler, STUMP, **options)
    assert len(calls) == 15 + 2 * (40 - done)
    assert (found.true == simulate().true).all()
    again = simulate_generalization_gap(sampler, STUMP, **{**options, "n_repeats": 50})
    assert len(calls) == 15 + 2 * (50 - done)
    assert (again.true[:40] == found.true).all()
    simulate_generalization_gap(sampler, STUMP, **{**options, "m": 30})  # another m in the same file
    newest = max(path.iterdir(), key=lambda one: int(storage.read(one)[1]["number"]))
    assert {"true_60", "true_30"} <= set(storage.read(newest)[2])
    assert len(list(path.iterdir())) == 2
    newest.write_bytes(b"something else")  # the other one is one m behind
    with pytest.warns(CheckpointWarning, match="damaged"):
        simulate_generalization_gap(sampler, STUMP, **{**options, "n_repeats": 50})
    assert len(calls) == 15 + 2 * (50 - done) + 2 * 40
    for changed, word in [
        ({"seed": 3}, "seed 0"),
        ({"n_test": 7}, "n_test_60 1200"),
        ({"loss": "hamming"}, "loss"),
    ]:
        with pytest.raises(DataError, match=word):
            simulate_generalization_gap(sampler, STUMP, **{**options, **changed})
    for file in path.iterdir():
        file.write_bytes(b"something else")
    with pytest.raises(ModelFileError, match="damaged"):
        simulate_generalization_gap(sampler, STUMP, **options)


def test_the_learning_curve_and_its_pictures(tmp_path: Path) -> None:
    curve = simulate_learning_curve(threshold, STUMP, [400, 20, 100], 30, vc_dimension=2)
    assert curve.m == [20, 100, 400]
    assert (curve.samples[1].true == simulate(m=100, n_repeats=30).true).all()
    means = [sample.true.mean() for sample in curve.samples]
    assert means == sorted(means, reverse=True)
    limits = [sample.true_error.high for sample in curve.samples]
    assert curve.examples_needed(1.0) == 20
    assert curve.examples_needed(limits[2]) in (20, 100, 400)
    assert curve.examples_needed(0.05) is None  # the noise alone is 0.1
    assert len(str(curve).splitlines()) == 4
    draw_learning_curve(tmp_path / "curve.png", curve, target=0.2)
    draw_gap(tmp_path / "gap.svg", curve.samples[0])
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "gap.svg").read_bytes()
    assert "vacuous" in str(curve.samples[0])


def test_any_loss() -> None:
    found = simulate(loss=lambda gold, guess: 0.5 * (gold != guess), vc_dimension=None, log_hypotheses=3.0)
    plain = simulate()
    assert found.true == pytest.approx(0.5 * plain.true)
    with pytest.raises(DataError, match="losses between 0 and 1"):
        simulate(loss=lambda gold, guess: 2.0 * (gold != guess), vc_dimension=None, log_hypotheses=3.0)


def test_structured_examples() -> None:
    def sampler(n: int, rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
        y = [rng.integers(2, size=int(rng.integers(1, 4))).tolist() for _ in range(n)]
        return [np.zeros(len(labels)) for labels in y], y

    class Zeros:
        def predict(self, X: Any) -> list[list[int]]:
            return [[0] * len(x) for x in X]

    steps = simulate_generalization_gap(sampler, lambda X, y: Zeros(), 30, 40, loss="hamming")
    whole = simulate_generalization_gap(sampler, lambda X, y: Zeros(), 30, 40, loss="zero_one")
    assert steps.true.mean() == pytest.approx(0.5, abs=0.02)
    assert whole.true.mean() == pytest.approx(1 - (1 / 2 + 1 / 4 + 1 / 8) / 3, abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 0}, "m is 0; give a whole number of at least 1"),
        ({"delta": 1.0}, "delta is 1.0; give a number between 0 and 1"),
        ({"loss": "hamming"}, "VC dimension needs loss='zero_one'"),
        ({"backend": "cloud"}, "give 'threads', 'processes'"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, UnsupportedError), match=message):
        simulate(**options)


def test_bad_samplers_and_learners() -> None:
    with pytest.raises(DataError, match="asked for 10 examples and gave 9"):
        simulate_generalization_gap(lambda n, rng: coin(n - 1, rng), STUMP, 10, 2)
    failing = DecisionTreeClassifier(max_depth=-1)
    with pytest.raises(DataError, match="repeat 0 at m = 10: the learner failed"):
        simulate_generalization_gap(coin, failing, 10, 2)


def squares(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((n, 1)), 5 * rng.normal(size=n)


def squared(true: float, found: float) -> float:
    return (true - found) ** 2


def test_losses_that_know_no_bound(tmp_path: Path) -> None:
    """Of four repeats nothing is known from above: the quantile of a squared error does not end at 1."""
    curve = simulate_learning_curve(squares, always, [5, 20], n_repeats=4, loss=squared)
    for sample in curve.samples:
        for found in (sample.epsilon, sample.true_error):
            assert found.low <= found.value <= found.high == np.inf
    assert curve.examples_needed(1.0) is None
    draw_gap(tmp_path / "gap.png", curve.samples[0])
    draw_learning_curve(tmp_path / "curve.png", curve)
    bounded = simulate_generalization_gap(coin, always, 5, n_repeats=4)
    assert (bounded.epsilon.high, bounded.true_error.high) == (1.0, 1.0)


def test_numbers_of_examples_are_whole() -> None:
    for m in (5.5, "5"):
        with pytest.raises(DataError, match="give a whole number of at least 1"):
            simulate_generalization_gap(coin, always, m)  # type: ignore[arg-type]
