"""Both certificates of the DC algorithm for three problems: neither ever rises.

EM for a hidden Markov model, EM for a Gaussian mixture, and the concave-convex procedure for a robust
regression run through the same solver. The picture shows how far primal and dual are above their limit.

    python examples/em_certificates.py [certificates.png]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from trellis import HMM, emissions
from trellis.hmm import fit_mixture
from trellis.report.figures import DIM, GRID, INK, STYLE, WRONG, new_figure
from trellis.training import minimise_dc
from trellis.training.robust_regression import TruncatedLeastSquares

OUTPUT = Path("demo_output/em_certificates.png")
SHOWN = 1e-6  # of the first distance: below, rounding and the unknown limit spoil the picture
MOST = 60  # iterations: more cannot be told apart

History = dict[str, list[float]]


def hidden_markov_model(rng: np.random.Generator) -> History:
    """Three states that tend to stay, six symbols, 40 sequences of 50 steps; the states are not given."""
    transitions = 0.85 * np.eye(3) + 0.05
    symbols = np.array([[8, 4, 1, 1, 1, 1], [1, 1, 8, 4, 1, 1], [1, 1, 1, 1, 6, 6]]) / 16
    X = []
    for _ in range(40):
        state, sequence = int(rng.integers(3)), []
        for _ in range(50):
            sequence.append(rng.choice(6, p=symbols[state]))
            state = rng.choice(3, p=transitions[state])
        X.append(np.array(sequence))
    hmm = HMM(3, emission=emissions.Categorical(6), max_iter=2000, tol=1e-9, random_state=0).fit(X)
    history: History = hmm.history_
    return history


def gaussian_mixture(rng: np.random.Generator) -> History:
    """Three clouds that touch; each row starts with the nearest of three rows drawn at random."""
    centres = np.array([[0.0, 0.0], [4.0, 1.0], [0.0, 4.0]])
    X = centres[rng.integers(3, size=500)] + rng.normal(size=(500, 2))
    distances = ((X[:, None] - X[rng.choice(500, size=3, replace=False)]) ** 2).sum(axis=2)
    start = np.eye(3)[distances.argmin(axis=1)]
    return fit_mixture(X, emissions.Gaussian("full"), start, max_iter=5000, tol=1e-13).history


def robust_regression(rng: np.random.Generator) -> History:
    """A plane in five dimensions, a third of the rows wrong, from least squares."""
    X = rng.normal(size=(300, 5))
    y = X @ rng.normal(size=5) + 0.2 * rng.normal(size=300)
    y[:100] += rng.normal(scale=5.0, size=100)
    problem = TruncatedLeastSquares(X, y, threshold=0.6, ridge=0.0, intercept=True)
    return minimise_dc(problem, problem.least_squares(y), max_iter=2000, tol=1e-13).history


def draw(histories: dict[str, History], path: Path) -> None:
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure = new_figure(10, 3.2)
        axes = figure.subplots(1, len(histories))
        for axis, (name, history) in zip(axes, histories.items(), strict=True):
            draw_certificates(axis, name, np.array(history["primal"]), np.array(history["dual"]))
        axes[0].set_ylabel("above the limit")
        axes[0].legend(frameon=False, loc="lower left")
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=100)


def draw_certificates(axis: Any, name: str, primal: np.ndarray, dual: np.ndarray) -> None:
    above, below = primal[:-1] - primal[-1], dual - primal[-1]
    small = below < SHOWN * above[0]
    last = min(int(small.argmax()) if small.any() else len(below), MOST)
    step = np.arange(last)
    both = np.ravel(np.column_stack([above, below]))[: 2 * last]
    axis.semilogy(np.arange(2 * last) / 2, both, color=GRID, zorder=1)
    axis.semilogy(step, above[:last], "o", color=INK, markersize=3, label="primal, g(u) - h(u)")
    axis.semilogy(step + 0.5, below[:last], "o", color=WRONG, markersize=3, label="dual, h*(v) - g*(v)")
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("iteration", color=DIM)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    histories = {
        "EM, hidden Markov model": hidden_markov_model(np.random.default_rng(0)),
        "EM, Gaussian mixture": gaussian_mixture(np.random.default_rng(5)),
        "CCCP, robust regression": robust_regression(np.random.default_rng(0)),
    }
    for name, history in histories.items():
        bounds = np.ravel(np.column_stack([history["primal"][:-1], history["dual"]]))
        rise = max(0.0, float(np.diff(bounds).max()))
        print(f"{name}: {len(history['dual'])} iterations, largest rise of a certificate {rise:.1e}")
    draw(histories, path)
    print(f"picture written to {path}")


if __name__ == "__main__":
    main()
