"""What the machine can do at most: bandwidth of its caches and memory, and floating-point operations.

Bandwidth is that of a triad, a[i] = b[i] + s c[i], as in STREAM: 24 bytes for each i (a cache that reads a
line before it writes it moves 32; they are not counted). Operations are multiply-adds on vectors in
registers, two each. A thread is timed by its own clock, so that other programs on the machine count as
little as they can; two threads run side by side, and their rates are added.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
USUAL = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}  # where the system does not tell
WIDTH, CHAINS = 8, 12  # numbers in a vector; sums at work at once, to hide how long one takes
MOST_BYTES = 3 << 29


class Level(NamedTuple):
    """A cache or the memory: its size (of a core, or shared), and bytes a second by number of threads."""

    name: str
    size: float
    measured_with: int
    bandwidth: dict[int, float]


class Machine(NamedTuple):
    levels: list[Level]
    flops: dict[int, float]

    def level_of(self, working_set: float) -> Level:
        """Where data of this size are: the first level that holds them and what comes and goes beside."""
        for level in self.levels[:-1]:
            if working_set <= 0.75 * level.size:
                return level
        return self.levels[-1]


@njit(nogil=True, fastmath=True)
def _triad(a, b, c, s, repeats):  # type: ignore[no-untyped-def]
    for r in range(repeats):
        x = s + r
        for i in range(a.shape[0]):
            a[i] = b[i] + x * c[i]


@intrinsic
def _multiply_adds(typingctx: Any, factor: Any, term: Any, n: Any) -> Any:
    """n rounds of x = x * factor + term on CHAINS vectors of WIDTH numbers; the sum of all of them."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, index = ir.VectorType(ir.DoubleType(), WIDTH), ir.IntType(64)

        def splat(scalar: Any) -> Any:
            nothing = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(nothing, scalar, index(0))
            places = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
            return builder.shuffle_vector(one, nothing, places)

        factors, terms, rounds = splat(arguments[0]), splat(arguments[1]), arguments[2]
        before, loop = builder.block, builder.append_basic_block("round")
        after = builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        k, chains = builder.phi(index), [builder.phi(vector) for _ in range(CHAINS)]
        fresh = [
            builder.fadd(builder.fmul(x, factors, flags=("contract",)), terms, flags=("contract",))
            for x in chains
        ]
        following = builder.add(k, index(1))
        k.add_incoming(index(0), before)
        k.add_incoming(following, loop)
        for i, (chain, value) in enumerate(zip(chains, fresh, strict=True)):
            chain.add_incoming(ir.Constant(vector, [1.0 + i + 0.1 * lane for lane in range(WIDTH)]), before)
            chain.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, rounds), loop, after)
        builder.position_at_end(after)
        total = fresh[0]
        for value in fresh[1:]:
            total = builder.fadd(total, value)
        found = builder.extract_element(total, index(0))
        for lane in range(1, WIDTH):
            found = builder.fadd(found, builder.extract_element(total, index(lane)))
        return found

    return types.float64(types.float64, types.float64, types.intp), build


@njit(nogil=True)
def _fma_loop(factor, term, n):  # type: ignore[no-untyped-def]
    return _multiply_adds(factor, term, n)


def cache_sizes() -> dict[str, int]:
    """Bytes of the data caches of a core."""
    found: dict[str, int] = {}
    for folder in sorted(CACHES.glob("index*")):
        kind = (folder / "type").read_text().strip()
        size = re.fullmatch(r"(\d+)([KM]?)", (folder / "size").read_text().strip())
        if kind != "Instruction" and size:
            unit = {"": 1, "K": 1 << 10, "M": 1 << 20}[size[2]]
            found[f"L{(folder / 'level').read_text().strip()}"] = int(size[1]) * unit
    return found or dict(USUAL)


def rate(work: Callable[[int], Callable[[], float]], threads: int, seconds: float) -> float:
    """What ``threads`` do a second, each by its own clock: ``work(number)()`` does some and says how much."""

    def alone(number: int) -> float:
        run, best = work(number), 0.0
        run()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.thread_time()
            done = run()
            best = max(best, done / max(time.thread_time() - began, 1e-9))
        return best

    if threads == 1:
        return alone(0)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(alone, range(threads)))


def triad(n_bytes: float) -> Callable[[int], Callable[[], float]]:
    """Work on three arrays of together ``n_bytes`` for each thread, some ten milliseconds at a time."""
    n = max(64, int(n_bytes / 24))

    def of_thread(number: int) -> Callable[[], float]:
        a, b, c = np.zeros(n), np.full(n, 1.0 + number), np.full(n, 2.0)
        repeats = max(1, 10_000_000 // n)

        def run() -> float:
            _triad(a, b, c, 0.5, repeats)
            return 24.0 * n * repeats

        return run

    return of_thread


def multiply_adds(number: int) -> Callable[[], float]:
    rounds = 400_000

    def run() -> float:
        _fma_loop(0.999, 1e-3, rounds)
        return 2.0 * WIDTH * CHAINS * rounds

    return run


def measure(threads: tuple[int, ...] = (1, 2), *, quick: bool = False) -> Machine:
    """Bandwidth at every level, in arrays that half fill it (four times the last cache for the memory, if
    that is not more than MOST_BYTES), and operations a second. ``quick``: for milliseconds, in little
    memory."""
    seconds, most = (0.02, 1 << 26) if quick else (1.0, MOST_BYTES)
    levels = []
    sizes = cache_sizes()
    for name, size in [*sizes.items(), ("memory", np.inf)]:
        last = name == "memory"
        used = min(4.0 * max(sizes.values()) if last else size / 2, most)
        rates = {n: rate(triad(used), n, seconds) for n in threads}
        levels.append(Level(name, float(size), int(used), rates))
    return Machine(levels, {n: rate(multiply_adds, n, seconds) for n in threads})
