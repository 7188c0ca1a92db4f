"""
Snakes: cells that only make sense together
===========================================

A snake wanders over a grid; the colour of each of its cells gives the direction in which it moved on. The
task is to number the cells of the snake, starting from its tail (Nowozin et al. 2011). The colour of a cell
alone says little about its number. A model has to follow the snake, which it learns to do if its edges see
the colours.
"""

# %%
# Snakes of six cells on grids of 5 by 5; 40 to learn from.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from trellis import Graph, GraphLabeler

rng = np.random.default_rng(0)
SIDE, LENGTH = 5, 6
STEPS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])  # right, down, left, up: colours 1 to 4


def snake() -> tuple[np.ndarray, np.ndarray]:
    """Colours and numbers of a grid; 0 is background. The head points to where it would go next."""
    colours, numbers = np.zeros((2, SIDE + 2, SIDE + 2), int)
    numbers[[0, -1]] = numbers[:, [0, -1]] = -1  # a wall around the grid
    cell = tuple(rng.integers(1, SIDE + 1, 2))
    for k in range(1, LENGTH + 1):
        numbers[cell] = k
        free = [turn for turn in range(4) if numbers[tuple(cell + STEPS[turn])] == 0]
        if not free:
            return snake()  # caught in its own coils: try again
        turn = rng.choice(free)
        colours[cell] = turn + 1
        cell = tuple(cell + STEPS[turn])
    return colours[1:-1, 1:-1], numbers[1:-1, 1:-1]


train, test = [snake() for _ in range(40)], [snake() for _ in range(100)]

# %%
# Three models, all structural SVMs: single cells; edges with one table of scores for each direction; and
# edges with a table for each direction and each colour at their two ends. The last can express "if this
# cell points to the right, its right neighbour has the next number".


def graph(colours: np.ndarray, edges: str) -> Graph:
    indicators = np.eye(5)[colours]
    if edges == "no edges":
        return Graph(indicators.reshape(-1, 5), shape=colours.shape)
    return Graph.grid(indicators, edge_features="ends" if "colours" in edges else "none", directions=True)


found = {}
on_snake = np.concatenate([y[y > 0] for _, y in test])
for edges in ("no edges", "edges", "edges with colours"):
    model = GraphLabeler("margin", l2=1.0, tol=0.05, directed=True, random_state=0)
    model.fit([graph(x, edges) for x, _ in train], [y for _, y in train])
    found[edges] = model.predict([graph(x, edges) for x, _ in test])
    numbers = np.concatenate([z[y > 0] for z, (_, y) in zip(found[edges], test, strict=True)])
    whole = np.mean([np.array_equal(z, y) for z, (_, y) in zip(found[edges], test, strict=True)])
    right = f"{np.mean(numbers == on_snake):.1%} of the snakes' cells and {whole:.0%} of the grids"
    print(f"{edges}, {len(model.weights_)} weights: {right} are correct")

# %%
# Two new snakes: the observed colours, and the numbers that each model predicts; wrong ones are circled.
# Background that was predicted as background is left empty.

figure, axes = plt.subplots(2, 4, figsize=(10, 5.4))
palette = ListedColormap(["0.95", "C0", "C1", "C2", "C3"])
for row, (colours, gold), *answers in zip(axes, test[:2], *(z[:2] for z in found.values()), strict=True):
    for axis, title, numbers in zip(row, ("observed colours", *found), (None, *answers), strict=True):
        axis.imshow(colours, cmap=palette, vmin=0, vmax=4, alpha=1.0 if numbers is None else 0.35)
        for (i, j), colour in np.ndenumerate(colours):
            place = {"x": j, "y": i, "ha": "center", "va": "center"}
            if numbers is None:
                axis.text(s="·→↓←↑"[colour], fontsize=14, color="white" if colour else "0.7", **place)
            elif numbers[i, j] or gold[i, j]:
                circle = {"boxstyle": "circle,pad=0.15", "facecolor": "none", "edgecolor": "0.1"}
                axis.text(s=numbers[i, j], bbox=None if numbers[i, j] == gold[i, j] else circle, **place)
        axis.grid(visible=False)
        axis.set(xticks=(), yticks=(), title=title)
figure.suptitle("Edges that see the colours count along the snake (wrong numbers are circled)")
plt.show()
