"""A picture of a noisy image and its labellings: pixels alone, a grid, and how sure the grid is.

python examples/graph_denoising.py [picture.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from trellis import Graph, GraphLabeler
from trellis.report.figures import new_figure


def images(n: int, side: int, rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Grey values and the shapes under them."""
    shapes = [(gaussian_filter(rng.normal(size=(side, side)), 2.0) > 0).astype(int) for _ in range(n)]
    return [2.0 * y - 1.0 + rng.normal(0.0, 1.3, y.shape) for y in shapes], shapes


def main() -> None:
    rng = np.random.default_rng(3)
    grey, shapes = images(20, 14, rng)
    grid = GraphLabeler("margin", l2=20.0, random_state=0).fit([Graph.grid(x) for x in grey], shapes)
    alone = GraphLabeler("log", random_state=0).fit(
        [Graph(x.reshape(-1, 1), shape=x.shape) for x in grey], shapes
    )
    (x,), (y,) = images(1, 40, rng)
    whole = Graph.grid(x)
    (by_grid,) = grid.predict([whole])
    (by_pixel,) = alone.predict([Graph(x.reshape(-1, 1), shape=x.shape)])
    sure = grid.predict_marginals([whole], inference="tree_reweighted")[0][:, 1].reshape(y.shape)
    print(grid.status_)
    print(f"wrong pixels: alone {np.mean(by_pixel != y):.3f}, grid {np.mean(by_grid != y):.3f}")
    if len(sys.argv) > 1:
        picture(
            Path(sys.argv[1]),
            {
                "grey values": x,
                f"pixels alone: {100 * np.mean(by_pixel != y):.0f}% wrong": by_pixel,
                f"grid: {100 * np.mean(by_grid != y):.0f}% wrong": by_grid,
                "P(white), tree-reweighted": sure,
                "the shape": y,
            },
        )


def picture(path: Path, panels: dict[str, np.ndarray]) -> None:
    figure = new_figure(3 * len(panels), 3.3)
    axes = figure.subplots(1, len(panels))
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        axis.imshow(values, cmap="gray", interpolation="nearest")
        axis.set_title(title, fontsize=11)
        axis.set_xticks(())
        axis.set_yticks(())
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
