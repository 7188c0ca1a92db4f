"""Frame and boundary classifiers against scikit-learn and plain Python, and their files."""

from __future__ import annotations

import builtins
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from codec_copy import through_codec
from trellis.core.errors import DataError, MissingExtraError
from trellis.speech.acoustics import frame_classifiers as classifiers
from trellis.speech.acoustics.boundary_classifier import (
    BoundaryExamples,
    BoundaryOptions,
)
from trellis.speech.acoustics.classifier_names import get_classifier
from trellis.speech.acoustics.feed_forward import UNSEEN, Network, NetworkOptions, fit_network
from trellis.speech.acoustics.frame_classifier_kernels import feature_pass, kernel_pass
from trellis.speech.acoustics.frame_classifiers import (
    FrameExamples,
    NetworkClassifier,
    PassiveAggressiveClassifier,
    gaussian_kernel,
)
from trellis.speech.audio.windows import PackedFrames, windows


def blobs(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, n)
    centres = np.array([[2.0, 0, 0, 0], [0, 2.0, 0, 0], [0, 0, 2.0, 0]])
    return (centres[codes] + rng.normal(size=(n, 4))).astype(np.float32), codes


def test_windows_repeat_the_ends_and_never_see_a_neighbour() -> None:
    frames = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(
        windows(frames, 1, 2), [[0, 1, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 4, 5]]
    )
    np.testing.assert_array_equal(windows(frames, 1, 1, np.array([0, 3])), [[0, 1, 0, 1], [4, 5, 4, 5]])
    both = PackedFrames.of([frames, 10 + frames], 2)
    found = both.windows(np.array([2, 0]), 1, 2, np.array([0, 1]))
    np.testing.assert_array_equal(found, [[2, 3, 4, 5, 4, 5], [10, 11, 10, 11, 12, 13]])


def test_network_without_hidden_layer_is_logistic_regression() -> None:
    rows, codes = blobs(2000)
    options = NetworkOptions(hidden=(), epochs=40, decay=0.0, rate=1e-2, batch=64)
    network = fit_network(lambda i: rows[i], codes, 3, options, 0)
    logits = network.logits(rows)
    other = LogisticRegression(C=1e6).fit(rows, codes).decision_function(rows)
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (logits, other))
    np.testing.assert_allclose(a, b, atol=0.25)
    assert np.mean(logits.argmax(axis=1) == other.argmax(axis=1)) > 0.99


def test_classes_without_rows_are_unlikely() -> None:
    rows, codes = blobs()
    network = fit_network(
        lambda i: rows[i], 2 * codes, 6, NetworkOptions(hidden=(8,), epochs=40, rate=1e-2), 0
    )
    logits = network.logits(rows)
    assert (logits[:, [1, 3, 5]] == UNSEEN).all()
    assert np.mean(logits.argmax(axis=1) == 2 * codes) > 0.7
    two = fit_network(
        lambda i: rows[i], np.minimum(codes, 1), 3, NetworkOptions(hidden=(8,), epochs=40, rate=1e-2), 0
    )
    assert np.mean(two.logits(rows).argmax(axis=1) == np.minimum(codes, 1)) > 0.8
    with pytest.raises(DataError, match="one phone class"):
        NetworkClassifier().fit(FrameExamples([rows], [np.zeros(len(rows), int)], 3, 10.0), 0)


def test_scaled_likelihood_takes_the_prior_back() -> None:
    rows, codes = blobs(600)
    codes[: len(codes) // 2] = 0  # class 0 is frequent
    options, examples = NetworkOptions(hidden=(), epochs=5), FrameExamples([rows], [codes], 3, 10.0)
    posterior, likelihood = (
        NetworkClassifier(context_ms=0, prior=p, network=options).fit(examples, 0) for p in (0.0, 1.0)
    )
    log_prior = np.log((np.bincount(codes) + 1) / (len(codes) + 3))
    np.testing.assert_allclose(np.exp(posterior.confidences(rows)).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(
        likelihood.confidences(rows), posterior.confidences(rows) - log_prior, atol=1e-5
    )


def slow_passive_aggressive(gram, targets, order, C, n_classes):
    """One pass, written out; returns the last coefficients and their mean over visits."""
    alpha = np.zeros((len(gram), n_classes))
    visits = []
    for i in order:
        scores = gram[i] @ alpha
        r = targets[i]
        wrong = scores.copy()
        wrong[r] = -np.inf
        s = int(np.argmax(wrong))
        loss = max(0.0, 1 - scores[r] + scores[s])
        tau = min(C, loss / (2 * gram[i, i]))
        alpha[i, r] += tau
        alpha[i, s] -= tau
        visits.append(alpha.copy())
    return alpha, np.mean(visits, axis=0)


def test_passive_aggressive_pass_by_kernel_and_by_features() -> None:
    rows, codes = blobs(60)
    rows = rows.astype(np.float64)
    order = np.random.default_rng(1).permutation(60)
    linear = rows @ rows.T
    alpha, mean = slow_passive_aggressive(linear, codes, order, 0.05, 3)
    found, total = np.zeros((60, 3)), np.zeros((60, 3))
    kernel_pass(linear, codes, order, 0.05, found, total)
    np.testing.assert_allclose(found, alpha, atol=1e-12)
    np.testing.assert_allclose(total / 60, mean, atol=1e-12)
    weights, total = np.zeros((3, 4)), np.zeros((3, 4))
    for first in (0, 25):  # in two blocks
        block = order[first : first + (25 if first == 0 else 35)]
        feature_pass(rows[block], codes[block], 0.05, weights, total, first, 60)
    np.testing.assert_allclose(weights, alpha.T @ rows, atol=1e-10)
    np.testing.assert_allclose(total / 60, mean.T @ rows, atol=1e-10)


def test_exact_kernel_and_nystroem_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes = blobs(400)
    options = PassiveAggressiveClassifier(landmarks=400)
    exact = options.fit(FrameExamples([rows], [codes], 3, 10.0), 0)
    assert np.mean(exact.confidences(rows).argmax(axis=1) == codes) > 0.8
    monkeypatch.setattr(classifiers, "EXACT", 100)
    mapped = options.fit(FrameExamples([rows], [codes], 3, 10.0), 0)
    # with all frames as landmarks the map is exact; what is left is another order of visits
    assert np.abs(mapped.confidences(rows) - exact.confidences(rows)).mean() < 0.12
    few = PassiveAggressiveClassifier(landmarks=40).fit(FrameExamples([rows], [codes], 3, 10.0), 0)
    assert len(few.basis) == 40
    assert np.mean(few.confidences(rows).argmax(axis=1) == codes) > 0.8


def test_gaussian_kernel() -> None:
    a, b = np.array([[0.0, 0], [3, 4]], np.float32), np.array([[0.0, 0]], np.float32)
    np.testing.assert_allclose(gaussian_kernel(a, b, 19.0), [[1.0], [np.exp(-25 / 38)]], rtol=1e-6)


@pytest.mark.parametrize("name", ["mlp", "linear", "passive_aggressive"])
def test_states_and_options_come_back(name: str) -> None:
    rows, codes = blobs()
    options = get_classifier(name)
    assert through_codec(options) == options
    fitted = options.fit(FrameExamples([rows[:200], rows[200:]], [codes[:200], codes[200:]], 3, 10.0), 0)
    again = through_codec(fitted)
    assert again.shape == ((2 * again.context + 1) * 4, 3)
    np.testing.assert_array_equal(again.confidences(rows), fitted.confidences(rows))
    longer = {"prior": np.zeros(4, np.float32)} if hasattr(fitted, "prior") else {"basis": rows[:1]}
    with pytest.raises(DataError, match="not fit"):
        replace(fitted, **longer)


def test_boundary_classifier_finds_the_boundary_of_the_pair_it_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    levels = np.eye(3, dtype=np.float32)  # phones 0, 1, 2; each lights its own column

    def utterance(order: list[int]) -> BoundaryExamples:
        lengths = rng.integers(6, 14, len(order))
        frames = np.repeat(levels[order], lengths, axis=0) + 0.1 * rng.normal(size=(lengths.sum(), 3))
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(float)
        return BoundaryExamples(frames.astype(np.float32), levels[order], starts)

    train = [utterance(list(rng.permutation(3))) for _ in range(80)]
    options = BoundaryOptions(network=NetworkOptions(hidden=(16,), epochs=30, rate=5e-3))
    fitted = options.fit(train, 10.0, 0)
    new = utterance([0, 1, 2])
    odds = fitted.log_odds(new.frames, levels[[0, 1]], levels[[1, 2]])
    assert odds.shape == (2, len(new.frames) + 1)
    assert odds.argmax(axis=1).tolist() == new.starts[1:].tolist()
    # the fast form of the first layer is the network itself
    around = windows(new.frames, fitted.reach, fitted.reach, np.arange(len(new.frames) + 1))
    rows = np.concatenate([around, np.tile(np.r_[levels[0], levels[1]], (len(around), 1))], axis=1)
    direct = fitted.network.logits(rows.astype(np.float32))[:, 0]
    np.testing.assert_allclose(odds[0, 1:], direct[1:], rtol=1e-4, atol=1e-4)
    again = through_codec(fitted)
    np.testing.assert_array_equal(again.log_odds(new.frames, levels[:1], levels[1:2])[0], odds[0])
    again.check(3, 3)
    for width, descriptors in ((4, 3), (3, 4)):
        with pytest.raises(DataError, match="does not fit"):
            again.check(width, descriptors)
    with pytest.raises(DataError, match="one hidden layer"):
        BoundaryOptions(network=NetworkOptions(hidden=(8, 8)))


def test_layers_of_a_network_fit_each_other() -> None:
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=size).astype(np.float32) for size in ((4, 3), (3, 2)))
    biases = np.zeros(3, np.float32), np.zeros(2, np.float32)
    network = through_codec(Network((first, second), biases))
    assert (network.n_inputs, network.n_outputs) == (4, 2)
    for weights in ((first, np.zeros((5, 2), np.float32)), (first,), (), (first, second[0])):
        with pytest.raises(DataError, match="do not fit"):
            Network(weights, biases)
    for bad in (np.full((3, 2), np.nan, np.float32), second.astype(np.float64)):
        with pytest.raises(DataError, match="not finite numbers in single precision"):
            Network((first, bad), biases)


def test_torch_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes = blobs()
    real = builtins.__import__

    def without_torch(name, *rest):
        if name == "torch":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    monkeypatch.delitem(sys.modules, "trellis.speech.acoustics.torch_feed_forward", raising=False)
    with pytest.raises(MissingExtraError, match=r"trellis-learn\[torch\]"):
        get_classifier("torch").fit(FrameExamples([rows], [codes], 3, 10.0), 0)


def test_torch_network_learns() -> None:
    pytest.importorskip("torch")
    rows, codes = blobs(600)
    network = NetworkOptions(hidden=(16, 16), epochs=20, rate=1e-2, batch=64, torch=True)
    options = NetworkClassifier(context_ms=0.0, network=network)
    fitted = options.fit(FrameExamples([rows], [codes], 3, 10.0), 0)
    again = options.fit(FrameExamples([rows], [codes], 3, 10.0), 0)
    np.testing.assert_allclose(again.confidences(rows), fitted.confidences(rows), rtol=1e-4, atol=1e-4)
    assert np.mean(fitted.confidences(rows).argmax(axis=1) == codes) > 0.7
