"""The loss-gradient theorem by Monte Carlo: the direct update tends to the gradient of the expected loss.

    d/dw E L(y, y_w(x)) = lim (1/eps) E[ phi(x, y_w) - phi(x, y_direct) ],     y_direct = argmax w.phi - eps L

(and with the other sign, away from worse). Inputs are Gaussian, so that E L is smooth although L is not. The
left side is a central difference along a direction v with common random numbers: both sides are means over
the same examples, and so is their difference, which must vanish within four of its standard errors. The
derivative itself is many standard errors away from 0: a wrong sign, or a wrong power of eps, would not pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from scored_chains import value_and_gradient
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.losses.labelings import Hamming, Loss, WeightedHamming, ZeroOne
from trellis.objectives import Direct
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.chain_scores import ChainScores

EPSILON = 0.03
SIGNS = ["better", "worse"]
CHAIN = Chain()


@dataclass
class Weights:
    """Linear scores: unary[t] = x[t] @ features, transitions shared."""

    features: np.ndarray
    transitions: np.ndarray

    def moved(self, by: Weights, step: float) -> Weights:
        return Weights(self.features + step * by.features, self.transitions + step * by.transitions)

    def scaled(self, factor: float) -> Weights:
        return Weights(factor * self.features, factor * self.transitions)

    @property
    def norm(self) -> float:
        return float(np.sqrt(np.sum(self.features**2) + np.sum(self.transitions**2)))


@dataclass
class World:
    """Sequences of ``n`` Gaussian inputs; gold labels are those of a teacher who sees them through noise."""

    n: int
    n_labels: int
    forbidden: np.ndarray  # (K, K) 0 or -inf
    loss: Loss

    def scores(self, x: np.ndarray, weights: Weights) -> ChainScores:
        """Transitions repeated at every step, so that gradients come one by one."""
        steps = len(x)
        a = np.broadcast_to(weights.transitions + self.forbidden, (steps, self.n_labels, self.n_labels))
        return ChainScores.of(x @ weights.features, a, lengths=np.full(steps // self.n, self.n))

    def draw(self, size: int, teacher: Weights, rng: np.random.Generator) -> tuple[np.ndarray, EncodedLabels]:
        x = rng.normal(size=(size * self.n, len(teacher.features)))
        noisy = self.scores(x, teacher)
        best = CHAIN.best(noisy.with_unary(noisy.unary + 0.5 * rng.normal(size=noisy.unary.shape)))
        return x, EncodedLabels(best.labels, None, noisy.offsets)

    def direct(
        self, x: np.ndarray, gold: EncodedLabels, weights: Weights, along: Weights, sign: str, epsilon: float
    ) -> np.ndarray:
        """<direct update, along> of each example, through the library's objective."""
        objective = Direct(epsilon=epsilon, sign=sign)  # type: ignore[arg-type]
        labels = LabelSet(range(self.n_labels))
        _, parts = value_and_gradient(objective, self.scores(x, weights), gold, self.loss, labels)
        per_step = np.sum(parts.unary * (x @ along.features), axis=1)
        per_step += np.sum(parts.transitions * along.transitions, axis=(1, 2))
        return per_step.reshape(-1, self.n).sum(axis=1)

    def gradient(self, x: np.ndarray, gold: EncodedLabels, weights: Weights) -> Weights:
        """A rough gradient of the expected loss, to choose a direction by."""
        labels = LabelSet(range(self.n_labels))
        _, parts = value_and_gradient(Direct(epsilon=0.3), self.scores(x, weights), gold, self.loss, labels)
        return Weights(x.T @ parts.unary, parts.transitions.sum(axis=0))

    def losses(self, x: np.ndarray, gold: EncodedLabels, weights: Weights) -> np.ndarray:
        best = CHAIN.best(self.scores(x, weights)).labels
        return self.loss.per_sequence(gold, best, LabelSet(range(self.n_labels)))


def within(error: np.ndarray, n_errors: float = 4.0) -> bool:
    """Whether the mean of ``error`` is 0 within its standard error."""
    return abs(error.mean()) <= n_errors * error.std() / np.sqrt(len(error))


COSTS = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 1.0], [2.0, 1.0, 0.0]])
FREE = np.zeros((3, 3))
NO_DESCENT = np.where(np.arange(3)[:, None] > np.arange(3), -np.inf, 0.0)  # labels never fall along the chain
WORLDS = {
    "multiclass": (World(1, 3, FREE, WeightedHamming(COSTS)), 400_000),
    "chain": (World(3, 3, FREE, Hamming()), 250_000),
    "chain_zero_one": (World(3, 3, FREE, ZeroOne()), 250_000),
    "constrained_chain": (World(3, 3, NO_DESCENT, WeightedHamming(COSTS)), 250_000),
}


@pytest.mark.parametrize("name", WORLDS)
def test_direct_update_is_the_gradient_of_the_expected_loss(name: str) -> None:
    world, size = WORLDS[name]
    rng = np.random.default_rng(sum(name.encode()))
    teacher, weights = (Weights(rng.normal(size=(2, 3)), rng.normal(size=(3, 3))) for _ in range(2))
    rough = world.gradient(*world.draw(20_000, teacher, rng), weights)
    along = rough.scaled(1 / rough.norm)
    x, gold = world.draw(size, teacher, rng)
    ahead, behind = (world.losses(x, gold, weights.moved(along, s * EPSILON)) for s in (0.5, -0.5))
    difference = (ahead - behind) / EPSILON
    for sign in SIGNS:
        direct = world.direct(x, gold, weights, along, sign, EPSILON)
        assert within(difference - direct), sign
        # The test can fail: it has the power to tell the theorem from its likely misprints.
        assert not within(difference + direct), "the sign"
        assert not within(difference - 2 * direct), "a factor of two"
        assert not within(difference - EPSILON * direct), "1 / eps"


@pytest.mark.parametrize("sign", SIGNS)
def test_two_classes_have_the_exact_gradient(sign: str) -> None:
    """Two classes told apart by the sign of u.x: E L is the angle between u and the teacher's u*, over pi.

    Turning u away from u* by a step v, perpendicular to u, raises the angle by |v| / |u|.
    """
    rng = np.random.default_rng(1)
    size, angle, length = 400_000, 1.0, 1.5
    x = rng.normal(size=(size, 2))
    codes = (x[:, 0] > 0).astype(np.int32)  # u* = (1, 0)
    u = length * np.array([np.cos(angle), np.sin(angle)])
    v = np.array([-np.sin(angle), np.cos(angle)])
    world = World(1, 2, np.zeros((2, 2)), Hamming())
    gold = EncodedLabels(codes, None, np.arange(size + 1))
    weights, along = (Weights(np.stack([-z / 2, z / 2], axis=1), np.zeros((2, 2))) for z in (u, v))
    assert within(world.losses(x, gold, weights) - angle / np.pi)
    direct = world.direct(x, gold, weights, along, sign, EPSILON)
    exact = 1 / (np.pi * length)
    assert within(direct - exact)
    assert not within(direct - 1.2 * exact), "the test tells 20% apart"
