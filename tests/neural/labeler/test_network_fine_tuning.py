"""A network is trained by the likelihood, then fine-tuned for the task loss with a measured epsilon."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch")

from stopped_fits import storing
from tagging import clouds, noisy_words, spans
from trellis.core.errors import DataError, TrellisError, UnsupportedError
from trellis.losses import WeightedHamming
from trellis.neural import NeuralSequenceLabeler, relative_gaps
from trellis.neural.labeler.network_training import NetworkRun
from trellis.neural.labeler.schedules import FINE_TUNING_RATE
from trellis.objectives import Direct

X, Y = noisy_words(80)
AUTO = Direct(epsilon="auto", sign="central")
SMALL: dict[str, Any] = {
    "encoder": "cnn",
    "objective": AUTO,
    "embedding_dim": 6,
    "hidden": 6,
    "learning_rate": 1e-2,
    "batch_size": 8,
    "max_epochs": 7,
    "random_state": 0,
    "verbose": False,
}
TIMES = ("seconds", "cpu_seconds")


def labeler(**options: Any) -> NeuralSequenceLabeler:
    return NeuralSequenceLabeler(**{**SMALL, **options})


def measured(model: NeuralSequenceLabeler) -> dict[str, list[float]]:
    return {name: values for name, values in model.history_.items() if name not in TIMES}


def assert_same(a: NeuralSequenceLabeler, b: NeuralSequenceLabeler) -> None:
    assert measured(a).keys() == measured(b).keys()
    for name, values in measured(a).items():
        assert_array_equal(values, measured(b)[name], err_msg=name)
    for name, array in a.weights_.items():
        assert_array_equal(array, b.weights_[name])
    assert a.status_ == b.status_


def test_epsilon_is_measured_at_the_best_start_and_falls() -> None:
    held = noisy_words(40, seed=3)
    model = labeler(holdout=held).fit(X, Y)
    history, first = model.history_, 4  # of 7 epochs
    assert np.isnan(history["epsilon"][:first]).all()
    epsilon = np.array(history["epsilon"][first:])
    assert len(epsilon) == 3
    assert np.isfinite(epsilon).all()
    # batch 10 of 10 of each epoch, in a schedule of three epochs that falls by a factor of ten
    np.testing.assert_allclose(np.diff(np.log(epsilon)), np.log(0.1) / 3)
    eps0 = epsilon[-1] / (3.0 * 0.1 ** (2.9 / 3.0))
    start = labeler(objective_schedule=[("log", first)], objective="log", holdout=held, patience=9).fit(
        X, Y
    )  # keeps the best of the same epochs
    assert start.history_["holdout_loss"] == history["holdout_loss"][:first]
    scores = start.scores(held[0])
    network, codes = start.network_, start.labels_.encode(held[1]).codes
    from trellis.neural import Chain

    gaps = relative_gaps(
        Chain(network.transitions, network.start, network.end),
        torch.from_numpy(scores.unary),
        torch.from_numpy(codes.astype(np.int64)),
        offsets=torch.from_numpy(scores.offsets),
    )
    assert eps0 == pytest.approx(float(np.median(gaps)), rel=1e-4)
    assert history["learning_rate"][first:] == pytest.approx([FINE_TUNING_RATE * 1e-2] * 3)
    assert all(0 < share <= 1 for share in history["update_share"][first:])
    assert all(0.5 < size < 2 for size in history["relative_norm"][first:])


def test_the_epoch_with_the_smallest_hold_out_loss_is_kept_the_start_among_them() -> None:
    held = noisy_words(40, seed=3)
    seen = set()
    for rate in (1e-2, 0.1, 0.3):  # with the last one, the network jumps about its start
        model = labeler(holdout=held, learning_rate=rate, max_epochs=5).fit(X, Y)
        losses = model.history_["holdout_loss"]
        wrong = [
            sum(a != b for a, b in zip(y, z, strict=True))
            for y, z in zip(held[1], model.predict(held[0]), strict=True)
        ]
        assert np.mean(wrong) == pytest.approx(min(losses))
        fell = min(losses[3:]) < min(losses[:3])
        seen.add(fell)
        said = (
            "the hold-out loss is smallest"
            if fell
            else "no epoch of fine-tuning brought the hold-out loss below"
        )
        assert said in model.status_.reason
        assert not model.status_.converged
    assert seen == {True, False}  # both sentences were put to the test


@pytest.mark.parametrize("holdout", [0.2, None])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str, holdout: Any
) -> None:
    """Interrupted in the start, at its end, and twice while epsilon falls."""
    options = {"optimizer": optimizer, "holdout": holdout, "max_epochs": 5, "patience": 2}
    whole = labeler(**options).fit(X, Y)
    path, update = tmp_path / "run", NetworkRun.update
    for epoch in (1, 3, 3, 4):

        def interrupt(run: NetworkRun, *arguments: Any, stop: int = epoch) -> float:
            if run.epoch == stop:
                raise KeyboardInterrupt
            return update(run, *arguments)

        monkeypatch.setattr(NetworkRun, "update", interrupt)
        with storing(), pytest.raises(KeyboardInterrupt):
            labeler(**options, checkpoint=path).fit(X, Y)
    monkeypatch.setattr(NetworkRun, "update", update)
    assert_same(labeler(**options, checkpoint=path).fit(X, Y), whole)
    assert_same(labeler(**options, checkpoint=path).fit(X, Y), whole)  # and once more, from the end
    # epsilon falls over all epochs
    with pytest.raises(DataError, match=r"other options \(max_epochs was 5, now 6\)"):
        labeler(**{**options, "max_epochs": 6}, checkpoint=path).fit(X, Y)


def test_the_start_ends_early_and_leaves_its_epochs_to_fine_tuning() -> None:
    model = labeler(holdout=0.2, max_epochs=20, patience=1, learning_rate=0.05).fit(X, Y)
    first = int(np.isnan(model.history_["epsilon"]).sum())
    losses = model.history_["holdout_loss"][:first]
    assert first < 12
    assert np.argmin(losses) == first - 2  # one epoch without a smaller loss
    assert model.n_iter_ == 20


def test_a_schedule_of_objectives_is_tuned_in_its_last_stage() -> None:
    model = labeler(
        objective="log", objective_schedule=[("margin", 2), (AUTO, None, 0.5)], max_epochs=4, holdout=0.2
    )
    history = model.fit(X, Y).history_
    assert history["learning_rate"] == pytest.approx([1e-2, 1e-2, 5e-3, 5e-3])
    assert np.isfinite(history["epsilon"]).tolist() == [False, False, True, True]
    with pytest.raises(UnsupportedError, match="fine-tunes a trained network"):
        labeler(objective_schedule=[(AUTO, 2), ("log", None)]).fit(X, Y)


def test_a_rate_that_falls_falls_within_each_stage() -> None:
    rates = (
        labeler(schedule="linear", max_epochs=4, holdout=0.2, batch_size=100)
        .fit(X, Y)
        .history_["learning_rate"]
    )
    assert rates == pytest.approx([1e-2, 5e-3, FINE_TUNING_RATE * 1e-2, FINE_TUNING_RATE * 5e-3])


@pytest.mark.parametrize("sign", ["better", "worse"])
@pytest.mark.parametrize("start", ["log", "margin"])
def test_one_sided_signs_and_other_starts(sign: Any, start: Any) -> None:
    model = labeler(objective=Direct(epsilon="auto", sign=sign, start=start), max_epochs=10).fit(X, Y)
    assert model.score(X, Y) > 0.6
    assert np.isfinite(model.history_["epsilon"][-1])
    fixed = labeler(objective=Direct(epsilon=0.5, sign=sign), max_epochs=4).fit(X, Y)
    assert "epsilon" not in fixed.history_
    assert fixed.n_iter_ == 4


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (clouds(30), {"loss": WeightedHamming(class_weight={1: 5.0})}),
        (clouds(30), {"loss": "zero_one"}),
        (spans(40), {"constraints": "bio", "holdout": (*[[["P00", "o00"]], [["I-P", "O"]]],)}),  # illegal
        (([["a", "b"]] * 12, [[{"x", "y"}, "x"], ["y", None]] * 6), {}),
    ],
    ids=["costs", "zero-one", "held-out labels that the grammar forbids", "sets of labels"],
)
def test_every_loss_and_kind_of_label(data: Any, options: Any) -> None:
    model = labeler(**options, max_epochs=4).fit(*data)
    assert "fine-tun" in model.status_.reason


def test_degenerate_starts_end_in_a_sentence() -> None:
    easy = [["a", "b"]] * 20, [["x", "y"]] * 20
    right = labeler(learning_rate=0.1, max_epochs=10, patience=10).fit(*easy)
    assert "every sentence right, so there is nothing to fine-tune" in right.status_.reason
    assert right.score(*easy) == 1.0
    assert right.n_iter_ == 6
    rng = np.random.default_rng(0)
    coins = [[str(rng.integers(2)) for _ in range(4)] for _ in range(20)]
    wrong = labeler(max_epochs=3).fit([["a"] * 4] * 20, coins)  # nothing can be learnt
    assert "hold-out loss" in wrong.status_.reason
    alone = labeler(max_epochs=3).fit([["a", "b", "a"]], [["x", "y", "y"]])
    assert (
        "no hold-out set chooses among the epochs" in alone.status_.reason or "right" in alone.status_.reason
    )
    one_label = labeler(max_epochs=3).fit([["a"], ["b"]] * 8, [["x"], ["x"]] * 8)
    assert "nothing to fine-tune" in one_label.status_.reason


def test_what_cannot_be_fine_tuned_is_refused() -> None:
    with pytest.raises(DataError, match="max_epochs=1 is too few"):
        labeler(max_epochs=1).fit(X, Y)
    with pytest.raises(TrellisError, match="start='zero'"):
        labeler(objective=Direct(epsilon="auto", sign="central", start="zero")).fit(X, Y)
    with pytest.raises(UnsupportedError, match="schedule of a solver"):
        labeler(objective=Direct(epsilon="decay")).fit(X, Y)


def outliers(n: int, seed: int) -> tuple[list[np.ndarray], list[list[int]]]:
    """Two numbers tell three labels apart, but one step in ten carries huge ones that mean nothing."""
    rng = np.random.default_rng(seed)
    centres = 1.5 * np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])
    X, y = [], []
    for _ in range(n):
        codes = rng.integers(3, size=12)
        x = centres[codes] + 0.6 * rng.normal(size=(12, 2))
        strange = rng.random(12) < 0.1
        x[strange] = 60.0 * rng.normal(size=(int(strange.sum()), 2))
        X.append(x)
        y.append(codes.tolist())
    return X, y


class Linear(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(2, 3)

    def forward(self, inputs: Any, lengths: Any) -> Any:
        return self.scores(inputs)


def test_fine_tuning_gets_over_outliers_that_mislead_the_likelihood() -> None:
    """The likelihood pays for an outlier by its score and gives up on the evidence; the loss counts it once.
    The smaller learning rate alone does not do it."""
    options = {"encoder": Linear(), "learning_rate": 0.05, "max_epochs": 16, "clip_norm": None}
    data, new = outliers(120, 0), outliers(200, 1)
    wrong = {}
    for name, stages in {"direct": None, "log": [("log", 10), ("log", None, FINE_TUNING_RATE)]}.items():
        model = labeler(**options, holdout=0.2, patience=16, objective_schedule=stages).fit(*data)
        wrong[name] = 1.0 - model.score(*new)
    assert wrong["direct"] < 0.5 * wrong["log"]
