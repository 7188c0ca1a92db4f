"""
Is the new tagger better?
=========================

Two taggers get about one tag in ten wrong. Their intervals overlap, which says little: both fail on the
same hard sentences. A paired test compares them sentence by sentence, and detects a difference where the
intervals do not; with too few sentences it reports that it cannot tell.
"""

import matplotlib.pyplot as plt
import numpy as np

from trellis import SequenceLabeler
from trellis.theory import compare_models, score_with_interval

# %%
# Two taggers
# -----------
# The language has four tags in a Markov chain; each word prefers one tag, but also occurs with the others.
# The new tagger was trained on one and a half times as many sentences as the old one.

language = np.random.default_rng(7)
follow = language.dirichlet([0.3] * 4, size=4)
word_given_tag = language.dirichlet([0.12] * 100, size=4)


def sentences(n: int, seed: int, length: int = 10) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    tags = rng.integers(4, size=(n, length))
    for t in range(1, length):
        tags[:, t] = (rng.random((n, 1)) > follow.cumsum(axis=1)[tags[:, t - 1], :-1]).sum(axis=1)
    words = (rng.random((n, length, 1)) > word_given_tag.cumsum(axis=1)[tags][..., :-1]).sum(axis=2)
    return [[f"w{w}" for w in row] for row in words], [["DNVA"[tag] for tag in row] for row in tags]


X, y = sentences(120, seed=0)
old = SequenceLabeler("log", l2=0.3).fit(X[:80], y[:80])
new = SequenceLabeler("log", l2=0.3).fit(X, y)

# %%
# Tests of growing size
# ---------------------

sizes = [100, 300, 1000, 3000]
X_test, y_test = sentences(max(sizes), seed=1)
alone, paired = [], []
for n in sizes:
    part = X_test[:n], y_test[:n]
    alone.append([score_with_interval(model, *part, loss="hamming") for model in (old, new)])
    paired.append(compare_models(old, new, *part, loss="hamming"))
    print(f"{n:5} sentences: {paired[-1]}")

# %%
# Intervals alone, and in pairs
# -----------------------------
# The intervals on the left overlap even where the paired test detects a difference.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
for k, (name, colour) in enumerate({"old tagger": "C1", "new tagger": "C0"}.items()):
    values = 100 * np.array([(pair[k].low, pair[k].value, pair[k].high) for pair in alone])
    whiskers = np.abs(values[:, [0, 2]] - values[:, [1]]).T
    places = np.array(sizes) * (0.95 + 0.1 * k)
    left.errorbar(places, values[:, 1], whiskers, fmt="so"[k == 0], color=colour, capsize=4, label=name)
left.set(title="Each by itself", ylabel="wrong tags (%)")
left.legend()
low, high, middle = (
    100 * np.array([getattr(c, part) for c in paired]) for part in ("low", "high", "difference")
)
right.axhline(0, color="0.3", linewidth=1)
for n, a, b, c, found in zip(sizes, low, high, middle, paired, strict=True):
    colour = "C2" if found.significant else "C6"
    right.errorbar(n, c, [[c - a], [b - c]], fmt="o", color=colour, capsize=4)
    right.annotate(
        f"p = {found.p_value:.2g}", (n, b), (0, 5), textcoords="offset points", ha="center", fontsize=9
    )
right.set(title="In pairs: old minus new (green: significant)", ylabel="difference (percentage points)")
right.margins(y=0.1)  # room for the first p
for axes in (left, right):
    axes.set(xscale="log", xticks=sizes, xticklabels=sizes, xlim=(70, 4500))
    axes.set_xlabel("test sentences (95 % intervals)")
    axes.minorticks_off()
plt.show()
