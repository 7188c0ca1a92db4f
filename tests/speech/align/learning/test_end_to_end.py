"""The gradient of the likelihood of whole alignments, and training by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from small_acoustics import NAMES, acoustic_model, network_of, utterance
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.acoustic_training import network_example
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.acoustics.convolutional.network_gradient import backward
from trellis.speech.align.learning.alignment_likelihood import AlignmentLikelihood, LatticeExample
from trellis.speech.align.learning.end_to_end import held_out_share, in_nats, train_end_to_end
from trellis.speech.align.search.topology import topology_names

OPTIONS = ConvolutionalOptions(
    units=16, dilations=(1, 2), batch_frames=200, augment=False, end_to_end_passes=3, end_to_end_rate=2e-3
)


def examples_of(likelihood: AlignmentLikelihood, loose: list[bool]) -> list[LatticeExample]:
    chosen = [utterance(0), utterance(1, ("a", "s")), utterance(2, ("b",)), utterance(3, ("sil", "sil", "a"))]
    phones = likelihood.acoustics.phones
    return [likelihood.example(network_example(u, phones), x) for u, x in zip(chosen, loose, strict=True)]


@pytest.mark.parametrize("loose", [[False] * 4, [True] * 4, [True, False, True, False]])
def test_the_gradient_is_that_of_the_likelihood(loose: list[bool]) -> None:
    acoustics = acoustic_model()
    likelihood = AlignmentLikelihood(acoustics)
    examples = [replace(e, frames=e.frames.astype(np.float64)) for e in examples_of(likelihood, loose)]
    size = network_of(acoustics).flat().size
    rng = np.random.default_rng(0)
    weights = np.array([0.7, 0.3, 0.2, 1.1, -0.1, 0.5, 0.4])
    theta = np.concatenate([network_of(acoustics).flat().astype(np.float64), weights])

    def loss(at: Any) -> float:
        network = network_of(acoustics).on(at[:size])
        trace = likelihood.listen(network, examples)
        return likelihood.gradient(network, trace, examples, at[size:])[0]

    network = network_of(acoustics).on(theta[:size])
    trace = likelihood.listen(network, examples)
    _, derivatives, d_weights = likelihood.gradient(network, trace, examples, weights)
    slope: Any = np.zeros(size)
    gradient = network.on(slope)
    backward(network, trace, derivatives, gradient)
    whole = np.concatenate([gradient.flat(), d_weights])
    for direction in [*rng.normal(size=(4, len(theta))), *np.eye(len(theta))[-7:]]:
        # a long step, because tables are in single precision
        direction = direction * 1e-3 / np.linalg.norm(direction)
        difference = (loss(theta + direction) - loss(theta - direction)) / 2.0
        assert_allclose(whole @ direction, difference, rtol=2e-4, atol=1e-8)


def test_scores_of_chains_are_those_of_the_features_up_to_a_constant() -> None:
    acoustics = acoustic_model()
    likelihood = AlignmentLikelihood(acoustics)
    (example, *_) = examples_of(likelihood, [False] * 4)
    weights = np.arange(1.0, 8.0)
    trace = likelihood.listen(network_of(acoustics), [example])
    (features,) = likelihood.features(network_of(acoustics), trace, [example])
    ours = features.scores(in_nats(acoustics, weights))
    theirs = acoustics.example(utterance(0)).features
    moved = replace(example.gold, starts=example.gold.starts + np.array([0, 1, 1, 0, 0]))
    change = 5.0 * weights[:-1] @ (theirs.of_path(moved) - theirs.of_path(example.gold))
    assert_allclose(ours.of_path(moved) - ours.of_path(example.gold), change, rtol=1e-4)


def negative_log_likelihood(acoustics: AcousticModel, weights: Any, seeds: range) -> float:
    likelihood = AlignmentLikelihood(acoustics)
    found = [likelihood.example(network_example(utterance(i), acoustics.phones), True) for i in seeds]
    trace = likelihood.listen(network_of(acoustics), found)
    return likelihood.gradient(network_of(acoustics), trace, found, weights)[0]


def test_training_lowers_the_loss_and_keeps_the_best_pass() -> None:
    acoustics = acoustic_model()
    weights = np.append(np.where(np.array(NAMES) == "articulation", 0.2, 0.5) * acoustics.scale, 0.0)
    train, hold = [utterance(i) for i in range(60)], [utterance(i) for i in range(100, 130)]
    seen: list[float] = []
    trained = train_end_to_end(acoustics, weights, train, hold, OPTIONS, 0, seen.append)
    assert seen == pytest.approx([1 / 3, 2 / 3, 1.0])
    nats = in_nats(acoustics, weights)
    before, after = (negative_log_likelihood(a, nats, range(200, 230)) for a in (acoustics, trained))
    assert after < 0.8 * before
    likelihood = AlignmentLikelihood(acoustics)
    held = [likelihood.example(network_example(u, acoustics.phones), False) for u in hold]
    shares = [held_out_share(likelihood, network_of(a), nats, held, 10.0) for a in (acoustics, trained)]
    assert shares[1] > shares[0] + 0.1


def test_what_is_spoken_is_still_heard() -> None:
    """The heads of the network forget their classes; the listening heads, on the same trunk, name them."""
    acoustics, hold = acoustic_model(), [utterance(i, noise=0.3) for i in range(100, 120)]
    train = [utterance(i, noise=0.3) for i in range(40)]
    weights = np.append(0.3 * acoustics.scale, 0.0)
    trained = train_end_to_end(acoustics, weights, train, hold, OPTIONS, 0)
    evidence = [trained.evidence(u.frames) for u in hold]
    examples = [network_example(u, acoustics.phones) for u in hold]
    codes = np.concatenate([e.codes[e.phone_of_frame] for e in examples])
    n_classes = len(acoustics.phones.classes)
    heard, fit = (
        np.mean(np.concatenate([s[:, :n_classes] for s in scores]).argmax(axis=1) == codes)
        for scores in ([e.confidences for e in evidence], [e.class_fit for e in evidence])
    )
    assert heard > fit + 0.05
    assert heard > 0.8


def test_training_is_reproducible_and_can_be_left_out() -> None:
    acoustics = acoustic_model()
    weights = np.full(len(NAMES) + 1, 0.5)
    train, hold = [utterance(i) for i in range(12)], [utterance(i) for i in range(20, 25)]
    options = replace(OPTIONS, augment=True, end_to_end_passes=1)
    one, two = (train_end_to_end(acoustics, weights, train, hold, options, 3) for _ in range(2))
    assert_array_equal(network_of(one).flat(), network_of(two).flat())
    off = replace(OPTIONS, end_to_end_passes=0)
    assert train_end_to_end(acoustics, weights, train, hold, off, 3) is acoustics
    deaf = acoustic_model(("duration", "rate"))
    assert train_end_to_end(deaf, np.ones(2), train, hold, OPTIONS, 3) is deaf
    assert topology_names(deaf.names) == ("duration",)
