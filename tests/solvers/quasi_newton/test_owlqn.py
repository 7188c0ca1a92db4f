"""OWL-QN in a family of random problems: against scikit-learn, CRFsuite and the optimality conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l1_regression import l1_regression
from recorded_crfsuite import RecordedTrainer
from trellis import MEMM, SequenceLabeler
from trellis.core.errors import DataError, UnsupportedError
from trellis.solvers import LBFGS, OWLQN, get_solver


def one_step(seed: int, n: int, d: int, k: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Labels of which one has ``share`` of the examples, and features that tell something about them."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 0, rng.integers(k, size=n))
    y[:k] = np.arange(k)
    return rng.normal(size=(n, d)) + rng.normal(size=(k, d))[y], y


def objective(X: np.ndarray, y: np.ndarray, w: np.ndarray, l1: float, l2: float) -> float:
    """Of multinomial logistic regression with weights (features, labels)."""
    scores = X @ w
    log_z = np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1)) + scores.max(1)
    return float((log_z - scores[np.arange(len(y)), y]).sum() + l1 * np.abs(w).sum() + l2 / 2 * (w**2).sum())


def fitted(X: np.ndarray, y: np.ndarray, **options: Any) -> tuple[SequenceLabeler, np.ndarray]:
    """Sequences of one step; their transitions have no weights to learn."""
    model = SequenceLabeler("log", boundaries=False, verbose=False, **options)
    model.fit([x[None] for x in X], [[int(label)] for label in y])
    return model, model.layout_.feature_weights(model.weights_)


@settings(max_examples=15)
@given(
    st.integers(0, 10**6),
    st.integers(12, 40),
    st.integers(1, 6),
    st.integers(2, 4),
    st.sampled_from([0.0, 0.95]),
    st.sampled_from([0.1, 1.0, 5.0]),
)
def test_chains_of_one_step_are_scikit_learns_l1_regression(
    seed: int, n: int, d: int, k: int, share: float, l1: float
) -> None:
    X, y = one_step(seed, n, d, k, share)
    _, ours = fitted(X, y, l1=l1, l2=0.0, tol=1e-8)
    saga = l1_regression(C=1 / l1, solver="saga", fit_intercept=False, tol=1e-7, max_iter=20_000)
    theirs = saga.fit(X, y).coef_
    if k == 2:  # saga has one vector for two labels, and half of it each has the same scores and norm
        theirs = np.concatenate([-theirs / 2, theirs / 2])
    assert objective(X, y, ours, l1, 0.0) <= objective(X, y, theirs.T, l1, 0.0) * (1 + 1e-9)
    if k > 2:
        assert objective(X, y, ours, l1, 0.0) == pytest.approx(objective(X, y, theirs.T, l1, 0.0), rel=1e-5)


def text(seed: int, n: int) -> tuple[Any, Any]:
    """Sentences of words with Zipf's frequencies; a tenth of the word types are names, most tokens are O."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = np.minimum(rng.zipf(1.3, size=rng.integers(3, 15)), 3000)
        names = ((words % 10 == 3) & (words > 3)) ^ (rng.random(len(words)) < 0.03)
        before, after = ["", *words[:-1]], [*words[1:], ""]
        X.append(
            [
                {"bias": 1.0, "w": str(w), "-1": str(b), "+1": str(a), "m": str(w % 7), "h": str(w // 10)}
                | {"short": bool(w < 10), "long": bool(w > 1000), "-1:long": bool(i and words[i - 1] > 1000)}
                for i, (w, b, a) in enumerate(zip(words.tolist(), before, after, strict=True))
            ]
        )
        y.append(
            ["O" if not name else "I" if i and names[i - 1] else "B" for i, name in enumerate(names.tolist())]
        )
    return X, y


def crfsuite(X: Any, y: Any, folder: Path, **options: float) -> list[float]:
    trainer = RecordedTrainer()
    for items, labels in zip(X, y, strict=True):
        trainer.append(items, labels)
    trainer.select("lbfgs")
    trainer.set_params(options)
    trainer.train(str(folder / "m"))
    return trainer.losses


@pytest.mark.parametrize(("c1", "c2"), [(0.1, 0.1), (1.0, 0.0), (0.5, 0.01)])
def test_it_is_never_behind_crfsuite(c1: float, c2: float, tmp_path: Path) -> None:
    X, y = text(0, 300)
    theirs = crfsuite(X, y, tmp_path, c1=c1, c2=c2, delta=0.0, epsilon=1e-12, max_iterations=150)
    model = SequenceLabeler(l1=c1, l2=2 * c2, boundaries=False, max_iter=150, tol=1e-9)
    ours = model.fit(X, y).history_["objective"]
    for mark in (10, 20, 30, 50, 100, 150):
        assert ours[min(mark, len(ours)) - 1] <= 1.003 * theirs[min(mark, len(theirs)) - 1], mark


@pytest.mark.parametrize(("l1", "l2"), [(0.1, 0.2), (1.0, 0.0)])
def test_the_default_stop_is_soon_and_near_the_optimum(l1: float, l2: float) -> None:
    X, y = text(0, 150)
    tight = SequenceLabeler(l1=l1, l2=l2, tol=1e-7, max_iter=3000).fit(X, y)
    default = SequenceLabeler(l1=l1, l2=l2).fit(X, y)
    optimum = tight.history_["objective"][-1]
    assert default.status_.converged
    assert "10 iterations lowered the objective by less than 1e-06 of it" in str(default.status_)
    assert default.n_iter_ < tight.n_iter_
    assert optimum <= default.history_["objective"][-1] <= optimum * (1 + 1e-4)


@pytest.mark.parametrize("estimator", [SequenceLabeler, MEMM])
@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_delta_and_period_stop_as_crfsuite_says(estimator: Any, l1: float) -> None:
    X, y = text(1, 60)
    options = {"l1": l1, "l2": 0.1, "verbose": False}
    labels = [label for one in y for label in one]
    at_zero = len(labels) * np.log(len(set(labels)))
    values = [at_zero, *estimator(tol=1e-9, **options).fit(X, y).history_["objective"]]
    for delta, period in ((1e-2, 5), (1e-4, 10), (1e-3, 1)):
        model = estimator(delta=delta, period=period, **options).fit(X, y)
        falls = ((i, values[i - period] - values[i]) for i in range(period, len(values)))
        assert model.n_iter_ == next(i for i, fall in falls if fall < delta * values[i])
        assert model.status_.converged
        assert f"{period} iterations lowered the objective" in str(model.status_)


def test_options_of_stopping_are_checked() -> None:
    X, y = text(1, 5)
    for options, words in (({"delta": -1.0}, "delta"), ({"period": 0}, "period")):
        with pytest.raises(DataError, match=words):
            SequenceLabeler(**options).fit(X, y)
    with pytest.raises(UnsupportedError, match="'frank_wolfe' does not look at how the objective falls"):
        SequenceLabeler("margin", delta=1e-5).fit(X, y)
    assert OWLQN().least_fall == 1e-6
    assert OWLQN(tol=1e-9).least_fall == LBFGS().least_fall == 0.0
    assert get_solver("lbfgs", delta=1e-5, period=3) == LBFGS(delta=1e-5, period=3)
