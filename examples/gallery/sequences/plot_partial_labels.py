"""
Labels for some of the words
============================

Annotators are paid by the word: should they label some sentences in full, or some words of every sentence?
``None`` stands for an unknown label, and a set for "one of these"; the CRF sums over all labellings that
agree. Here the same number of labels is worth more when it is spread over all sentences.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from trellis import SequenceLabeler

# %%
# A language of four tags
# -----------------------
# Each word prefers one tag, but also occurs with the others, and tags follow each other by a Markov chain.

language = np.random.default_rng(7)
follow = language.dirichlet([0.2] * 4, size=4)
word_given_tag = language.dirichlet([0.1] * 200, size=4)


def sentences(n: int, seed: int, length: int = 10) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    tags = rng.integers(4, size=(n, length))
    for t in range(1, length):
        tags[:, t] = [rng.choice(4, p=follow[tag]) for tag in tags[:, t - 1]]
    X = [[f"w{rng.choice(200, p=word_given_tag[tag])}" for tag in row] for row in tags]
    return X, [["DNVA"[tag] for tag in row] for row in tags]


(X, y), (X_new, y_new) = sentences(200, seed=0), sentences(1000, seed=1)

# %%
# Three ways to use the same number of labels
# -------------------------------------------
# Labels of single words are useful within their sentence. Cut out of it, they teach nothing about
# neighbours.

shares = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
ways = ["some words of every sentence", "some sentences in full", "some words, cut out"]
right = np.zeros((len(ways), len(shares), 4))
for column, share in enumerate(shares):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        hidden = [[tag if rng.random() < share else None for tag in row] for row in y]
        few = rng.permutation(len(X))[: round(share * len(X))]
        words = [(w, k) for x, row in zip(X, hidden, strict=True) for w, k in zip(x, row, strict=True) if k]
        training: list[tuple[Any, Any]] = [
            (X, hidden),
            ([X[i] for i in few], [y[i] for i in few]),
            ([[word] for word, _ in words], [[tag] for _, tag in words]),
        ]
        for way, (inputs, labels) in enumerate(training):
            right[way, column, seed] = SequenceLabeler("log").fit(inputs, labels).score(X_new, y_new)
print(f"{'labels known (%)':30}", *(f"{100 * share:5.0f}" for share in shares))
for name, curve in zip(ways, right, strict=True):
    print(f"{name:30}", *(f"{100 * value:5.1f}" for value in curve.mean(axis=1)))

# %%
# "One of these two"
# ------------------
# Every word has a set of two labels: its tag and a wrong one. No label is certain, yet the tagger learns
# about as much as from certain labels.

rng = np.random.default_rng(0)
vague = [[{tag, str(rng.choice(list("DNVA".replace(tag, ""))))} for tag in row] for row in y]
either = SequenceLabeler("log").fit(X, vague).score(X_new, y_new)
print(f"sets of two for every word: {100 * either:.1f} % right")

figure, axes = plt.subplots()
for name, curve, colour, marker in zip(ways, 100 * right, ("C0", "C1", "C6"), "osD", strict=True):
    axes.plot(shares, curve.mean(axis=1), color=colour, marker=marker, label=name)
    axes.fill_between(shares, curve.min(axis=1), curve.max(axis=1), color=colour, alpha=0.15, linewidth=0)
axes.axhline(100 * either, color="C2", linestyle="--", label='"one of these two" for every word')
axes.set(xscale="log", xticks=shares, xticklabels=[f"{100 * share:g}" for share in shares])
axes.minorticks_off()
axes.set(title="Labels are worth most where their neighbours are", ylabel="new words tagged right (%)")
axes.set(xlabel="words of 200 sentences that have a label (%); bands: four draws of them")
axes.legend(loc="lower right")
plt.show()
