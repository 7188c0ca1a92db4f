"""Sleep stages from a wrist band, without labels: a hidden Markov model with its certificates."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from trellis.cli.demo.drawings import certificates, state_strip
from trellis.cli.demo.story import Chapter, Picture, Printed, Sizes
from trellis.hmm import HMM, emissions

STAGES = ("awake", "light", "deep")
KINDS = {"awake": "bad", "light": "plain", "deep": "good"}
MINUTES = 120
_STAY = np.array([[0.90, 0.09, 0.01], [0.03, 0.92, 0.05], [0.01, 0.07, 0.92]])
_LEVELS = np.array([[70.0, 1.5], [61.0, 0.8], [55.0, 0.4]])  # beats a minute, movement
_SPREADS = np.array([[6.0, 0.8], [4.5, 0.5], [4.0, 0.4]])


def night(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The readings of a night, one in twenty missing, and its stages."""
    stages = np.zeros(MINUTES, int)
    for t in range(1, MINUTES):
        stages[t] = rng.choice(3, p=_STAY[stages[t - 1]])
    readings = _LEVELS[stages] + rng.normal(size=(MINUTES, 2)) * _SPREADS[stages]
    readings[rng.random(readings.shape) < 0.05] = np.nan
    return readings, stages


def tell(sizes: Sizes) -> Chapter:
    rng = np.random.default_rng(4)
    nights = [night(rng) for _ in range(sizes.nights)]
    X = [readings for readings, _ in nights]
    model = HMM(3, emission=emissions.Gaussian("diag"), n_init=3, random_state=0, verbose=False).fit(X)
    found, true = model.decode(X), [stages for _, stages in nights]
    names = max(permutations(range(3)), key=lambda order: _agreement(found, true, order))
    primal, dual = model.history_["primal"], model.history_["dual"]
    both = np.append(np.ravel(np.column_stack([primal[:-1], dual])), primal[-1])
    rise = max(0.0, float(np.diff(both).max()))
    strips = {
        "true stage": [STAGES[k] for k in true[0]],
        "found, no labels": [STAGES[names[k]] for k in found[0]],
    }
    parts = (
        f"The data are {sizes.nights} nights of heart rate and movement, with one value in twenty missing "
        "and no labels. EM finds three states. Named by their best match, they agree with the true stages on "
        f"{100 * _agreement(found, true, names):.1f} % of the minutes (on the data it learned from). EM says "
        "why it stopped:",
        Printed(str(model.status_)),
        f"EM is a DC algorithm with a primal and a dual certificate. Neither may rise: over {len(dual)} "
        f"iterations the largest rise of either was {rise:.1e}.",
        Picture(
            state_strip(X[0][:, 0], strips, KINDS),
            "The first night: heart rate (gaps are missing values), and the true and found stages: awake "
            "(red), light (grey), deep (green).",
        ),
        Picture(
            certificates(primal, dual), "Both certificates, measured from their last value: they only fall."
        ),
    )
    return Chapter("Hidden states: a night's sleep", parts)


def _agreement(found: list[np.ndarray], true: list[np.ndarray], order: tuple[int, ...]) -> float:
    return float(np.mean(np.array(order)[np.concatenate(found)] == np.concatenate(true)))
