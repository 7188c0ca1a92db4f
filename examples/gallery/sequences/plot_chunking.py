"""
Chunks of a sentence
====================

A small grammar generates sentences of noun, verb and prepositional chunks. Words such as "plans" or "watch"
are nouns in one sentence and verbs in the next. The only feature is the word. A CRF with BIO constraints is
compared with a model of single words; the score counts whole chunks, as conlleval does, and has an interval
over sentences.
"""

import matplotlib.pyplot as plt
import numpy as np

from trellis import SequenceLabeler, metrics

EITHER = ["plans", "walks", "watch", "talks", "orders", "visits"]  # nouns and verbs
WORDS = {
    "D": ["the", "a", "her", "their", "some"],
    "A": ["old", "new", "small", "late", "careful"],
    "N": ["house", "garden", "teacher", "music", *EITHER],
    "V": ["sees", "likes", "found", "makes", *EITHER],
    "M": ["will", "can", "often", "never"],
    "P": ["in", "near", "after", "with"],
}
CHUNKS = {"NP": ["DN", "DAN", "AN", "N", "NN", "DNN"], "VP": ["V", "MV", "MMV"], "PP": ["P"]}
CLAUSES = ["NP VP NP", "NP VP PP NP", "NP PP NP VP", "NP VP NP PP NP"]


def sentences(n: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        chunks = [(chunk, rng.choice(CHUNKS[chunk])) for chunk in rng.choice(CLAUSES).split()]
        X.append([str(rng.choice(WORDS[kind])) for _, kinds in chunks for kind in kinds])
        y.append([f"{'IB'[t == 0]}-{chunk}" for chunk, kinds in chunks for t in range(len(kinds))])
    return X, y


(X, y), (X_new, y_new) = sentences(300, seed=0), sentences(500, seed=1)
print(" ".join(f"{word}/{label}" for word, label in zip(X[0], y[0], strict=True)))

# %%
# With and without structure
# --------------------------
# In the first model, every word is a sentence of its own. The CRF scores pairs of labels too, and
# ``constraints="bio"`` keeps ``I-NP`` from following anything but ``B-NP`` and ``I-NP``.

alone = SequenceLabeler("log", l2=0.1).fit([[word] for x in X for word in x], [[k] for row in y for k in row])
crf = SequenceLabeler("log", constraints="bio", l2=0.1).fit(X, y)
one_by_one = iter(alone.predict([[word] for x in X_new for word in x]))
found = {"word by word": [[next(one_by_one)[0] for _ in x] for x in X_new], "CRF": crf.predict(X_new)}
reports = {name: metrics.span_report(y_new, labels) for name, labels in found.items()}
for name, report in reports.items():
    low, high = (100 * limit for limit in report.f1_interval())
    print(f"{name:12} chunk F1 {100 * report.overall.f1:.1f} % (95 % interval {low:.1f} to {high:.1f})")

# %%
# A sentence, and the score of each kind of chunk
# -----------------------------------------------
# The sentence shown is the one with the most mistakes of the first model, among those that the CRF gets
# right.

wrong = {name: metrics.errors_by_sequence(y_new, labels)[0] for name, labels in found.items()}
chosen = int(np.argmax(np.where(wrong["CRF"] == 0, wrong["word by word"], -1)))
colours = dict(zip(CHUNKS, ("C0", "C1", "C2"), strict=True))

figure, (top, bottom) = plt.subplots(2, figsize=(7.5, 5.4), height_ratios=(2, 3))
for row, labels in enumerate([y_new[chosen], *(labels[chosen] for labels in found.values())]):
    for t, label in enumerate(labels):
        top.barh(row, 1, left=t, height=0.7, color=colours[label[2:]])
        if label[0] == "B":
            top.barh(row, 0.06, left=t, height=0.7, color="white")
        top.text(t + 0.5, row, label, ha="center", va="center", color="white", fontsize=9, weight="bold")
top.set(title=f"One sentence: {wrong['word by word'][chosen]} labels wrong, and none", ylim=(2.5, -0.5))
top.set_yticks(range(3), ["truth", *found])
top.set_xticks(np.arange(len(X_new[chosen])) + 0.5, X_new[chosen], fontsize=9)
top.grid(False)
for k, (name, report) in enumerate(reports.items()):
    scores = [100 * score.f1 for score in (report.overall, *(report.by_type[kind] for kind in CHUNKS))]
    bars = bottom.bar(np.arange(4) + 0.37 * k, scores, 0.34, color=("0.6", "C0")[k], label=name)
    bottom.bar_label(bars, fmt="%.0f", padding=5)
    low, high = (abs(100 * limit - scores[0]) for limit in report.f1_interval())
    bottom.errorbar(0.37 * k, scores[0], [[low], [high]], color="0.1", capsize=4)
bottom.set(title="All sentences, with 95 % intervals", ylabel="chunk F1 (%)", ylim=(0, 112))
bottom.set_xticks(np.arange(4) + 0.185, ["all chunks", *CHUNKS])
bottom.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2)
plt.show()
