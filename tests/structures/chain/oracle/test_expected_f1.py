"""The largest expected span F1 against enumeration, and each of the pieces that find it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import losses
from trellis.core.errors import DataError, InfeasibleError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.losses.metrics import in_one_span, in_spans, span_tags, spans
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.oracle.expected_f1 import best_expected_f1, quadrature
from trellis.structures.chain.oracle.span_choice_kernels import best_spans
from trellis.structures.chain.oracle.span_mass_kernels import tilted_masses
from trellis.structures.chain.scores.chain_scores import ChainScores

NOTHING = -np.inf
LABELS = [
    ["B-P", "I-P", "O"],
    ["I-P", "O", "I-Q"],
    ["B-P", "I-P", "E-P", "S-P", "O"],
    ["B-P", "B-Q", "I-P", "O"],
    ["I-P", "B-P"],  # never without a span
    ["O"],
    ["B"],
]


class Case(NamedTuple):
    scores: ChainScores
    latent: LatentLabels


@st.composite
def span_chains(draw: st.DrawFn, longest: int = 4) -> Case:
    """One sequence over span labels, of one or two states each, with random scores, ties and prohibitions;
    some labelling is allowed."""
    names = draw(st.sampled_from(LABELS))
    counts = np.ones(len(names), dtype=np.int64)
    counts[0] += draw(st.sampled_from([0, 0, 1])) if len(names) < 5 else 0
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, h = draw(st.integers(1, longest)), int(counts.sum())
    share, ties, size = (
        draw(st.sampled_from([0.0, 0.2, 0.5])),
        draw(st.booleans()),
        draw(st.sampled_from([1, 3, 50])),
    )

    def scores(*shape: int) -> np.ndarray:
        values = rng.integers(-1, 2, shape) if ties else size * rng.normal(size=shape)
        return np.where(rng.random(shape) < share, NOTHING, values)

    chain = ChainScores.of(
        scores(n, h), scores(*((h, h) if draw(st.booleans()) else (n, h, h))), scores(h), scores(h)
    )
    if not (Enumeration.of(chain).scores > NOTHING).any():
        chain.unary[:, 0] = chain.start[0] = chain.end[0] = chain.transitions[:, 0, 0] = 0.0
    return Case(chain, LatentLabels(LabelSet(names), counts))


def labellings(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """The allowed labellings by labels, and their probabilities."""
    every = Enumeration.of(case.scores)
    allowed = every.scores > NOTHING
    found, which = np.unique(case.latent.collapse(every.labellings)[allowed], axis=0, return_inverse=True)
    shares = np.bincount(which.ravel(), weights=every.probabilities()[allowed], minlength=len(found))
    return found.astype(np.int32), shares


def expected_f1(case: Case, guesses: np.ndarray, found: np.ndarray, p: np.ndarray) -> np.ndarray:
    offsets = np.arange(len(guesses) + 1) * guesses.shape[1]
    total = np.zeros(len(guesses))
    for gold, share in zip(found, p, strict=True):
        every = EncodedLabels(np.tile(gold, len(guesses)), None, offsets)
        total += share * (1 - losses.SpanF1().per_sequence(every, guesses.ravel(), case.latent.labels))
    return total


def span_sets(y: np.ndarray, labels: LabelSet) -> list[set[tuple[int, int, int]]]:
    tags, types, _ = span_tags(labels.labels)
    return [
        {
            tuple(int(v) for v in span)
            for span in zip(*spans(tags[row], types[row], np.array([0, len(row)])), strict=True)
        }
        for row in y
    ]


@given(span_chains())
def test_no_allowed_labelling_has_a_larger_expected_f1(case: Case) -> None:
    found, p = labellings(case)
    values = expected_f1(case, found, found, p)
    ours = best_expected_f1(*case)
    mine = np.flatnonzero((found == ours.labels).all(axis=1))
    assert mine.size == 1  # one of those that are allowed
    np.testing.assert_allclose(values[mine[0]], values.max(), atol=1e-10)
    np.testing.assert_allclose(ours.values[0], values.max(), atol=1e-10)


@given(span_chains())
def test_of_labellings_with_the_same_spans_the_most_probable_is_taken(case: Case) -> None:
    if not case.latent.plain:
        return
    found, p = labellings(case)
    ours = best_expected_f1(*case).labels
    same = [s == span_sets(ours[None], case.latent.labels)[0] for s in span_sets(found, case.latent.labels)]
    mine = (found == ours).all(axis=1)
    assert p[mine][0] >= p[same].max() - 1e-12


def rules(latent: LatentLabels) -> tuple:
    tags, types, names = span_tags(latent.labels.labels)
    tags, types = tags[latent.label_of], types[latent.label_of]
    joins = in_one_span(tags[:, None], types[:, None], tags, types)
    return in_spans(tags), types, len(names), joins, *np.nonzero(joins)


@given(span_chains())
def test_masses_of_spans(case: Case) -> None:
    """E[x^g 1[s]] of every span that can be, and the expected number of spans."""
    found, p = labellings(case)
    sets, x = span_sets(found, case.latent.labels), np.array([1.0, 0.5, 0.01])
    scores = case.scores
    listed, masses, expected, _ = tilted_masses(
        scores.unary, scores.transitions, scores.start, scores.end, *rules(case.latent), x, 1e-13
    )
    number = np.array([len(one) for one in sets])
    np.testing.assert_allclose(expected, number @ p, atol=1e-12)
    ours = {tuple(map(int, span)): mass for span, mass in zip(listed, masses, strict=True)}
    for span in set().union(*sets):
        there = np.array([span in one for one in sets])
        wanted = [(there * p * y**number).sum() for y in x]
        np.testing.assert_allclose(ours.get(span, np.zeros(3)), wanted, atol=1e-12)


@given(span_chains(), st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 0.3, -0.2]))
def test_the_best_spans_of_each_number(case: Case, seed: int, ties: bool, price: float) -> None:
    """The programme that counts spans, and the free one with a price, under any rewards."""
    found, _ = labellings(case)
    sets, rng = span_sets(found, case.latent.labels), np.random.default_rng(seed)
    every = sorted(set().union(*sets))
    listed = [span for span in every if rng.random() < 0.8]
    rewards = rng.integers(0, 3, len(listed)) / 2 if ties else rng.random(len(listed))
    worth = dict(zip(listed, rewards.tolist(), strict=True))
    totals = np.array([sum((worth.get(s, 0.0) for s in one), 0.0) for one in sets])
    number = np.array([len(one) for one in sets])
    scores, (inside, kinds, _, joins, before, after) = case.scores, rules(case.latent)
    n = len(scores.unary)
    first_of, kind_at = np.empty(n, np.int64), np.empty(n, np.int64)

    def solve(count: int) -> tuple[float, int]:
        return best_spans(
            scores.unary, scores.transitions, scores.start, scores.end, inside, kinds, joins, before, after,
            np.array(listed, np.int64).reshape(-1, 3), rewards, 0.0 if count >= 0 else price, count,
            first_of, kind_at,
        )  # fmt: skip

    for count in range(n + 1):
        value, _ = solve(count)
        wanted = totals[number == count].max(initial=NOTHING)
        np.testing.assert_allclose(value, wanted, atol=1e-12)
    value, used = solve(-1)
    np.testing.assert_allclose(value, (totals - price * number).max(), atol=1e-12)
    starts = [t for t in range(n) if first_of[t] == t and kind_at[t] >= 0]
    assert used == len(starts)
    ends = [max(t for t in range(n) if first_of[t] == a) for a in starts]
    chosen = {(a, b, int(kind_at[a])) for a, b in zip(starts, ends, strict=True)}
    assert chosen in sets
    np.testing.assert_allclose(sum(worth.get(s, 0.0) for s in chosen) - price * used, value, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 30, 64, 500, 2048])
def test_the_quadrature_integrates_powers(n: int) -> None:
    nodes, weights = quadrature(n)
    assert len(nodes) <= n
    powers = np.arange(1, 2 * n + 1)
    np.testing.assert_allclose(powers * (weights @ nodes[:, None] ** (powers - 1)), 1.0, rtol=2e-11)


def test_long_sequences_beat_their_neighbours() -> None:
    """Eighty steps are too many to enumerate: the value is that of samples, within their error, and neither
    Viterbi nor the labelling with one span more or less has a larger one on the same samples."""
    rng = np.random.default_rng(5)
    labels = LabelSet(["B-P", "B-Q", "I-P", "I-Q", "O"])
    scores = ChainScores.of(rng.normal(size=(80, 5)), rng.normal(size=(5, 5)))
    latent = LatentLabels.of(labels, 1)
    ours = best_expected_f1(scores, latent)
    drawn = Chain().sample(scores, 600, np.random.default_rng(0))
    offsets = np.arange(len(drawn) + 1) * 80

    def f1(y: np.ndarray) -> np.ndarray:
        gold = EncodedLabels(drawn.ravel(), None, offsets)
        return 1 - losses.SpanF1().per_sequence(gold, np.tile(y, len(drawn)), labels)

    mine = f1(ours.labels)
    error = mine.std() / np.sqrt(len(mine))
    assert abs(mine.mean() - ours.values[0]) < 4 * error
    assert mine.mean() > f1(Chain().best(scores).labels).mean()
    for t in range(0, 80, 4):
        other = ours.labels.copy()
        other[t] = 4 if other[t] != 4 else 0
        gain = f1(other) - mine
        assert gain.mean() < 4 * gain.std() / np.sqrt(len(gain)) + 1e-12


def test_batches_threads_and_empty_sequences() -> None:
    rng = np.random.default_rng(0)
    lengths = [3, 0, 1, 9, 4]
    scores = ChainScores.of(rng.normal(size=(17, 3)), rng.normal(size=(3, 3)), lengths=lengths)
    latent = LatentLabels.of(LabelSet(["B-P", "I-P", "O"]), 1)
    together = best_expected_f1(scores, latent, 2)
    assert together.values[1] == 1.0
    for i, (a, b) in enumerate(pairwise(scores.offsets)):
        one = best_expected_f1(ChainScores.of(scores.unary[a:b], scores.transitions), latent)
        np.testing.assert_array_equal(together.labels[a:b], one.labels)
        np.testing.assert_allclose(together.values[i], one.values[0], atol=1e-12)


def test_what_cannot_be_is_said() -> None:
    latent = LatentLabels.of(LabelSet(["B-P", "O"]), 1)
    with pytest.raises(InfeasibleError, match="sequence 0 has no allowed labelling"):
        best_expected_f1(ChainScores.of(np.full((2, 2), NOTHING), np.zeros((2, 2))), latent)
    with pytest.raises(DataError, match="label 'NN' is not a span label"):
        best_expected_f1(
            ChainScores.of(np.zeros((2, 1)), np.zeros((1, 1))), LatentLabels.of(LabelSet(["NN"]), 1)
        )
