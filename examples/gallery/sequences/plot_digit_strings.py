"""
Reading digits that smudge
==========================

Handwritten digits (scikit-learn's 8 x 8 scans, smudged with noise) form strings by a grammar in which each
digit has three possible successors. Read alone, more than one digit in five is wrong; in a string, the
neighbours show what a smudge must be.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from trellis import SequenceLabeler

SMUDGE = 0.4  # standard deviation of the noise; pixels are between 0 and 1
# What may follow each digit. Digits that look alike (3 and 8, 4 and 9, 1 and 7) go different ways.
FOLLOW = ["156", "209", "371", "460", "582", "639", "724", "845", "917", "038"]

# %%
# Strings
# -------
# Training and new strings share no image.

rng = np.random.default_rng(0)
bunch = load_digits()
order = rng.permutation(len(bunch.target))
images, digits = bunch.data[order] / 16, bunch.target[order]


def strings(first: int, last: int, n: int) -> tuple[list[np.ndarray], list[str]]:
    """``n`` strings of eight digits, from the images between two places."""
    X, y = [], []
    for _ in range(n):
        string = str(rng.integers(10))
        while len(string) < 8:
            string += str(rng.choice(list(FOLLOW[int(string[-1])]), p=[0.5, 0.3, 0.2]))
        same = [first + np.flatnonzero(digits[first:last] == int(d)) for d in string]
        pixels = images[[rng.choice(places) for places in same]]
        X.append(np.clip(pixels + rng.normal(scale=SMUDGE, size=pixels.shape), 0, 1))
        y.append(string)
    return X, y


(X, y), (X_new, y_new) = strings(0, 900, 200), strings(900, 1797, 300)

# %%
# Digit by digit, and as strings
# ------------------------------

alone = SequenceLabeler("log").fit([row[None] for x in X for row in x], [[d] for string in y for d in string])
one_by_one = iter(alone.predict([row[None] for x in X_new for row in x]))
crf = SequenceLabeler("log").fit(X, y)
svm = SequenceLabeler("margin", l2=10.0, random_state=0).fit(X, y)
found = {
    "digit by digit": [[next(one_by_one)[0] for _ in string] for string in y_new],
    "CRF": crf.predict(X_new),
    "structural SVM": svm.predict(X_new),
}
print(f"{'wrong (%)':16} digits  strings")
for name, read in found.items():
    wrong = np.array([[a != b for a, b in zip(*pair, strict=True)] for pair in zip(read, y_new, strict=True)])
    print(f"{name:16} {100 * wrong.mean():6.1f} {100 * wrong.any(axis=1).mean():8.1f}")

# %%
# Which strings?
# --------------
# The picture shows the three strings on which the readers disagree most, with the CRF's probability of each
# digit that it reads. It is unsure where it is wrong.

readers = list(zip(y_new, *found.values(), strict=True))
different = [sum(len(set(digits)) for digits in zip(*read, strict=True)) for read in readers]
chosen = np.argsort(different, kind="stable")[::-1][:3]
certain = [marginals.max(axis=1) for marginals in crf.predict_marginals([X_new[i] for i in chosen])]
figure, rows = plt.subplots(3, figsize=(8, 8))
lines, centre = -0.2 - 0.32 * np.arange(5), {"ha": "center", "va": "center"}
for axes, i, sure in zip(rows, chosen, certain, strict=True):
    axes.imshow(np.hstack([*X_new[i].reshape(-1, 8, 8)]), cmap="Greys", extent=(0, 8, 0, 1))
    for line, read in zip(lines, readers[i], strict=False):
        for t, (digit, true) in enumerate(zip(read, y_new[i], strict=True)):
            box = {"facecolor": "none" if digit == true else "C1", "edgecolor": "none", "pad": 3}
            axes.text(t + 0.5, line, digit, color="0.1" if digit == true else "white", bbox=box, **centre)
    for t, p in enumerate(sure):
        axes.text(t + 0.5, lines[-1], f"{p:.2f}", color="C6", fontsize=9, **centre)
    axes.set(ylim=(-1.7, 1), xticks=[], aspect="equal", frame_on=False)
    axes.set_yticks(lines, ["truth", *found, "probability"])
    axes.tick_params(length=0)
    axes.grid(False)
    counts = [sum(a != b for a, b in zip(read, y_new[i], strict=True)) for read in readers[i][1:]]
    axes.set_title(f"String {i}: {', '.join(map(str, counts))} digits wrong")
figure.suptitle("Neighbours say what a smudge must be (mistakes in colour)")
plt.show()
