"""
Telling vowels apart by their movement
======================================

A diphthong is a movement between two vowels. Four of them are generated here as the first two formants over
time, with different speeds, different speakers and noise. One left-to-right hidden Markov model is learned
for each class, without labels inside a series. A new series is assigned to the class under which it is most
probable.
"""

# %%
# The classes come in two pairs, "ai" with "ia" and "au" with "ua", which pass through the same places in
# opposite directions. No method that ignores the order of the frames can tell the two of a pair apart.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

from trellis import HMM, emissions
from trellis.hmm import left_right

rng = np.random.default_rng(0)
VOWELS = {"a": (750.0, 1300.0), "i": (300.0, 2250.0), "u": (320.0, 850.0)}  # formants in Hz
CLASSES = ("ai", "ia", "au", "ua")


def series(name: str) -> np.ndarray:
    """Stay, move, stay: each for a random time; a speaker scales both formants."""
    stay, move, rest = rng.integers(4, 14, 3)
    place = np.concatenate([np.zeros(stay), np.linspace(0, 1, move), np.ones(rest)])[:, None]
    start, end = (np.array(VOWELS[vowel]) for vowel in name)
    return ((1 - place) * start + place * end) * rng.normal(1.0, 0.08) + rng.normal(0, 150, (len(place), 2))


train = {name: [series(name) for _ in range(25)] for name in CLASSES}
test = [(name, series(name)) for name in CLASSES for _ in range(100)]

# %%
# Each class has a model of three states that never turn back. It starts from equal thirds of every series;
# EM then learns how long each stage lasts.

initial, transitions = left_right(3)


def learn(signals: list[np.ndarray]) -> HMM:
    thirds = [3 * np.arange(len(x)) // len(x) for x in signals]
    start = HMM(3, emissions.Gaussian("full"), initial=initial, transitions=transitions).fit(signals, thirds)
    return HMM(3, start.emission_, initial=initial, transitions=start.transitions_).fit(signals)


models = {name: learn(signals) for name, signals in train.items()}
X, gold = [x for _, x in test], np.array([name for name, _ in test])
scores = np.column_stack([models[name].log_likelihood(X) for name in CLASSES])
by_movement = np.array(CLASSES)[scores.argmax(axis=1)]

# %%
# For comparison, the same decision without time: one Gaussian for the frames of each class.

frames = {name: HMM(1, emissions.Gaussian("full")).fit(signals) for name, signals in train.items()}
single = np.column_stack([frames[name].log_likelihood(X) for name in CLASSES])
by_frames = np.array(CLASSES)[single.argmax(axis=1)]

print(f"{len(X)} new series, right by their movement: {np.mean(by_movement == gold):.1%}")
print(f"right by their frames alone, in no order:   {np.mean(by_frames == gold):.1%}")

# %%
# How soon is the class clear? Given the first frames of a series, P(class) follows from their likelihood by
# Bayes' rule, as all classes are equally frequent. The beginning rules out two classes; the movement
# decides.

example = next(x for name, x in test if name == "ai")
beginnings = [example[: t + 1] for t in range(len(example))]
so_far = softmax(np.column_stack([models[name].log_likelihood(beginnings) for name in CLASSES]), axis=1)

figure, axes = plt.subplot_mosaic("AC;BD", figsize=(9, 5.6), width_ratios=[1.9, 1])
axes["A"].plot(example[:, 0], color="0.2", label="first formant")
axes["A"].plot(example[:, 1], color="0.2", linestyle=":", label="second formant")
axes["A"].set(ylabel="frequency (Hz)", title='One new series of "ai" ...', ylim=(0, 3200))
axes["A"].legend(loc="upper left", ncols=2)
for name, line in zip(CLASSES, so_far.T, strict=True):
    axes["B"].plot(line, label=name)
axes["B"].set(
    xlabel="frame",
    ylabel="P(class | frames so far)",
    ylim=(-0.02, 1.02),
    title="... and how soon it is known",
)
axes["B"].legend(loc="center right")
for panel, title, given in (
    ("C", "By movement", by_movement),
    ("D", "By frames, in no order", by_frames),
):
    counts = np.array([[np.sum((gold == a) & (given == b)) for b in CLASSES] for a in CLASSES])
    axes[panel].imshow(counts, cmap="Blues", vmin=0, vmax=150)
    axes[panel].grid(visible=False)
    for i, j in np.ndindex(4, 4):
        axes[panel].text(j, i, str(counts[i, j]), ha="center", va="center")
    axes[panel].set(xticks=range(4), xticklabels=CLASSES, yticks=range(4), yticklabels=CLASSES)
    axes[panel].set(xlabel="given class (counts)", ylabel="true class", title=title)
plt.show()
