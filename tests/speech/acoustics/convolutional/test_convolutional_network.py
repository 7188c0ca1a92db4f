"""The convolutional network: its outputs against PyTorch, its gradient against differences, pieces against
the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.network_gradient import backward, forward
from trellis.speech.acoustics.convolutional.network_losses import AbsentPairs, losses, targets_of
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample, PackedBatch

D, H, C, F = 4, 6, 3, 2
V = C + F
DILATIONS = (1, 3)


def make_network(seed: int = 0, dtype: Any = np.float32) -> ConvolutionalNetwork:
    network = ConvolutionalNetwork.random(D, H, DILATIONS, C, F, V, np.random.default_rng(seed))
    return network.on(network.flat().astype(dtype))


def make_example(seed: int, n_frames: int = 12, n_phones: int = 4, dtype: Any = np.float32) -> NetworkExample:
    rng = np.random.default_rng(seed)
    codes = rng.integers(C, size=n_phones)
    descriptors = np.concatenate([np.eye(C)[codes], rng.integers(2, size=(n_phones, F))], axis=1)
    starts = np.concatenate([[0.0], np.sort(rng.choice(np.arange(1, n_frames), n_phones - 1, False)) + 0.2])
    return NetworkExample(
        rng.normal(size=(n_frames, D)).astype(dtype), codes, descriptors.astype(dtype), codes == 0, starts
    )


def batch_of(examples: list[NetworkExample], network: ConvolutionalNetwork, seed: int = 0) -> Any:
    batch = PackedBatch.of([e.frames for e in examples], network.gap)
    rng = np.random.default_rng(seed)
    pairs, targets = targets_of(examples, batch, AbsentPairs.of(examples), 0.3, 0.5, rng)
    return batch, pairs, targets


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_gradient_is_that_of_the_loss(seed: int, dropout: float) -> None:
    network = make_network(seed, np.float64)
    examples = [
        make_example(10 * seed + i, n, k, np.float64) for i, (n, k) in enumerate([(12, 4), (5, 1), (2, 2)])
    ]
    batch, pairs, targets = batch_of(examples, network)

    def loss_at(flat: np.ndarray) -> float:
        trace = forward(network.on(flat), batch, pairs, dropout, np.random.default_rng(1))
        return losses(trace, targets, 5.0)[0]

    theta = network.flat()
    trace = forward(network, batch, pairs, dropout, np.random.default_rng(1))
    gradient = network.on(np.zeros_like(theta))
    for array in gradient.arrays():
        array[...] = np.nan  # every entry has to be set
    backward(network, trace, losses(trace, targets, 5.0)[1], gradient)
    slope = gradient.flat()
    rng = np.random.default_rng(2)
    for _ in range(20):
        direction = rng.normal(size=theta.size)
        h = 1e-6
        measured = (loss_at(theta + h * direction) - loss_at(theta - h * direction)) / (2 * h)
        assert slope @ direction == pytest.approx(measured, rel=2e-4, abs=1e-7)


def test_outputs_and_gradient_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn.functional
    network = make_network(3)
    examples = [make_example(1, 14, 4), make_example(2, 9, 3)]
    batch, pairs, targets = batch_of(examples, network)
    p = [torch.tensor(a, requires_grad=True) for a in network.arrays()]
    first, first_bias, u1, u2, c1, c2, cls, cls_bias, art, art_bias, bx, bx_bias, bp, bv, bo = p

    def convolution(weight: Any, taps: int) -> Any:  # (taps * in, out) -> (out, in, taps)
        return weight.reshape(taps, -1, weight.shape[1]).permute(2, 1, 0)

    total_class, total_art, total_pairs, row = 0.0, 0.0, 0.0, 0
    n_frames = sum(len(e.frames) for e in examples)
    at = 0
    for example in examples:
        x = torch.tensor(example.frames).T[None]
        h = torch.relu(nn.conv1d(x, convolution(first, 5), first_bias, padding=2))
        for weight, bias, d in ((u1, c1, DILATIONS[0]), (u2, c2, DILATIONS[1])):
            h = h + torch.relu(nn.conv1d(h, convolution(weight, 3), bias, padding=d, dilation=d))
        h = h[0].T
        k = example.phone_of_frame
        logits = h @ cls + cls_bias
        np.testing.assert_allclose(network.hidden(example.frames), h.detach(), atol=1e-5)
        np.testing.assert_allclose(
            network.class_scores(network.hidden(example.frames)),
            nn.log_softmax(logits, 1).detach(),
            atol=1e-5,
        )
        total_class += nn.cross_entropy(logits, torch.tensor(example.codes[k]), reduction="sum") / n_frames
        z, phi = h @ art + art_bias, torch.tensor(example.descriptors[k][:, C:])
        total_art += nn.binary_cross_entropy_with_logits(z, phi, reduction="sum") / (n_frames * F)
        around = torch.cat([h[:-1], h[1:]], 1) @ bx + bx_bias
        while row < len(pairs.first) and pairs.sizes[row] == len(x[0, 0]) - 1:
            both = torch.tensor(np.concatenate([pairs.left[row], pairs.right[row]]))
            s = torch.relu(around + both @ bp) @ bv + bo
            mine = network.boundary_scores(
                network.hidden(example.frames), pairs.left[row : row + 1], pairs.right[row : row + 1]
            )[0]
            np.testing.assert_allclose(mine[1:-1], s.detach(), atol=1e-5)
            assert mine[0] == mine[-1] == 0.0
            q = torch.tensor(targets.boundary[at : at + len(s)])
            log_sum = torch.logsumexp(torch.cat([s, torch.zeros(1)]), 0)
            total_pairs += float(targets.omega[row]) / targets.n_boundaries * (log_sum - (q * s).sum())
            at += len(s)
            row += 1
    loss = total_class + 5.0 * total_art + total_pairs
    loss.backward()
    trace = forward(network, batch, pairs)
    value, derivatives = losses(trace, targets, 5.0)
    assert row == len(pairs.first)
    assert value == pytest.approx(float(loss.detach()), rel=1e-5)
    gradient = network.on(np.zeros_like(network.flat()))
    backward(network, trace, derivatives, gradient)
    theirs = np.concatenate([t.grad.numpy().ravel() for t in p])
    np.testing.assert_allclose(gradient.flat(), theirs, atol=2e-6)


def test_packed_utterances_do_not_see_each_other() -> None:
    network = make_network()
    examples = [make_example(i, n) for i, n in enumerate((12, 5, 30))]
    batch, pairs, _ = batch_of(examples, network)
    trace = forward(network, batch, pairs)
    alone = np.concatenate([network.hidden(e.frames) for e in examples])
    np.testing.assert_allclose(trace.hidden[batch.rows], alone, atol=1e-6)
    assert not np.delete(trace.hidden, batch.rows, axis=0).any()


def test_pieces_with_the_reach_of_context_are_the_whole() -> None:
    network = make_network()
    frames = np.random.default_rng(0).normal(size=(60, D)).astype(np.float32)
    whole, reach = network.hidden(frames), network.reach
    assert reach == 2 + sum(DILATIONS) + 1
    piece = network.hidden(frames[20 - reach : 40 + reach])[reach:-reach]
    np.testing.assert_allclose(piece, whole[20:40], atol=1e-6)
    short = network.hidden(frames[20 - reach + 2 : 40 + reach - 2])[reach - 2 : -reach + 2]
    assert np.abs(short - whole[20:40]).max() > 1e-4  # fewer would not do


def test_parts_that_do_not_fit_are_told() -> None:
    network = make_network()
    with pytest.raises(DataError, match="layers of the convolutional network"):
        replace(network, dilations=(1,))
    with pytest.raises(DataError, match="layers of the convolutional network"):
        replace(network, class_bias=np.zeros(2, np.float32))
    with pytest.raises(DataError, match="prior"):
        replace(network, prior=np.zeros(2, np.float32))
    with pytest.raises(DataError, match="finite"):
        replace(network, boundary_offset=np.array([np.nan], np.float32))
    with pytest.raises(DataError, match="does not fit the frames"):
        network.check(D + 1, C, F, V)
