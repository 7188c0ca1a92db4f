"""Kill random workers, and at times the scheduler, under jobs on a small cluster: the numbers stay the same.

``JOBS`` are functions of a backend that give bytes, or anything that can be compared: a fit, and what it
learned. Each must give on the cluster, under fire, what it gives on threads.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import psutil

import shard_questions as sq
from small_cluster import SmallCluster, small_cluster
from trellis import HMM, SequenceLabeler
from trellis.core.backends import Backend
from trellis.core.backends.dask_backend import DaskBackend
from trellis.core.backends.local_backend import LocalBackend
from trellis.hmm.emissions import Gaussian

SHARDS, STEPS = 12, 100
PAUSE = 12.0  # seconds between two faults, at most: a worker takes some to start
SCHEDULER = 0.15  # of the faults that hit the scheduler


def long_sum(backend: Backend) -> bytes:
    """A walk whose every step is a sum over all shards; rounding in one step changes all later ones."""
    placed = backend.place(sq.make, range(SHARDS)).change(sq.doubled)
    point = np.zeros(sq.SIZE)
    for _ in range(STEPS):
        value, direction = placed.total(sq.pull, point, 0.02)
        point = np.tanh(point - 0.1 * direction + 1e-3 * value)
    placed.release()
    return point.tobytes()


def crf_fit(backend: Backend) -> bytes:
    """The weights of a CRF after many iterations of L-BFGS."""
    rng = np.random.default_rng(0)
    tags = [rng.integers(0, 5, 12).tolist() for _ in range(600)]
    words = [[f"w{(7 * tag + int(rng.integers(9))) % 40}" for tag in sentence] for sentence in tags]
    model = SequenceLabeler(solver="lbfgs", l2=1e-3, delta=0.0, max_iter=60, backend=backend, verbose=False)
    return model.fit(words, tags).weights_.tobytes()


def em_fit(backend: Backend) -> bytes:
    """The parameters of a hidden Markov model after many iterations of EM."""
    rng = np.random.default_rng(1)
    X = [rng.normal(rng.integers(0, 3, 40)[:, None], 1.0, (40, 2)) for _ in range(200)]
    model = HMM(n_states=3, emission=Gaussian("full"), tol=0.0, max_iter=60, random_state=0, backend=backend)
    model.fit(X)
    return model.transitions_.tobytes() + np.array(model.history_["log_likelihood"]).tobytes()


JOBS: dict[str, Callable[[Backend], Any]] = {"long sum": long_sum, "CRF": crf_fit, "EM": em_fit}


def soak_cluster(
    runs: int, rng: random.Random, minutes: float | None = None, jobs: Sequence[str] = tuple(JOBS)
) -> int:
    """Each job ``runs`` times under fire, and again until its share of ``minutes`` is over; the fire ends
    then, too. Says what was done, or fails by an ``AssertionError``; returns the number of faults."""
    logging.getLogger("trellis").setLevel(logging.ERROR)
    total = 0
    for name in jobs:
        job = JOBS[name]
        expected = job(LocalBackend(1))
        faults = {"workers killed": 0, "schedulers killed": 0}
        repeats = remade = done = 0
        end = math.inf if minutes is None else time.monotonic() + 60.0 * minutes / len(jobs)
        while done < runs or (minutes is not None and time.monotonic() < end):
            done += 1
            with small_cluster(3) as cluster:
                backend = DaskBackend(cluster.address)
                with Fire(cluster, faults, rng, end):
                    found = job(backend)
                assert found == expected, f"{name}: the numbers differ"
                repeats, remade = repeats + backend.traffic.repeats, remade + backend.traffic.remade
                backend.close()
        said = ", ".join(f"{count} {kind}" for kind, count in faults.items())
        print(
            f"{name} on a cluster: {done} runs, {said}; {repeats} questions asked again, {remade} shards "
            "made again, the same bits",
            flush=True,
        )
        total += sum(faults.values())
    return total


class Fire:
    """Faults beside the block, until it ends, or until ``end``."""

    def __init__(
        self, cluster: SmallCluster, faults: dict[str, int], rng: random.Random, end: float = math.inf
    ) -> None:
        self._cluster, self._faults, self._rng, self._end = cluster, faults, rng, end
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._rng.uniform(0.2, PAUSE)) and time.monotonic() < self._end:
            if self._rng.random() < SCHEDULER:
                self._cluster.kill_scheduler()
                self._over.wait(self._rng.uniform(0.0, 2.0))
                self._cluster.start_scheduler()
                self._faults["schedulers killed"] += 1
            else:
                try:
                    self._cluster.kill_worker(self._rng.randrange(len(self._cluster.workers)))
                except psutil.NoSuchProcess:  # one that has ended, or is being started
                    continue
                self._faults["workers killed"] += 1
            self._cluster.start_missing()
