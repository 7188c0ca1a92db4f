"""
Cleaning a noisy image: pixels alone, and as a grid
===================================================

Each pixel of a black-and-white shape is observed as a grey value with heavy noise. A structural SVM on a
grid learns from small images how much to trust a grey value and how much its neighbours, and labels a
longer image. Its marginals show where it is unsure.
"""

# %%
# Twenty images of 14 by 14 pixels to learn from, and a strip of 14 by 60 to label.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from trellis import Graph, GraphLabeler

rng = np.random.default_rng(3)


def images(n: int, width: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Grey values and the shapes under them."""
    shapes = [(gaussian_filter(rng.normal(size=(14, width)), 2.0) > 0).astype(int) for _ in range(n)]
    return [2.0 * y - 1.0 + rng.normal(0.0, 1.3, y.shape) for y in shapes], shapes


def single(x: np.ndarray) -> Graph:
    """Pixels without edges between them."""
    return Graph(x.reshape(-1, 1), shape=x.shape)


grey, shapes = images(20, 14)
(x,), (y,) = images(1, 60)

# %%
# The grid is trained with the margin objective, the single pixels with the likelihood. ``status_`` says how
# training ended.

grid = GraphLabeler("margin", l2=20.0, random_state=0).fit([Graph.grid(image) for image in grey], shapes)
alone = GraphLabeler("log", random_state=0).fit([single(image) for image in grey], shapes)
print(grid.status_)

# %%
# For a grid 14 pixels high, the marginals are exact: a junction tree has cliques of about 15 pixels. (A
# large square image would be refused, unless you ask for an approximation by name.) Because a margin is not
# a likelihood, the marginals are not calibrated probabilities, but they rank pixels by doubt.

(by_grid,) = grid.predict([Graph.grid(x)])
(by_pixel,) = alone.predict([single(x)])
white = grid.predict_marginals([Graph.grid(x)])[0][:, 1].reshape(y.shape)
doubt = np.minimum(white, 1 - white)
print(f"wrong pixels: {np.mean(by_pixel != y):.1%} alone, {np.mean(by_grid != y):.1%} as a grid")
print(f"P(other label), on average: {doubt[by_grid == y].mean():.2f} where the grid is right, "
      f"{doubt[by_grid != y].mean():.2f} where it is wrong")  # fmt: skip

panels = {
    "what is seen": x,
    f"each pixel alone: {np.mean(by_pixel != y):.0%} wrong": by_pixel,
    f"as a grid: {np.mean(by_grid != y):.0%} wrong": by_grid,
    "P(white) of the grid: grey is doubt": white,
    "the shape": y,
}
figure, axes = plt.subplots(len(panels), 1, figsize=(7, 9))
for axis, (title, values) in zip(axes, panels.items(), strict=True):
    axis.imshow(values, cmap="gray", interpolation="nearest")
    axis.grid(visible=False)
    axis.set(xticks=(), yticks=(), title=title)
plt.show()
