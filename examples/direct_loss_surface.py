"""What the objectives look like from above: the task loss, the hinge, the ramp and f_eps along one direction.

Forty short sequences of two labels, seen through noise. Most keep their label for a while; a few, the
outliers, change it at every step. A chain has two weights, of the input and of staying; the input's is 1, and
the other runs along the axis. At each point the curves are means over steps, exact:

    task loss   L(y_hat)                                    y_hat = argmax s
    hinge       max (s + L) - s(y*)                         convex, above the loss
    ramp        max (s + L) - max s                         above the loss, not convex
    f_eps       [max (s + eps L) - max (s - eps L)] / 2 eps  between L(y-) and L(y+), and near the loss

    python examples/direct_loss_surface.py [PICTURE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trellis.structures.chain import Chain, ChainScores

SEQUENCES, OUTLIERS, STEPS = 40, 7, 8
STAY = 0.85  # the probability of keeping the label, in ordinary sequences
WEIGHTS = np.linspace(-1.0, 5.0, 601)
WIDTHS = (3.0, 1.0, 0.3)  # of eps, in units of the typical gap
INK, RED, GREEN, BLUES = "#222222", "#c0392b", "#2e8b57", ("#1f4e9c", "#3d84d6", "#69aeeb")
LABELS = (  # text, where it stands, and where its line leads, if it has one
    ("hinge", (2.28, 0.70), None, RED),
    ("ramp", (3.4, 0.392), None, GREEN),
    (r"$f_\epsilon$, $\epsilon$ = 3 gaps", (3.4, 0.300), None, BLUES[0]),
    (r"$f_\epsilon$, $\epsilon$ = 1 gap", (-0.1, 0.125), (0.72, 0.197), BLUES[1]),
    (r"$f_\epsilon$, $\epsilon$ = 0.3 gaps", (1.5, 0.125), (1.85, 0.215), BLUES[2]),
    ("task loss", (3.4, 0.175), (2.85, 0.226), INK),
)

Array = NDArray[np.float64]


def draw(seed: int) -> tuple[Array, NDArray[np.int32]]:
    """Inputs (N,), label 1 being positive, and gold labels (N,); the outliers come last."""
    rng = np.random.default_rng(seed)
    ordinary = np.cumsum(rng.random((SEQUENCES - OUTLIERS, STEPS)) > STAY, axis=1) + rng.integers(2)
    alternating = np.arange(STEPS) + rng.integers(2, size=(OUTLIERS, 1))
    gold = (np.concatenate([ordinary, alternating]) % 2).astype(np.int32)
    inputs = 2.0 * gold - 1.0 + rng.normal(0.0, 1.3, gold.shape)
    return inputs.ravel(), gold.ravel()


def scores(inputs: Array, staying: float, cost: Array, scale: float = 0.0) -> ChainScores:
    """The part scores of all sequences, with ``scale`` times the loss added."""
    unary = np.stack([-inputs, inputs], axis=1) / 2.0 + scale * cost
    return ChainScores.of(unary, staying * np.eye(2), lengths=[STEPS] * SEQUENCES)


def curves(inputs: Array, gold: NDArray[np.int32], epsilons: tuple[float, ...]) -> dict[str, Array]:
    """Each objective at every weight, as a mean over steps."""
    cost = 1.0 - np.eye(2)[gold]
    chain, steps = Chain(), len(gold)
    found: dict[str, list[float]] = {}
    for weight in WEIGHTS:
        best = chain.best(scores(inputs, weight, cost))
        augmented = chain.best(scores(inputs, weight, cost, 1.0)).scores.sum()
        values = {
            "loss": float((best.labels != gold).sum()),
            "hinge": augmented - chain.score(scores(inputs, weight, cost), gold).sum(),
            "ramp": augmented - best.scores.sum(),
        }
        for epsilon in epsilons:
            high, low = (
                chain.best(scores(inputs, weight, cost, e)).scores.sum() for e in (epsilon, -epsilon)
            )
            values[f"eps {epsilon:.2f}"] = (high - low) / (2.0 * epsilon)
        for name, value in values.items():
            found.setdefault(name, []).append(value / steps)
    return {name: np.array(values) for name, values in found.items()}


def typical_gap(inputs: Array, gold: NDArray[np.int32], weight: float) -> float:
    """The median of (s(y_hat) - s(y*)) / L(y_hat) over the sequences that are predicted wrongly."""
    parts, chain = scores(inputs, weight, np.zeros((len(gold), 2))), Chain()
    best = chain.best(parts)
    losses = (best.labels != gold).reshape(SEQUENCES, STEPS).sum(axis=1)
    gaps = best.scores - chain.score(parts, gold)
    return float(np.median(gaps[losses > 0] / losses[losses > 0]))


def draw_picture(path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    inputs, gold = draw(seed=3)
    start = WEIGHTS[curves(inputs, gold, ())["hinge"].argmin()]
    gap = typical_gap(inputs, gold, start)
    epsilons = tuple(width * gap for width in WIDTHS)
    found = curves(inputs, gold, epsilons)
    for name, values in found.items():
        at = values.argmin()
        print(f"{name:9} least at {WEIGHTS[at]:5.2f}: {values[at]:.3f}, the loss {found['loss'][at]:.3f}")
    plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(figsize=(6.4, 5.2), dpi=150, layout="constrained")
    wide, middle, narrow = (f"eps {epsilon:.2f}" for epsilon in epsilons)
    axes.step(WEIGHTS, found["loss"], color=INK, linewidth=1.2, where="mid", zorder=3)
    for name, colour in {
        "hinge": RED,
        "ramp": GREEN,
        wide: BLUES[0],
        middle: BLUES[1],
        narrow: BLUES[2],
    }.items():
        axes.plot(WEIGHTS, found[name], color=colour, linewidth=2.0)
    for name, colour in {"loss": INK, "hinge": RED, "ramp": GREEN, wide: BLUES[0], middle: BLUES[1]}.items():
        at = found[name].argmin()
        axes.plot(
            WEIGHTS[at], found[name][at], "o", color=colour, markersize=7, markeredgecolor="white", zorder=4
        )
    for text, place, target, colour in LABELS:
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.8}
        axes.annotate(
            text, target or place, place, color=colour, va="center", arrowprops=line if target else None
        )
    axes.set(xlim=(-1.0, 5.0), ylim=(0.08, 0.82), xlabel="weight of staying", ylabel="mean over steps")
    axes.grid(color="#e5e5e5", linewidth=0.8)
    figure.savefig(path)


if __name__ == "__main__":
    draw_picture(Path(sys.argv[1] if len(sys.argv) > 1 else "direct-loss-surface.png"))
