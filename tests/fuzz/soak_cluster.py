"""Kill random workers, and at times the scheduler, under jobs on a small cluster: the numbers stay the same.

``JOBS`` are functions of a backend that give bytes, or anything that can be compared: a fit, and what it
learned. Each must give on the cluster, under fire, what it gives on threads.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil

import shard_questions as sq
from small_cluster import SmallCluster, small_cluster
from trellis.core.backends import Backend
from trellis.core.backends.dask_backend import DaskBackend
from trellis.core.backends.local_backend import LocalBackend

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


JOBS: dict[str, Callable[[Backend], Any]] = {"long sum": long_sum}


def soak_cluster(runs: int, rng: random.Random) -> None:
    """Each job ``runs`` times under fire; says what was done, or fails by an ``AssertionError``."""
    logging.getLogger("trellis").setLevel(logging.ERROR)
    for name, job in JOBS.items():
        expected = job(LocalBackend(1))
        faults = {"workers killed": 0, "schedulers killed": 0}
        repeats = remade = 0
        for _ in range(runs):
            with small_cluster(3) as cluster:
                backend = DaskBackend(cluster.address)
                with Fire(cluster, faults, rng):
                    found = job(backend)
                assert found == expected, f"{name}: the numbers differ"
                repeats, remade = repeats + backend.traffic.repeats, remade + backend.traffic.remade
                backend.close()
        said = ", ".join(f"{count} {kind}" for kind, count in faults.items())
        print(
            f"{name} on a cluster: {runs} runs, {said}; {repeats} questions asked again, {remade} shards "
            "made again, the same bits",
            flush=True,
        )


class Fire:
    """Faults beside the block, until it ends."""

    def __init__(self, cluster: SmallCluster, faults: dict[str, int], rng: random.Random) -> None:
        self._cluster, self._faults, self._rng = cluster, faults, rng
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._rng.uniform(0.2, PAUSE)):
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
