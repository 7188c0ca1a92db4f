"""
How many sentences does a tagger need?
======================================

If the language can be simulated, the question has an answer: draw training sets, train, measure on new
sentences, repeat. The picture shows the training error and the true error of a CRF against the number of
sentences, with bands that contain four of five repeats, and the smallest error that any tagger can have.
"""

import matplotlib.pyplot as plt
import numpy as np

from trellis import SequenceLabeler
from trellis.structures.chain import Chain, ChainScores
from trellis.theory import simulate_learning_curve

# %%
# A language
# ----------
# Three tags form a Markov chain; each of sixty words prefers one tag, but also occurs with the others.

language = np.random.default_rng(7)
follow = language.dirichlet([0.6] * 3, size=3)  # p(next tag | tag)
word_given_tag = language.dirichlet([0.15] * 60, size=3)


def sentences(n: int, rng: np.random.Generator, length: int = 8) -> tuple[list[list[str]], list[list[int]]]:
    tags = np.empty((n, length), int)
    for t in range(length):
        p = follow[tags[:, t - 1]] if t else np.full((n, 3), 1 / 3)
        tags[:, t] = (rng.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    words = (rng.random((n, length, 1)) > word_given_tag.cumsum(axis=1)[tags][..., :-1]).sum(axis=2)
    return [[f"w{w}" for w in row] for row in words.tolist()], tags.tolist()


# %%
# A simulated learning curve
# --------------------------

sizes = [5, 10, 20, 40, 80, 160]
curve = simulate_learning_curve(
    sentences, SequenceLabeler(l2=0.3), m=sizes, n_repeats=20, delta=0.2, loss="hamming", n_test=200
)
print(curve)

# %%
# The best possible tagger knows the language, and takes the most probable tag of each word given the
# sentence.

X, y = sentences(2000, np.random.default_rng(1))
seen = np.log(word_given_tag + 1e-300)[:, [int(word[1:]) for x in X for word in x]].T
scores = ChainScores.of(seen, np.log(follow), lengths=[len(x) for x in X])
least = float(np.mean(Chain().minimum_risk(scores) != np.concatenate(y)))
target = 0.13
needed = curve.examples_needed(target)
print(f"the least error is {least:.1%}; from {needed} sentences on, four of five taggers reach {target:.0%}")

figure, axes = plt.subplots()
for name, colour, marker in (("true", "C0", "o"), ("train", "C1", "s")):
    errors = 100 * np.array([getattr(sample, name) for sample in curve.samples])
    label = {"true": "new sentences", "train": "training sentences"}[name]
    axes.plot(sizes, errors.mean(axis=1), color=colour, marker=marker, label=label)
    low, high = np.quantile(errors, [0.1, 0.9], axis=1)
    axes.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
axes.axhline(100 * least, color="0.3", linestyle="--", label="least possible error")
axes.axhline(100 * target, color="C2", linewidth=1)
axes.annotate(
    f"{target:.0%}: from {needed} sentences on", (sizes[-1], 100 * target + 0.4), ha="right", color="C2"
)
axes.set(title="More data close the gap; they do not lower the floor", ylabel="wrong tags (%)", xscale="log")
axes.set(
    xlabel="training sentences; bands: four of five repeats", xticks=sizes, xticklabels=sizes, ylim=(0, None)
)
axes.minorticks_off()
axes.legend()
plt.show()
