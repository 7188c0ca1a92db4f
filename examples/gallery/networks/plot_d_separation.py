"""
Open and blocked paths: what d-separation promises
==================================================

Does rain say anything about the sprinkler? That depends on what else is known. The arrows of a network alone
show when the answer is no: when every path between the two is blocked. The drawings show the paths for three
sets of observations; below, numbers confirm them, on networks with these arrows and random tables.
"""

# %%
# The season affects rain and sprinkler, both of which make the lawn wet, and a wet lawn is slippery.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from trellis import BayesianNetwork

NAMES = ("Season", "Rain", "Sprinkler", "Wet", "Slippery")
STATES = {name: ["0", "1"] for name in NAMES}
PARENTS = {"Rain": ["Season"], "Sprinkler": ["Season"], "Wet": ["Rain", "Sprinkler"], "Slippery": ["Wet"]}
GIVEN: tuple[list[str], ...] = ([], ["Season"], ["Season", "Slippery"])
net = BayesianNetwork(STATES, PARENTS)
for given in GIVEN[1:]:
    print(net.explain_separation("Rain", "Sprinkler", given=given))
print("smallest set that separates them:", net.minimal_separator("Rain", "Sprinkler"))

# %%
# How much does one say about the other, given the observations? The conditional mutual information is 0
# exactly if it says nothing. Tables are drawn at random, 200 times.

rng = np.random.default_rng(0)


def random_tables() -> BayesianNetwork:
    shapes = {name: (2,) * len(PARENTS.get(name, ())) for name in NAMES}
    return net.with_tables({name: rng.dirichlet([1, 1], shape) for name, shape in shapes.items()})


def information(model: BayesianNetwork, given: list[str]) -> float:
    """sum p(x, y, z) log2 p(x, y, z) p(z) / (p(x, z) p(y, z)), in bits."""
    p = model.query(["Rain", "Sprinkler", *given]).values.reshape(2, 2, -1)
    x, y, z = p.sum(axis=1, keepdims=True), p.sum(axis=0, keepdims=True), p.sum(axis=(0, 1), keepdims=True)
    return float(np.sum(p * np.log2(p * z / (x * y))))


models = [random_tables() for _ in range(200)]
bits = np.array([[information(model, given) for model in models] for given in GIVEN])
for given, row in zip(GIVEN, bits, strict=True):
    separated = net.d_separated("Rain", "Sprinkler", given=given)
    print(f"given {', '.join(given) or 'nothing':16} separated: {separated!s:5} largest {row.max():.1e} bits")

# %%
# Where the drawing has no open path (green), the information is 0 up to rounding, whatever the tables.
# Where it has one, nearly all tables make the two depend on each other; how much depends on the numbers,
# not on the arrows.

figure = plt.figure(figsize=(9, 6.8))
axes = figure.subplot_mosaic("012;444", height_ratios=[1.7, 1])
with tempfile.TemporaryDirectory() as folder:
    for k, given in enumerate(GIVEN):
        path = Path(folder) / f"{k}.png"
        separation = net.explain_separation("Rain", "Sprinkler", given=given)
        separation.draw(path)
        axes[str(k)].imshow(plt.imread(path))
        axes[str(k)].axis("off")
        answer = "blocked" if separation.separated else "open"
        axes[str(k)].set_title(
            f"given {' and '.join(given) or 'nothing'}:\n{answer}", fontsize=10, loc="center"
        )
for k, row in enumerate(bits):
    shade = "C0" if row.max() > 1e-12 else "C1"
    axes["4"].semilogy(
        k + rng.uniform(-0.25, 0.25, len(row)), np.maximum(row, 1e-17), ".", color=shade, alpha=0.6
    )
axes["4"].set(xticks=range(3), xticklabels=[" and ".join(given) or "nothing" for given in GIVEN])
axes["4"].set(
    xlabel="observed",
    ylabel="information (bits)",
    title="What rain says about the sprinkler, for 200 random tables",
)
plt.show()
