"""
Spectral learning against EM: time and accuracy
===============================================

EM climbs from its starting point, pass after pass. Spectral learning counts triples of symbols and computes
one singular value decomposition: there is nothing to iterate and nothing to restart. Here both learn the
same hidden Markov model from more and more sequences. They are judged by how far they are from the truth on
new sequences.
"""

# %%
# The model has four states and eight symbols. It is known, so there is a best possible score on new
# sequences.

import time
import warnings
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np

from trellis import HMM, SpectralHMM, emissions
from trellis.hmm.spectral import SpectralWarning

K, SYMBOLS, LENGTH = 4, 8, 10
SIZES = (1000, 2000, 5000, 10_000)
rng = np.random.default_rng(0)
truth = HMM(
    K,
    emissions.Categorical(SYMBOLS, rng.dirichlet(np.full(SYMBOLS, 0.3), K)),
    initial=np.full(K, 1 / K),
    transitions=0.6 * np.eye(K) + 0.4 * rng.dirichlet(np.ones(K), K),
)
X, _ = truth.sample([LENGTH] * SIZES[-1], random_state=1)
new, _ = truth.sample([LENGTH] * 4000, random_state=2)
best = truth.score(new)

# %%
# Three learners are compared: spectral learning, EM from one start, and EM from the result of spectral
# learning. Their loss, in nats per symbol of new sequences, is 0 for the true model. From few triples,
# spectral learning may estimate small probabilities as negative; these are raised to a floor, with a
# warning that is silenced here.

warnings.simplefilter("ignore", SpectralWarning)
LEARNERS: dict[str, Callable[[list[np.ndarray]], HMM | SpectralHMM]] = {
    "spectral": lambda x: SpectralHMM(K, random_state=0).fit(x),
    "EM": lambda x: HMM(K, emissions.Categorical(SYMBOLS), max_iter=300, random_state=0).fit(x),
    "spectral, then EM": lambda x: SpectralHMM(K, random_state=0).fit(x).to_hmm(max_iter=300).fit(x),
}
seconds, lost = (np.zeros((len(LEARNERS), len(SIZES))) for _ in range(2))
for learn in LEARNERS.values():
    learn(X[: SIZES[0]])  # whatever must be compiled is compiled here
for i, (name, learn) in enumerate(LEARNERS.items()):
    for j, n in enumerate(SIZES):
        began = time.process_time()
        model = learn(X[:n])
        seconds[i, j] = time.process_time() - began
        lost[i, j] = best - model.score(new)
    print(f"{name:18} of {SIZES[-1]} sequences: loses {lost[i, -1]:.5f} nats, takes {seconds[i, -1]:.2f} s")

# %%
# Spectral learning takes a fraction of the time. EM makes better use of the same data: it sees whole
# sequences, where spectral learning sees triples. Together they reach EM's accuracy in a part of its time,
# because EM needs fewer passes from the spectral start than from its own.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
for i, name in enumerate(LEARNERS):
    left.loglog(SIZES, lost[i], "osD"[i] + "-", label=name)
    right.loglog(SIZES, seconds[i], "osD"[i] + "-")
left.set(
    xlabel="sequences", ylabel="nats per symbol below the truth", title="EM loses less on new sequences ..."
)
left.legend()
right.set(xlabel="sequences", ylabel="processor seconds", title="... and takes far longer")
plt.show()
