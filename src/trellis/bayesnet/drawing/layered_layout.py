"""A layered layout of a directed acyclic graph: edges point downwards, with few crossings.

The steps of Sugiyama, Tagawa and Toda (1981): a layer for each node by its longest path from above; an
invisible node wherever an edge crosses a layer; in each layer the order of the means of the neighbours,
swept down and up, the order with the fewest crossings being kept; and then places that are as near to the
neighbours' mean as the order and the widths allow, which is an isotonic regression.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

_SWEEPS = 12
_GAP = 0.5
_ALONE = 8  # nodes without edges in one row, at least

Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Positions of the nodes (y grows upwards, layers are 1 apart) and, for each edge, points along it."""

    places: list[Point]
    routes: list[list[Point]]


def layered_layout(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> Layout:
    """The layout of nodes with these widths and edges, which form no cycle."""
    n = len(widths)
    layer = _layers(n, edges)
    up: list[list[int]] = [[] for _ in range(n)]
    down: list[list[int]] = [[] for _ in range(n)]
    wide = list(widths)
    routes = []
    for tail, head in edges:
        route = [tail]
        for level in range(layer[tail] + 1, layer[head]):
            route.append(len(wide))
            wide.append(0.1)
            layer.append(level)
            up.append([])
            down.append([])
        route.append(head)
        for a, b in pairwise(route):
            down[a].append(b)
            up[b].append(a)
        routes.append(route)
    levels: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for v, level in enumerate(layer):
        levels[level].append(v)
    levels = _order_layers(levels, up, down)
    x = _place_nodes(levels, up, down, wide)
    at = [(x[v], -float(layer[v])) for v in range(len(wide))]
    return Layout(at[:n], [[at[v] for v in route] for route in routes])


def _layers(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path from above; nodes without parents come down to just above their children, and those
    without any edge fill rows of their own if there are more of them than look well in one."""
    layer = [0] * n
    below: list[list[int]] = [[] for _ in range(n)]
    waiting = [0] * n
    for tail, head in edges:
        below[tail].append(head)
        waiting[head] += 1
    roots = [v for v in range(n) if waiting[v] == 0]
    ready = list(roots)
    while ready:
        v = ready.pop()
        for w in below[v]:
            layer[w] = max(layer[w], layer[v] + 1)
            waiting[w] -= 1
            if waiting[w] == 0:
                ready.append(w)
    for v in roots:
        if below[v]:
            layer[v] = min(layer[w] for w in below[v]) - 1
    alone = [v for v in roots if not below[v]]
    row = max(_ALONE, math.ceil(math.sqrt(2 * len(alone))))
    for i, v in enumerate(alone):
        layer[v] = i // row
    return layer


def _order_layers(levels: list[list[int]], up: list[list[int]], down: list[list[int]]) -> list[list[int]]:
    best, fewest = levels, _crossings(levels, down)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        turn = 1.0 if sweep % 4 < 2 else -1.0  # equal means change places in every other pair of sweeps
        levels = [list(level) for level in levels]
        near = up if downwards else down
        steps = list(pairwise(range(len(levels))))
        for a, b in steps if downwards else [(b, a) for a, b in reversed(steps)]:
            place = {v: i for i, v in enumerate(levels[a])}
            old = {v: float(i) for i, v in enumerate(levels[b])}
            mean = {v: _mean([place[w] for w in near[v]], old[v]) for v in levels[b]}
            levels[b] = sorted(levels[b], key=lambda v: (mean[v], turn * old[v]))
        crossings = _crossings(levels, down)
        if crossings < fewest:
            best, fewest = levels, crossings
    return best


def _crossings(levels: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    """Pairs of lines between neighbouring layers that cross: inversions of the order of their lower ends."""
    total = 0
    for upper, lower in pairwise(levels):
        place = {v: i for i, v in enumerate(lower)}
        passed: list[int] = []
        for v in upper:
            ends = sorted(place[w] for w in down[v])
            total += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return total


def _place_nodes(
    levels: Sequence[Sequence[int]],
    up: Sequence[Sequence[int]],
    down: Sequence[Sequence[int]],
    widths: Sequence[float],
) -> list[float]:
    x = [0.0] * len(widths)
    least = []  # of each layer: how far each node is from the first at least
    for level in levels:
        apart = [(widths[a] + widths[b]) / 2 + _GAP for a, b in pairwise(level)]
        least.append(np.cumsum([0.0, *apart]))
        for v, place in zip(level, least[-1] - least[-1][-1] / 2, strict=True):
            x[v] = float(place)
    for sweep in range(_SWEEPS):
        turn = range(len(levels)) if sweep % 2 == 0 else reversed(range(len(levels)))
        for i in turn:
            wanted = [_mean([x[w] for w in (*up[v], *down[v])], x[v]) for v in levels[i]]
            for v, place in zip(levels[i], _isotonic(np.array(wanted) - least[i]) + least[i], strict=True):
                x[v] = float(place)
    return x


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _isotonic(wanted: np.ndarray) -> np.ndarray:
    """The nearest values (least squares) that never fall: neighbours that would fall are pooled."""
    pools: list[tuple[float, int]] = []
    for value in wanted.tolist():
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n)]
    return np.repeat([mean for mean, _ in pools], [size for _, size in pools])
