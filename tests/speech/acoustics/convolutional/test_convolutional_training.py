"""Training the convolutional network on frames whose class is a column, and on from there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.speech.acoustics.convolutional.augmentation import (
    change_frames,
    lengthen_silences,
    trim_end,
    trim_start,
    vary,
)
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.convolutional_training import (
    AdamW,
    ConvolutionalOptions,
    Schedule,
    batches,
)
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample

C = 4  # class 0 is silence
SMALL = ConvolutionalOptions(32, dilations=(1, 2), passes=50, fewest_steps=0, batch_frames=150, rate=5e-3)


def make_example(rng: np.random.Generator, n_phones: int = 5, noise: float = 0.5) -> NetworkExample:
    codes = np.concatenate([[0], rng.permutation(np.arange(1, C)), [0]])[:n_phones]
    lengths = rng.integers(4, 9, len(codes))
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    frames = np.eye(C)[np.repeat(codes, lengths)] + noise * rng.normal(size=(int(lengths.sum()), C))
    descriptors = np.concatenate([np.eye(C)[codes], (codes % 2)[:, None]], axis=1).astype(np.float32)
    return NetworkExample(frames.astype(np.float32), codes, descriptors, codes == 0, starts.astype(float))


def corpus(seed: int, n: int = 40) -> list[NetworkExample]:
    rng = np.random.default_rng(seed)
    return [make_example(rng) for _ in range(n)]


@pytest.fixture(scope="module")
def network() -> ConvolutionalNetwork:
    return replace(SMALL, augment=False).fit(corpus(0), C, 10.0, seed=0)


def right_boundaries(network: ConvolutionalNetwork, examples: list[NetworkExample]) -> float:
    found = []
    for e in examples:
        scores = network.boundary_scores(network.hidden(e.frames), e.descriptors[:-1], e.descriptors[1:])
        found.append(np.abs(1 + scores[:, 1:-1].argmax(axis=1) - e.starts[1:]) <= 1)
    return float(np.mean(np.concatenate(found)))


def test_classes_articulation_and_boundaries_are_learnt(network: ConvolutionalNetwork) -> None:
    test = corpus(1)
    hidden = [network.hidden(e.frames) for e in test]
    codes = np.concatenate([e.codes[e.phone_of_frame] for e in test])
    found = np.concatenate([network.class_scores(h) for h in hidden]).argmax(axis=1)
    assert np.mean(found == codes) > 0.9
    odd = np.concatenate([network.articulation(h) for h in hidden])[:, 0] > 0
    assert np.mean(odd == codes % 2) > 0.9
    assert right_boundaries(network, test) > 0.9


def test_pairs_that_do_not_occur_score_below_those_that_do(network: ConvolutionalNetwork) -> None:
    """What lets a lattice choose: with silence between two phones, or without."""
    best: dict[bool, list[float]] = {True: [], False: []}
    for e in corpus(2):
        hidden, silence = network.hidden(e.frames), e.descriptors[:1]
        true = network.boundary_scores(hidden, e.descriptors[1:2], e.descriptors[2:3])
        absent = network.boundary_scores(hidden, e.descriptors[1:2], silence)
        best[True].append(float(true[:, 1:-1].max()))
        best[False].append(float(absent[:, 1:-1].max()))
    wins = np.mean(np.array(best[True]) > np.array(best[False]))
    assert wins > 0.9


def test_the_score_of_a_boundary_does_not_depend_on_the_length_of_the_recording(
    network: ConvolutionalNetwork,
) -> None:
    rng = np.random.default_rng(3)
    e, more = make_example(rng), [make_example(rng).frames for _ in range(20)]
    long = np.concatenate([e.frames, *more])
    short, whole = (
        network.boundary_scores(network.hidden(f), e.descriptors[:-1], e.descriptors[1:])
        for f in (e.frames, long)
    )
    inside = slice(1, len(e.frames) - network.reach)
    np.testing.assert_allclose(short[:, inside], whole[:, inside], atol=1e-5)


def test_the_same_seed_gives_the_same_network_and_progress_is_told() -> None:
    shares: list[float] = []
    examples, options = corpus(4, 10), replace(SMALL, passes=2)
    one = options.fit(examples, C, 10.0, seed=1, report=shares.append)
    np.testing.assert_array_equal(one.flat(), options.fit(examples, C, 10.0, seed=1).flat())
    assert (one.flat() != options.fit(examples, C, 10.0, seed=2).flat()).any()
    assert shares == [0.5, 1.0]


def test_few_utterances_get_more_passes() -> None:
    shares: list[float] = []
    replace(SMALL, passes=1, fewest_steps=7).fit(corpus(4, 3), C, 10.0, seed=1, report=shares.append)
    assert len(shares) == 7  # one batch a pass


def test_classes_without_frames_are_unlikely() -> None:
    examples = [replace(e, descriptors=np.pad(e.descriptors, ((0, 0), (0, 1)))) for e in corpus(6, 5)]
    network = replace(SMALL, passes=1).fit(examples, C + 1, 10.0, seed=0)
    scores = network.class_scores(network.hidden(examples[0].frames)) + network.prior
    assert (scores[:, C] < -10).all()


def test_training_without_anything_to_learn_is_told() -> None:
    silence = make_example(np.random.default_rng(0), 1)
    with pytest.raises(DataError, match="all of one phone class"):
        SMALL.fit([silence], C, 10.0, seed=0)


def test_the_rate_rises_and_falls() -> None:
    schedule = Schedule(2.0, 10, 0.2, 0.0)
    rates = [schedule.rate_at(share) for share in (0.0, 0.1, 0.2, 0.6, 1.0)]
    np.testing.assert_allclose(rates, [0.08, 1.04, 2.0, 1.0, 0.0], atol=1e-12)
    assert Schedule(2.0, 10, 0.0, 0.0).rate_at(0.0) == 2.0


def test_steps_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    theta = rng.normal(size=7).astype(np.float32)
    theirs = torch.nn.Parameter(torch.tensor(theta))
    reference = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.3)
    ours = AdamW(theta.copy(), 0.3)
    for _ in range(5):
        gradient = rng.normal(size=7).astype(np.float32)
        theirs.grad = torch.tensor(gradient)
        reference.step()
        ours.step(gradient, 0.1)
    np.testing.assert_allclose(ours.theta, theirs.detach().numpy(), atol=1e-5)


def test_long_gradients_are_scaled_down() -> None:
    long, short = (AdamW(np.zeros(3, np.float32), 0.0, 1.0) for _ in range(2))
    long.step(np.array([30.0, 0.0, 40.0], np.float32), 0.1)
    short.step(np.array([0.6, 0.0, 0.8], np.float32), 0.1)
    np.testing.assert_allclose(long.mean, short.mean, rtol=1e-6)
    with pytest.raises(DataError, match="diverged"):
        long.step(np.array([np.nan, 0.0, 0.0], np.float32), 0.1)


@given(st.integers(0, 1000), st.integers(1, 2000))
def test_batches_hold_every_utterance_once(seed: int, batch_frames: int) -> None:
    examples = corpus(seed % 3, 12)
    drawn = list(batches(examples, batch_frames, np.random.default_rng(seed)))
    assert sorted(np.concatenate(drawn).tolist()) == list(range(12))
    assert all(len(batch) for batch in drawn)


@given(st.integers(0, 10_000))
def test_variations_keep_the_reference_with_its_frames(seed: int) -> None:
    rng = np.random.default_rng(seed)
    example = make_example(rng, int(rng.integers(2, 6)), noise=0.0)
    for trim in (trim_start, trim_end):
        trimmed = trim(example, rng)
        # without noise the frame says its class
        np.testing.assert_array_equal(trimmed.frames.argmax(axis=1), trimmed.codes[trimmed.phone_of_frame])
        assert len(trimmed.starts) == len(trimmed.codes) == len(trimmed.descriptors) == len(trimmed.silent)
        spoken = example.codes[example.codes > 0]
        np.testing.assert_array_equal(trimmed.codes[trimmed.codes > 0], spoken)
    longer = lengthen_silences(example, rng)
    added = len(longer.frames) - len(example.frames)
    is_own = longer.frames.argmax(axis=1) == longer.codes[longer.phone_of_frame]
    quietest = (longer.frames == example.frames.min(axis=0)).all(axis=1)
    assert added >= 0
    assert np.all(is_own | quietest)
    lengths, before = (np.diff(e.starts, append=float(len(e.frames))) for e in (longer, example))
    np.testing.assert_allclose(lengths[~example.silent], before[~example.silent])
    np.testing.assert_allclose((lengths - before).sum(), added)
    varied = vary(example, rng)
    assert varied.frames.shape[1] == example.frames.shape[1]
    assert np.isfinite(varied.frames).all()
    assert len(varied.starts) <= len(varied.frames)


def test_frames_are_changed_in_a_copy() -> None:
    frames = np.cumsum(np.random.default_rng(0).normal(size=(30, 26)), axis=1).astype(np.float32)
    before = frames.copy()
    changed = [change_frames(frames, np.random.default_rng(seed)) for seed in range(30)]
    np.testing.assert_array_equal(frames, before)
    assert all(c.dtype == np.float32 and c.shape == frames.shape for c in changed)
    assert all(np.corrcoef(c.ravel(), frames.ravel())[0, 1] > 0.4 for c in changed)
    assert change_frames(frames[:, :1], np.random.default_rng(0)).shape == (30, 1)
