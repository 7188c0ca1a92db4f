"""Heads that tell what is spoken, read off a trunk that stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.listening_heads import ListeningHeads, fit_listening_heads
from trellis.speech.acoustics.convolutional.network_mixture import NetworkMixture
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample

N_CLASSES, N_FEATURES = 3, 2


def network(seed: int) -> ConvolutionalNetwork:
    width = N_CLASSES + N_FEATURES
    return ConvolutionalNetwork.random(4, 16, (1,), N_CLASSES, N_FEATURES, width, np.random.default_rng(seed))


def utterances(n: int, seed: int) -> list[NetworkExample]:
    """Class c has a mean of its own in the frames; class 2 does not occur. Feature 0: it is class 1."""
    rng, means = np.random.default_rng(seed), np.array([[2.0, 0, 0, 0], [0, 2.0, 0, 0]])
    found = []
    for _ in range(n):
        codes = np.array([0, 1, 0, 1])
        frames = (means[np.repeat(codes, 10)] + 0.3 * rng.normal(size=(40, 4))).astype(np.float32)
        descriptors = np.zeros((4, N_CLASSES + N_FEATURES), np.float32)
        descriptors[np.arange(4), codes] = 1.0
        descriptors[:, N_CLASSES] = codes
        found.append(NetworkExample(frames, codes, descriptors, codes > 5, 10.0 * np.arange(4)))
    return found


@pytest.mark.parametrize("trunk", [network(0), NetworkMixture((network(1), network(2)))])
def test_they_tell_what_is_spoken(trunk: ConvolutionalNetwork | NetworkMixture) -> None:
    heads = fit_listening_heads(trunk, utterances(30, 0), N_CLASSES, seed=0)
    heads.check(trunk.units, N_CLASSES, N_FEATURES)
    (new,) = utterances(1, 1)
    scores, articulation = heads.hear(trunk.hidden(new.frames))
    codes = new.codes[new.phone_of_frame]
    posterior = np.exp(scores + heads.prior)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-5)
    assert np.mean(posterior.argmax(axis=1) == codes) > 0.9
    assert np.mean((articulation[:, 0] > 0) == (codes == 1)) > 0.9
    assert posterior[:, 2].max() < 1e-3  # never seen


def test_the_optimum_is_reached() -> None:
    """At the minimum of a logistic regression with a constant, classes have their frequencies on average."""
    examples = utterances(30, 2)
    trunk = network(3)
    heads = fit_listening_heads(trunk, examples, N_CLASSES, seed=0)
    scores, _ = heads.hear(np.concatenate([trunk.hidden(e.frames) for e in examples]))
    np.testing.assert_allclose(np.exp(scores + heads.prior).mean(axis=0), [0.5, 0.5, 0.0], atol=0.02)


def test_heads_that_do_not_fit_are_refused() -> None:
    good = np.zeros((16, 5), np.float32), np.zeros(5, np.float32), np.zeros(3, np.float32)
    ListeningHeads(*good).check(16, 3, 2)
    with pytest.raises(DataError, match="do not fit the network"):
        ListeningHeads(*good).check(15, 3, 2)
    with pytest.raises(DataError, match="do not fit each other"):
        ListeningHeads(good[0], np.zeros(4, np.float32), good[2])
    with pytest.raises(DataError, match="finite"):
        ListeningHeads(good[0] * np.float32(np.nan), good[1], good[2])
