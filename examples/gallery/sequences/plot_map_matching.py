"""
A walk through the streets
==========================

A receiver reports a walker's position once a minute, with an error of about half a block. The labels are
the 900 crossings of a town, and only neighbours can follow each other: a table of transitions would have
810,000 entries, while the chain over allowed pairs has some 3,700. Taking the nearest crossing each time
leads through walls.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from trellis.structures.chain import SparseChain, SparseChainScores

SIDE, NOISE = 30, 0.6  # crossings, blocks

# %%
# A town and a walk
# -----------------
# One street in five is closed. The walker goes to four places, each time by a shortest way.

rng = np.random.default_rng(1)
places = np.array([(x, y) for x in range(SIDE) for y in range(SIDE)], float)
crossing = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
across = np.stack([crossing[:-1].ravel(), crossing[1:].ravel()], axis=1)
along = np.stack([crossing[:, :-1].ravel(), crossing[:, 1:].ravel()], axis=1)
streets = np.concatenate([across, along])
streets = streets[rng.random(len(streets)) > 0.2]
stay = np.repeat(crossing.ravel()[:, None], 2, axis=1)
pairs = np.concatenate([streets, streets[:, ::-1], stay])
allowed = csr_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(SIDE**2, SIDE**2))
choices = np.diff(allowed.indptr)

before = shortest_path(allowed, unweighted=True, return_predecessors=True)[1]
walk = [int(crossing[5, 5])]
for goal in crossing[[22, 24, 8, 15], [8, 20, 24, 12]]:
    way = [int(goal)]
    while way[-1] != walk[-1]:
        way.append(int(before[walk[-1], way[-1]]))
    walk += way[-2::-1]
reports = places[walk] + rng.normal(0, NOISE, (len(walk), 2))

# %%
# Three ways back
# ---------------
# The score of a crossing is the log density of the report there; the score of a pair is the log probability
# of the move, as if the walker had no plan. The best labelling is a walk by construction, and so is the one
# with the smallest expected number of mistakes: every way of decoding uses allowed pairs only.

density = -((reports[:, None] - places) ** 2).sum(axis=2) / (2 * NOISE**2)
moves = csr_array(
    (np.repeat(-np.log(choices), choices), allowed.indices, allowed.indptr), shape=allowed.shape
)
scores, chain = SparseChainScores.of(density, moves), SparseChain()
found = {
    "nearest crossing": density.argmax(axis=1),
    "chain, best walk": np.asarray(chain.best(scores).labels),
    "chain, least expected mistakes": np.asarray(chain.minimum_risk(scores)),
}
print(f"{len(places)} labels, {len(pairs)} pairs of {len(places) ** 2}")
for name, labels in found.items():
    possible = np.mean([allowed[a, b] > 0 for a, b in pairwise(labels)])
    print(f"{name:31} crossings right {np.mean(labels == walk):6.1%}   moves that exist {possible:6.1%}")

# %%
# The walk
# --------

figure, panels = plt.subplots(1, 2, figsize=(9, 5.2), sharex=True, sharey=True)
for axes, (name, colour) in zip(
    panels, {"nearest crossing": "C1", "chain, best walk": "C0"}.items(), strict=True
):
    for street in streets:
        axes.plot(*places[street].T, color="0.85", linewidth=3, zorder=1, solid_capstyle="round")
    axes.plot(*places[walk].T, color="0.35", linewidth=6, alpha=0.5, label="the walk", zorder=2)
    axes.plot(*reports.T, ".", color="C2", markersize=5, label="reports", zorder=3)
    axes.plot(*places[found[name]].T, color=colour, linewidth=1.6, label=name, zorder=4)
    axes.set(title=f"{name.capitalize()}: {np.mean(found[name] == walk):.0%} right", aspect="equal")
    axes.set(xlim=(places[walk, 0].min() - 2, places[walk, 0].max() + 2), xlabel="blocks")
    axes.set(ylim=(places[walk, 1].min() - 2, places[walk, 1].max() + 2))
    axes.grid(False)
handles = {
    label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
}
figure.legend(handles.values(), handles, loc="outside lower center", ncols=4)
panels[0].set_ylabel("blocks")
plt.show()
