"""A mixture of networks: the mean of what each of them says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from trellis.core.errors import DataError
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.acoustics.convolutional.network_mixture import NetworkMixture, members, mixed

C, F = 3, 2


def network(seed: int, units: int, dilations: tuple[int, ...]) -> ConvolutionalNetwork:
    return ConvolutionalNetwork.random(4, units, dilations, C, F, C + F, np.random.default_rng(seed))


def test_scores_are_means() -> None:
    one, two = network(0, 6, (1, 2)), network(1, 5, (3,))
    both = mixed([one, two])
    assert members(both) == (one, two)
    assert both.reach == max(one.reach, two.reach)
    rng = np.random.default_rng(2)
    frames = rng.normal(size=(9, 4)).astype(np.float32)
    pairs = rng.normal(size=(2, 3, C + F)).astype(np.float32)
    hidden = both.hidden(frames)
    assert hidden.shape == (9, 11)
    apart = [(n, n.hidden(frames)) for n in (one, two)]
    for name, more in (("class_scores", ()), ("articulation", ()), ("boundary_scores", tuple(pairs))):
        expected = sum(getattr(n, name)(h, *more) for n, h in apart) / 2
        assert_allclose(getattr(both, name)(hidden, *more), expected, rtol=1e-5, atol=1e-6)


def test_one_network_needs_no_mixture_and_none_is_an_error() -> None:
    one = network(0, 6, (1,))
    assert mixed([one]) is one
    assert members(one) == (one,)
    with pytest.raises(DataError, match="at least one"):
        NetworkMixture(())
    with pytest.raises(DataError, match="does not fit"):
        mixed([one, network(1, 4, (1,))]).check(4, C, F + 1, C + F + 1)
    with pytest.raises(DataError, match="networks is 0"):
        ConvolutionalOptions(networks=0)
