"""
Where did the rate change, and how sure is that?
================================================

A hidden Markov model whose states follow one another and never return cuts a series into stretches: the
change points are where one state gives way to the next. The posterior shows what a single best segmentation
cannot: how certain each change point is.
"""

# %%
# The data are counts of events per day. The rate changes three times, the second time only a little.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from trellis import HMM, emissions
from trellis.hmm import left_right

rng = np.random.default_rng(1)
CHANGES, RATES, DAYS = (60, 110, 150), (3.0, 9.0, 6.0, 1.5), 200
rate = np.repeat(RATES, np.diff([0, *CHANGES, DAYS]))
counts = rng.poisson(rate).astype(float)[:, None]


def fit(stretches: int) -> HMM:
    """The best of 20 starts of EM: each finds a local optimum."""
    first, moves = left_right(stretches)
    start = HMM(stretches, emissions.Poisson(), initial=first, transitions=moves, n_init=20, random_state=0)
    return start.fit(counts)


# %%
# How many stretches? BIC weighs the likelihood against the number of parameters; the smallest is best.

models = {k: fit(k) for k in range(1, 7)}
bic = {k: model.bic(counts) for k, model in models.items()}
chosen = min(bic, key=lambda k: bic[k])
print({k: round(value, 1) for k, value in bic.items()}, "-> stretches:", chosen)

# %%
# States only move up, so change k has happened by day t exactly if the state is at least k. The increase of
# that probability from one day to the next is the probability that the change fell between them. The
# shortest run of days that holds 95% of it is an interval for the change. The interval takes the fitted
# rates as given; accounting for their uncertainty would make it a little wider.

model = models[chosen]
emission: Any = model.emission_
posterior = model.smooth(counts)
happened = posterior[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]  # P(state >= k)
falls_on = np.diff(happened, axis=0, prepend=0.0)  # (days, changes)
best = np.flatnonzero(np.diff(model.decode(counts))) + 1


def interval(p: np.ndarray, mass: float = 0.95) -> tuple[int, int]:
    total = np.concatenate([[0.0], p.cumsum()])
    runs = [(a, int(np.searchsorted(total, total[a] + mass))) for a in range(len(p))]
    return min(((a, b - 1) for a, b in runs if b < len(total)), key=lambda run: run[1] - run[0])


for k, p in enumerate(falls_on.T):
    first, last = interval(p)
    true = CHANGES[k] if k < len(CHANGES) else None
    print(f"change {k + 1}: best path day {best[k]}, 95% interval day {first} to {last}; truth {true}")

# %%
# The sharp changes appear as spikes. The small one is spread over many days: the data cannot locate it
# better.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(8.5, 5.2), sharex=True, height_ratios=[1.6, 1])
top.bar(np.arange(DAYS), counts[:, 0], width=1.0, color="0.8", label="events")
top.plot(rate, color="0.1", linestyle="--", linewidth=1.2, label="true rate")
top.plot(posterior @ emission.rates[:, 0], label="posterior mean")
top.set(
    ylabel="events per day",
    ylim=(0, 1.2 * counts.max()),
    title="The small change is the one that is hard to place",
)
top.legend(ncols=3, loc="upper right")
for k, p in enumerate(falls_on.T):
    bottom.bar(np.arange(DAYS), p, width=1.0, color=f"C{k}", label=f"change {k + 1}")
for day in CHANGES:
    bottom.axvline(day, color="0.1", linestyle="--", linewidth=1)
bottom.set(xlabel="day (dashed: the truth)", ylabel="P(change on this day)", xlim=(-1, DAYS))
bottom.legend(loc="upper left")
plt.show()
