"""Decoding by expected loss against enumeration: no other allowed labelling is expected to cost less."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tagging import noisy_words, spans
from trellis import MEMM, SequenceLabeler, losses
from trellis.core.errors import UnsupportedError
from trellis.data.constraints import legal_transitions
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.structures.chain.labeler.minimum_risk import minimum_risk
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.scores.chain_scores import ChainScores

NOTHING = -np.inf
TAGS = LabelSet(["B-P", "I-P", "O"])


class FirstCounts(losses.Loss):
    """A loss of the user's own: a wrong first label costs 3, and I for O half."""

    name = "first_counts"
    kind = "costs"

    def costs(self, gold: EncodedLabels, labels: LabelSet) -> Any:
        table = 1.0 - np.eye(len(labels))
        table[2, 1] = 0.5
        costs = table[gold.codes]
        costs[gold.offsets[:-1][np.diff(gold.offsets) > 0]] *= 3.0
        return costs


SUMS = [
    losses.Hamming(),
    losses.WeightedHamming({("B-P", "O"): 4.0, ("O", "I-P"): 0.0}, class_weight={"I-P": 2.0}),
    losses.WeightedHamming([[0, 1, 5], [2, 0, 1], [0, 0, 0]], position_weight=lambda n: np.arange(n) % 2),
    FirstCounts(),
]
WHOLE = [
    losses.ZeroOne(),
    losses.Custom(function=lambda gold, found: abs(len(set(gold)) - len(set(found))), n_candidates=27),
]


def _different(gold: list[str], found: list[str]) -> float:
    return float(gold != found) + float(gold[:1] != found[:1])


@st.composite
def constrained(draw: st.DrawFn, longest: int = 4) -> tuple[ChainScores, LatentLabels]:
    """One sequence of some steps over three labels, of one or two states each, with random allowed pairs,
    starts, ends and labels; some labelling is allowed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = np.array(draw(st.sampled_from([[1, 1, 1], [2, 1, 2]])), dtype=np.int64)
    latent, n, h = LatentLabels(TAGS, counts), draw(st.integers(1, longest)), int(counts.sum())
    share = draw(st.sampled_from([0.0, 0.2, 0.5]))

    def scores(*shape: int) -> np.ndarray:
        values = rng.integers(-1, 2, shape) if draw(st.booleans()) else 2.0 * rng.normal(size=shape)
        return np.where(rng.random(shape) < share, NOTHING, values)

    chain = ChainScores.of(
        scores(n, h), scores(*((h, h) if draw(st.booleans()) else (n, h, h))), scores(h), scores(h)
    )
    if not (Enumeration.of(chain).scores > NOTHING).any():  # allow one path
        chain.unary[:, 0] = chain.start[0] = chain.end[0] = chain.transitions[:, 0, 0] = 0.0
    return chain, latent


def labellings(chain: ChainScores, latent: LatentLabels) -> tuple[np.ndarray, np.ndarray]:
    """The allowed labellings by labels, in the order of the tie rule, and their probabilities."""
    every = Enumeration.of(chain)
    p, allowed = every.probabilities(), every.scores > NOTHING
    by_label = latent.collapse(every.labellings)[allowed]
    distinct, which = np.unique(by_label, axis=0, return_inverse=True)
    return distinct.astype(np.int32), np.bincount(which.ravel(), weights=p[allowed], minlength=len(distinct))


def expected_losses(loss: losses.Loss, found: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Of each labelling, if any of them may be the true one with the probability ``p``."""
    offsets = found.shape[1] * np.arange(len(found) + 1, dtype=np.int64)
    every = EncodedLabels(found.ravel(), None, offsets)
    return np.array([loss.per_sequence(every, np.tile(y, len(found)), TAGS) @ p for y in found])


@st.composite
def tagged(draw: st.DrawFn) -> tuple[ChainScores, LatentLabels]:
    """Scores of up to six steps under the grammar of "bio"; some labels may be known, or sets of them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, ties = draw(st.integers(1, 6)), draw(st.booleans())
    unary = rng.integers(-1, 2, (n, 3)).astype(float) if ties else 2.0 * rng.normal(size=(n, 3))
    legal = legal_transitions("bio", TAGS)
    chain = ChainScores.of(
        unary,
        np.where(legal.pair, 0.0 if ties else rng.normal(size=(3, 3)), NOTHING),
        np.where(legal.start, 0.0, NOTHING),
    )
    known = chain.restricted(rng.random((n, 3)) < draw(st.sampled_from([0.6, 1.0])))
    possible = (Enumeration.of(known).scores > NOTHING).any()
    return known if possible else chain, LatentLabels.of(TAGS, 1)


@given(constrained() | tagged(), st.sampled_from([*SUMS, losses.SpanF1()]))
def test_losses_whose_expectation_is_known(case: tuple[ChainScores, LatentLabels], loss: losses.Loss) -> None:
    """Sums over steps and span F1; with latent states as well."""
    found, p = labellings(*case)
    ours = minimum_risk(Chain(), *case, loss)
    risks = expected_losses(loss, found, p)
    mine = np.flatnonzero((found == ours).all(axis=1))
    assert mine.size == 1  # one of those that are allowed
    np.testing.assert_allclose(risks[mine[0]], risks.min(), atol=1e-9)


@settings(max_examples=40)
@given(constrained(longest=3), st.sampled_from(WHOLE))
def test_losses_of_whole_labellings(case: tuple[ChainScores, LatentLabels], loss: losses.Loss) -> None:
    """With as many candidates as there are labellings, the answer is exact as well."""
    chain, latent = case
    if not latent.plain:
        with pytest.raises(UnsupportedError, match="several latent states"):
            minimum_risk(Chain(), chain, latent, loss)
        return
    found, p = labellings(chain, latent)
    risks = expected_losses(loss, found, p)
    mine = np.flatnonzero((found == minimum_risk(Chain(), chain, latent, loss)).all(axis=1))
    assert mine.size == 1
    np.testing.assert_allclose(risks[mine[0]], risks.min(), atol=1e-9)


def test_several_sequences_at_once_and_few_candidates() -> None:
    """Sequences with fewer labellings than candidates, and of no steps, stand beside others."""
    rng = np.random.default_rng(0)
    lengths = [3, 0, 1, 4]
    chain = ChainScores.of(rng.normal(size=(8, 3)), rng.normal(size=(3, 3)), lengths=lengths)
    latent, loss = LatentLabels.of(TAGS, 1), losses.Custom(function=_different, n_candidates=5)
    together = np.split(minimum_risk(Chain(2), chain, latent, loss), chain.offsets[1:-1])
    for i, n in enumerate(lengths):
        a = chain.offsets[i]
        one = ChainScores.of(chain.unary[a : a + n], chain.transitions)
        np.testing.assert_array_equal(together[i], minimum_risk(Chain(), one, latent, loss))


def violations(y: list[list[str]], constraints: Any, labels: LabelSet) -> int:
    legal = legal_transitions(constraints, labels)
    codes = [[labels.labels.index(k) for k in row] for row in y]
    pairs = sum(not legal.pair[a, b] for row in codes for a, b in pairwise(row))
    return pairs + sum(not (legal.start[row[0]] and legal.end[row[-1]]) for row in codes if row)


@pytest.mark.parametrize(
    "model",
    [
        SequenceLabeler(constraints="bio", max_iter=3),
        SequenceLabeler(constraints="bio", max_iter=3, latent_states=2, random_state=0),
        SequenceLabeler("margin", losses.WeightedHamming({("O", "I-P"): 0.0}), constraints="bio", max_iter=3),
        SequenceLabeler("margin", "span_f1", constraints="bio", max_iter=2, random_state=0),
        SequenceLabeler("log", "span_f1", constraints="bio", max_iter=3, latent_states=2, random_state=0),
        MEMM(constraints="bio", max_iter=3),
    ],
    ids=["crf", "latent", "weighted", "span_f1", "latent_span_f1", "memm"],
)
def test_no_labeller_breaks_its_constraints(model: Any) -> None:
    X, y = spans(60, seed=3)
    model.fit(X, y)
    noise = [["noise"] * 9, ["P10", "L10", "P10"], *spans(60, seed=4)[0]]
    found = model.predict(noise, decoding="minimum_risk")
    assert [len(row) for row in found] == [len(x) for x in noise]
    assert violations(found, "bio", model.labels_) == 0
    if isinstance(model, SequenceLabeler) and model.objective == "margin":
        return
    single = [[list(model.classes_)[k] for k in m.argmax(axis=1)] for m in model.predict_marginals(noise)]
    assert violations(single, "bio", model.labels_) > 0  # the task is one where it matters


def test_one_label() -> None:
    one = ChainScores.of(np.zeros((3, 1)), np.zeros((1, 1)))
    for name, loss in (("O", losses.SpanF1()), ("B-P", losses.SpanF1()), ("x", losses.Hamming())):
        latent = LatentLabels.of(LabelSet([name]), 1)
        assert minimum_risk(Chain(), one, latent, loss).tolist() == [0, 0, 0]


def test_what_only_training_knows_is_refused() -> None:
    X, y = noisy_words(20)
    for loss, words in (
        (losses.WeightedHamming(class_weight="balanced"), "class_weight='balanced' of the loss"),
        (losses.WeightedHamming(position_weight=[np.ones(len(x)) for x in X]), "a function of the length"),
    ):
        model = SequenceLabeler("margin", loss, max_iter=2).fit(X, y)
        with pytest.raises(UnsupportedError, match=words):
            model.predict(X, decoding="minimum_risk")
