"""Starting points of EM: given parameters are kept; the rest comes from k-means, known states or chance.

EM finds a nearby critical point, so several different starts are worth their time. ``"kmeans"`` clusters the
observations (the ``points`` of the emission) and counts transitions between clusters. ``"random"`` assigns
each observation to the nearest of K observations drawn at random; observations without distances (symbols)
get random posteriors of the states, the same for equal symbols. Known states replace all this: their rows
show what each state emits. One seed determines all starts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.hmm.emissions import Emission
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.observations import Observations
from trellis.hmm.transition_constraints import PARTS, TransitionConstraints

MAX_CLUSTERED = 20_000  # observations that k-means uses
KMEANS_STEPS = 30
UNKNOWN_WEIGHT = 0.1  # of all rows with unknown states, relative to those with known ones


def starting_points(
    observations: Observations,
    constraints: TransitionConstraints,
    emission: Emission,
    *,
    start: str,
    n_init: int,
    seed: int,
) -> Iterator[HMMParameters]:
    """``n_init`` first points; ``"auto"`` is k-means for the first and random for the others."""
    for i, child in enumerate(np.random.SeedSequence(seed).spawn(n_init)):
        method = start if start != "auto" else "kmeans" if i == 0 else "random"
        yield _starting_point(observations, constraints, emission, method, np.random.default_rng(child))


def _starting_point(
    observations: Observations,
    constraints: TransitionConstraints,
    emission: Emission,
    method: str,
    rng: np.random.Generator,
) -> HMMParameters:
    k = len(constraints.groups)
    initial, transitions = constraints.initial, constraints.transitions
    if emission.n_states is not None and initial is not None and transitions is not None:
        posteriors = np.full((observations.n_steps, k), 1.0 / k)
    else:
        posteriors = _first_posteriors(observations, k, emission, method, rng)
    emission = emission.initialise(observations.values, posteriors, rng)
    if emission.n_states != k:
        raise DataError(
            f"the emission has parameters for {emission.n_states} states, but n_states is {k}; they must be "
            "equal"
        )
    start, pairs = _soft_counts(posteriors, observations)
    if method == "random":  # random posteriors average out over a long sequence; random rows do not
        start, pairs = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), k)
    else:
        start, pairs = start + 1.0, pairs + 1.0
    uniform = np.full(k, 1.0 / k), np.full((k, k), 1.0 / k)
    everything = replace(constraints, learn=frozenset(PARTS))
    guess = everything.maximise(start * constraints.allowed_initial, pairs * constraints.allowed, *uniform)
    return HMMParameters(
        guess[0] if initial is None else initial, guess[1] if transitions is None else transitions, emission
    )


def _first_posteriors(
    observations: Observations, k: int, emission: Emission, method: str, rng: np.random.Generator
) -> FloatArray:
    """First posteriors (N, K)."""
    if observations.known is not None:
        return _known_posteriors(observations.known, k)
    points = emission.points(observations.values)
    if points.shape[1] == 0:
        return _random_posteriors(observations.values, k, rng)
    if method == "kmeans":
        return np.eye(k)[_kmeans(points, k, rng)]
    centres = points[rng.choice(len(points), k, replace=len(points) < k)]
    return np.eye(k)[_nearest(points, centres)]


def _known_posteriors(known: NDArray[np.int64], k: int) -> FloatArray:
    """One for the known states; small and equal posteriors elsewhere, for the sake of states never seen."""
    unknown = known < 0
    posteriors = np.eye(k)[np.where(unknown, 0, known)]
    if unknown.any():
        weight = UNKNOWN_WEIGHT * max(1.0, float((~unknown).sum())) / float(unknown.sum())
        posteriors[unknown] = min(weight, 1.0) / k
    return posteriors


def _random_posteriors(values: NDArray[Any], k: int, rng: np.random.Generator) -> FloatArray:
    _, index = np.unique(values, axis=0, return_inverse=True)
    posteriors: FloatArray = rng.dirichlet(np.ones(k), int(index.max(initial=-1)) + 1)[index.ravel()]
    return posteriors


def _kmeans(points: FloatArray, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    seen = points
    if len(points) > MAX_CLUSTERED:
        seen = points[rng.choice(len(points), MAX_CLUSTERED, replace=False)]
    distinct = len(np.unique(seen, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster keeps its centre
        centres, _ = kmeans2(seen, min(k, distinct), iter=KMEANS_STEPS, minit="++", seed=rng)
    return _nearest(points, centres)


def _nearest(points: FloatArray, centres: FloatArray) -> NDArray[np.int64]:
    """The index of the nearest centre, by |x - c|^2 = |c|^2 - 2 x.c + constant."""
    distance = (centres**2).sum(axis=1) - 2.0 * points @ centres.T
    return np.asarray(distance.argmin(axis=1))


def _soft_counts(posteriors: FloatArray, observations: Observations) -> tuple[FloatArray, FloatArray]:
    """Expected counts of first states and transitions, as if steps were independent."""
    offsets = observations.offsets
    begins = offsets[:-1][np.diff(offsets) > 0]
    after = posteriors.copy()
    after[begins] = 0.0
    return posteriors[begins].sum(axis=0), posteriors[:-1].T @ after[1:]
