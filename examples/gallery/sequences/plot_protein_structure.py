"""
Helices, strands and coils
==========================

A protein has a shape at every residue along its chain: helix (H), strand (E) or coil (C). The proteins here
are made up: segments have typical lengths, and each shape prefers some residues. The picture shows the
probabilities that a chain of labels gives along one protein, and two ways to turn them into a decision.
"""

from itertools import groupby

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch

from trellis import SequenceLabeler

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
LENGTHS = {"H": 10, "E": 5, "C": 6}  # of segments, on average
LIKES = {"H": "AELMQKRH", "E": "VIYFWTC", "C": "GNPDS"}  # five times as frequent as the other residues


def proteins(n: int, seed: int) -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(seed)
    shares = {k: np.array([5.0 if r in likes else 1.0 for r in RESIDUES]) for k, likes in LIKES.items()}
    chains, labels = [], []
    for _ in range(n):
        shape = "C"
        while len(shape) < 80:
            kind = str(rng.choice([k for k in LENGTHS if k != shape[-1]]))
            shape += kind * int(1 + rng.binomial(2 * LENGTHS[kind], 0.5))
        chains.append("".join(rng.choice(list(RESIDUES), p=shares[k] / shares[k].sum()) for k in shape))
        labels.append(shape)
    return chains, labels


def windows(chains: list[str], reach: int) -> list[list[list[str]]]:
    """Each residue with those within ``reach`` of it: features such as ``+1:G``."""
    padded = [" " * reach + chain + " " * reach for chain in chains]
    near = range(-reach, reach + 1)
    return [
        [[f"{d:+}:{chain[t + d]}" for d in near] for t in range(reach, len(chain) - reach)]
        for chain in padded
    ]


(chains, y), (chains_new, y_new) = proteins(100, seed=0), proteins(100, seed=1)

# %%
# A window, a chain
# -----------------
# The windows of seven residues are classified one by one. The chain sees single residues, and learns from
# the labels how long segments are. Its most probable *labelling* is not the one with the most correct
# residues: for that, minimise the expected number of mistakes with ``decoding="minimum_risk"``.

X, X_new = windows(chains, 3), windows(chains_new, 3)
window = SequenceLabeler("log", l2=10.0).fit(
    [[step] for x in X for step in x], [[k] for row in y for k in row]
)
one_by_one = iter(window.predict([[step] for x in X_new for step in x]))
crf = SequenceLabeler("log").fit(windows(chains, 0), y)
singles = windows(chains_new, 0)
found = {
    "truth": y_new,
    "windows": ["".join(next(one_by_one)[0] for _ in x) for x in X_new],
    "chain, best": ["".join(labels) for labels in crf.predict(singles)],
    "chain, least risk": ["".join(labels) for labels in crf.predict(singles, decoding="minimum_risk")],
}
print(f"{'':18} residues right   segments in a protein")
for name, shapes in found.items():
    right = np.mean(np.array(list("".join(shapes))) == np.array(list("".join(y_new))))
    segments = np.mean([len(list(groupby(row))) for row in shapes])
    print(f"{name:18} {100 * right:12.1f} % {segments:13.1f}")

# %%
# One protein
# -----------
# Windows are right about as often as the chain, but break segments into pieces. The best labelling has too
# few segments.

shown = 1
beliefs = crf.predict_marginals(singles[shown : shown + 1])[0]
colours = {"H": "C1", "E": "C0", "C": "0.8"}
figure, (top, bottom) = plt.subplots(2, figsize=(8, 4.6), sharex=True, height_ratios=(3, 2))
steps = np.arange(len(beliefs))
order = [list(crf.classes_).index(k) for k in colours]
top.stackplot(steps + 0.5, beliefs[:, order].T, colors=list(colours.values()), step="mid")
top.set(title="What the chain believes: P(shape | all residues)", ylabel="probability", ylim=(0, 1))
for row, shapes in enumerate(found.values()):
    for t, kind in enumerate(shapes[shown]):
        bottom.barh(row, 1, left=t, height=0.75, color=colours[kind])
bottom.set(yticks=range(4), yticklabels=list(found), xlabel="residue", xlim=(0, len(steps)), ylim=(3.5, -0.5))
bottom.grid(False)
handles = [Patch(color=colour) for colour in colours.values()]
figure.legend(handles, ["helix", "strand", "coil"], loc="outside right upper")
plt.show()
