"""One iteration of training on many workers, simulated from measured costs.

An iteration sends D weights to W workers, each of which works through its shards in one task and adds up
their gradients; sums are joined from worker to worker, in pairs; the client takes a step of its solver. Where
the states of a worker do not fit into its memory, each of the S shards is a task of its own.
With the times t_s of shards drawn at random around their mean (log-normal, ``spread`` as measured),

    send       ceil(log2(W + 1)) (latency + 8 D / bandwidth)           from worker to worker, a tree
    work       max over workers of the sum of t_s over their shards, t_s = tokens c + overhead
    add        ceil(log2(W)) (latency + (8 D / compression) / bandwidth + 8 D add)
    schedule   (2 P - 1) task                                           P = W, or S: answered, and joined
    step       8 D step                                                 on the client

The scheduler works while workers do, so an iteration takes send + max(work + add, schedule) + step. With
``local_steps`` = k, workers take k steps on their own shards before weights are mixed: everything but work is
paid once in k. Efficiency on W workers is the sum of all t_s over W times the time of the iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from trellis.core.arrays import FloatArray

BYTES = 8  # of a weight


@dataclass(frozen=True)
class Costs:
    """Seconds, bytes and bytes per second, as measured, or as a network promises."""

    token: float  # seconds of a token on one core
    overhead: float  # seconds of a shard beside its tokens
    spread: float  # deviation of the logarithm of the time of a shard
    latency: float  # seconds of a message
    bandwidth: float  # bytes per second between two machines
    add: float  # seconds to add one byte of a gradient
    task: float  # seconds of the scheduler for a task
    step: float  # seconds of the solver for one byte of weights


@dataclass(frozen=True)
class Job:
    tokens: float
    weights: int
    shard_tokens: float = 200_000.0
    compression: float = 1.0  # of gradients, on the line
    local_steps: int = 1
    held: float = 1.6e7  # tokens whose states a worker holds: 490 bytes each, in half of 16 GB

    @property
    def shards(self) -> int:
        return max(1, math.ceil(self.tokens / self.shard_tokens))


def tasks(job: Job, workers: int) -> int:
    """Of the scheduler in one iteration: an answer for each worker (or shard), joined in pairs; a sum that is
    not joined with any is packed all the same."""
    busy = min(workers, job.shards)
    answers = busy if job.tokens <= busy * job.held else job.shards
    return max(2 * answers - 1, 2)


@dataclass(frozen=True)
class Iteration:
    """Seconds of the parts; ``efficiency`` is the share of the workers' time that is work."""

    send: float
    work: float
    add: float
    schedule: float
    step: float
    efficiency: float

    @property
    def seconds(self) -> float:
        return self.send + max(self.work + self.add, self.schedule) + self.step


def iteration(costs: Costs, job: Job, workers: int, seed: int = 0) -> Iteration:
    """One iteration (with local steps: the share of one pass over the data) on ``workers`` workers, of whom
    no more than there are shards have work."""
    busy = min(workers, job.shards)
    size = BYTES * job.weights
    sums = _work_of_workers(costs, job, busy, np.random.default_rng(seed))
    send = math.ceil(math.log2(busy + 1)) * (costs.latency + size / costs.bandwidth)
    levels = math.ceil(math.log2(busy)) if busy > 1 else 0
    add = job.shards / busy * size * costs.add
    add += levels * (costs.latency + size / job.compression / costs.bandwidth + size * costs.add)
    schedule, step = tasks(job, workers) * costs.task, size * costs.step
    k = job.local_steps
    found = Iteration(send / k, float(sums.max()), add / k, schedule / k, step / k, 0.0)
    return replace(found, efficiency=float(sums.sum()) / (workers * found.seconds))


def _work_of_workers(costs: Costs, job: Job, busy: int, rng: np.random.Generator) -> FloatArray:
    """Seconds of each. Of many shards a worker's sum is normal, by the central limit theorem; of few it is
    drawn."""
    mean = job.tokens / job.shards * costs.token + costs.overhead
    each, more = divmod(job.shards, busy)
    counts = np.full(busy, each) + (np.arange(busy) < more)
    if not costs.spread:
        return np.asarray(mean * counts)
    if job.shards <= 100_000:
        drawn = rng.lognormal(-0.5 * costs.spread**2, costs.spread, job.shards)
        return np.asarray(mean * np.add.reduceat(drawn, np.concatenate([[0], np.cumsum(counts)[:-1]])))
    deviation = math.sqrt(math.expm1(costs.spread**2))
    return np.asarray(mean * (counts + deviation * np.sqrt(counts) * rng.normal(size=busy)))


def pays_until(costs: Costs, job: Job, most: int, efficiency: float = 0.5) -> int:
    """The largest number of workers, in powers of two up to ``most``, that spend at least that share of their
    time on work."""
    best = 1
    for power in range(int(math.log2(most)) + 1):
        if iteration(costs, job, 2**power).efficiency >= efficiency:
            best = 2**power
    return best
