# mypy: allow-untyped-defs
"""Parts of a sequence whose labellings combine freely, so that each has a simplex of its own.

A sentence with three unclear places of four readings each has 64 labellings, and as many planes. Where a
step has the gold label in every plane of the cache, what comes before and after it may be combined at will:
with a loss that is a sum over steps,

    m(y) = sum over parts p of m_p(y_p),

parts being the maximal runs of steps without such a cut. The convex hull of combinations is the product of
the hulls, and w and the dual depend on the sums sum_c alpha_c g_c and sum_c alpha_c b_c alone. So a plane is
kept for one part (its labels are gold elsewhere), masses add up to 1 in each part, and twelve planes do the
work of 64.

A labelling that reaches across a cut unites the parts that it touches. Any joint masses with the old ones
as marginals leave w and the dual as they are; those of the north-west corner rule are the fewest:

    walk down both lists of planes, each cell taking as much mass as its row and its column have left.

Heights, offsets and inner products of the united planes are sums of old ones: no feature is visited.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.passes.plane_cache_kernels import free_slot, insert_plane, plane_path
from trellis.structures.chain.problem.objective_kernels import path_cost
from trellis.structures.chain.scores.linear_chain_kernels import score_edges, score_features

EQUAL = 1e-12  # relative: a plane no higher than the cached ones by more than this is one of them


@kernel
def score_change(work, path, gold, first, last):
    """s(path) - s(gold), which differ in steps first..last-1 only."""
    u, a, n = work.u, work.a, gold.shape[0]
    step = 0 if a.shape[0] == 1 else 1
    total = 0.0
    for t in range(first, last):
        total += u[t, path[t]] - u[t, gold[t]]
    for t in range(max(first, 1), min(last + 1, n)):
        total += a[t * step, path[t - 1], path[t]] - a[t * step, gold[t - 1], gold[t]]
    if first == 0:
        total += work.start[path[0]] - work.start[gold[0]]
    if last == n:
        total += work.end[path[n - 1]] - work.end[gold[n - 1]]
    return total


@kernel
def score_parts(design, rows, w, penalties, cache, i, work):
    """The scores of the steps that are in some part, which is all that :func:`plane_values` reads."""
    begin = design.offsets[i]
    for c in range(cache.used[i]):
        if cache.coefficient[i, c] == 0.0:
            first, last = cache.first[i, c], cache.last[i, c]
            score_features(design, rows.label, w, begin + first, begin + last, work.u[first:])
    if work.a.shape[0] > 1:
        score_edges(design, w, penalties, i, work.a[: design.offsets[i + 1] - design.offsets[i]])


@kernel
def plane_values(design, work, cache, i, gold, m, before):
    """m_c of the cached planes from the scores in ``work``, and the alphas into ``before``; returns the
    largest value of a combination of them, and their mean."""
    count, first, coefficient = cache.used[i], cache.first[i], cache.coefficient[i]
    top, mean = 0.0, 0.0
    for c in range(count):
        before[c], m[c] = cache.alpha[i, c], 0.0
        if coefficient[c] != 0.0:
            path = plane_path(cache, design, i, c)
            change = score_change(work, path, gold, first[c], cache.last[i, c])
            m[c] = cache.offset[i, c] + coefficient[c] * change
        mean += before[c] * m[c]
    for part in range(count):
        if coefficient[part] == 0.0:
            top += _highest(first, m, count, first[part])
    return top, mean


@kernel
def _highest(first, m, count, part):
    """The largest value in a part, at least 0: that of the gold labelling."""
    top = 0.0
    for c in range(count):
        if first[c] == part:
            top = max(top, m[c])
    return top


@kernel
def add_labelling(
    formula, loss_kind, design, rows, mask, cost, cache, i, gold, work, coefficient, separable, m, before,
    piece, scratch, position, value,
):  # fmt: skip
    """Take ``work.up`` into the cache, part by part; returns how many planes found no room.

    ``m`` and ``before`` are kept in step with the slots; ``piece``: scratch for a labelling. Where the
    objective is not ``separable`` the whole sequence is one part.
    """
    n, up, crowded = gold.shape[0], work.up, 0
    for t in range(n):
        piece[t] = 1 if not separable or up[t] != gold[t] else 0  # whether the step is in some part
    for c in range(cache.used[i]):
        for t in range(cache.first[i, c], cache.last[i, c]):
            piece[t] = 1
    bounds = np.empty(n + 1, np.int64)
    n_bounds = 0
    for t in range(n):
        if (piece[t] != 0) != (t > 0 and piece[t - 1] != 0):
            bounds[n_bounds] = t
            n_bounds += 1
    bounds[n_bounds] = n
    for p in range(0, n_bounds, 2):
        begin, end = bounds[p], bounds[p + 1]
        differs = False
        for t in range(n):
            inside = begin <= t < end and up[t] != gold[t]
            piece[t] = up[t] if inside else gold[t]
            differs |= inside
        if not differs:
            continue
        _unite(cache, design, i, begin, end, m)
        offset = formula.loss_scale * path_cost(loss_kind, cost, gold, piece, n)
        height = offset + coefficient * score_change(work, piece, gold, begin, end)
        top = _highest(cache.first[i], m, cache.used[i], begin)
        if height <= top + EQUAL * (1.0 + abs(height)):
            continue
        slot = -1
        if _has_gold(cache, design, i, begin, end, gold, m):
            slot = free_slot(cache, i, m)
        if slot < 0:
            crowded += 1
            continue
        cache.first[i, slot], cache.last[i, slot] = begin, end
        insert_plane(
            design, rows, mask, cache, i, slot, gold, piece, offset, coefficient, scratch, position, value
        )
        m[slot] = height
    for c in range(cache.used[i]):
        before[c] = cache.alpha[i, c]
    return crowded


@kernel
def _has_gold(cache, design, i, begin, end, gold, m):
    """Whether the part has a slot for the gold labelling; a new part gets one, with all the mass."""
    for c in range(cache.used[i]):
        if cache.first[i, c] == begin and cache.coefficient[i, c] == 0.0:
            return True
    slot = free_slot(cache, i, m)
    if slot < 0:
        return False
    path = plane_path(cache, design, i, slot)
    for t in range(path.shape[0]):
        path[t] = gold[t]
    cache.alpha[i, slot], cache.offset[i, slot], cache.coefficient[i, slot], m[slot] = 1.0, 0.0, 0.0, 0.0
    cache.first[i, slot], cache.last[i, slot] = begin, end
    for c in range(cache.used[i]):
        cache.gram[i, slot, c] = cache.gram[i, c, slot] = 0.0
    return True


@kernel
def _unite(cache, design, i, begin, end, m):
    """Make one part, with the bounds ``begin`` and ``end``, of all parts inside them."""
    first = cache.first[i]
    while True:
        left, right = end, end  # the first steps of the two leftmost parts
        for c in range(cache.used[i]):
            if begin <= first[c] < left:
                left, right = first[c], left
            elif left < first[c] < right:
                right = first[c]
        if right == end:
            break
        _couple(cache, design, i, left, right, m)
    for c in range(cache.used[i]):
        if begin <= first[c] < end:
            first[c], cache.last[i, c] = begin, end


@kernel
def _with_mass(cache, i, part, slots):
    """The slots of a part that have mass, and that of the gold labelling before them; returns how many."""
    count = 1
    for c in range(cache.used[i]):
        if cache.first[i, c] == part:
            if cache.coefficient[i, c] == 0.0:
                slots[0] = c
            elif cache.alpha[i, c] > 0.0:
                slots[count] = c
                count += 1
    return count


@kernel
def _couple(cache, design, i, left, right, m):
    """The masses of two parts become those of one, by the north-west corner rule."""
    used = cache.used[i]
    alpha, first = cache.alpha[i], cache.first[i]
    rows, columns = np.empty(used, np.int64), np.empty(used, np.int64)
    source, mass = np.empty((used, 2), np.int64), np.empty(used)
    count = 0
    for c in range(used):
        if first[c] != left and first[c] != right:
            source[count, 0], source[count, 1], mass[count] = c, -1, alpha[c]
            count += 1
    n_rows, n_columns = _with_mass(cache, i, left, rows), _with_mass(cache, i, right, columns)
    x, y = 0, 0
    row_left, column_left = alpha[rows[0]], alpha[columns[0]]
    while True:
        share = min(row_left, column_left)
        if share > 0.0 or x + y == 0:  # both gold: kept without mass too
            source[count, 0], source[count, 1], mass[count] = rows[x], columns[y], share
            count += 1
        row_left -= share
        column_left -= share
        if x + 1 < n_rows and (row_left <= column_left or y + 1 == n_columns):
            x += 1
            row_left = alpha[rows[x]]
        elif y + 1 < n_columns:
            y += 1
            column_left = alpha[columns[y]]
        else:
            break
    _combine(cache, design, i, source, mass, count, left, right, m)


@kernel
def _combine(cache, design, i, source, mass, count, left, right, m):
    """Slot x becomes the sum of the slots source[x, 0] and source[x, 1] (-1: none)."""
    used, n = cache.used[i], design.offsets[i + 1] - design.offsets[i]
    old_m, old_offset, old_gram = m[:used].copy(), cache.offset[i].copy(), cache.gram[i].copy()
    old_coefficient = cache.coefficient[i].copy()
    old_first, old_last = cache.first[i].copy(), cache.last[i].copy()
    paths = np.empty((count, n), np.int32)
    for x in range(count):
        a, b = source[x, 0], source[x, 1]
        path = plane_path(cache, design, i, a)
        for t in range(n):
            paths[x, t] = path[t]
        if b >= 0:
            path = plane_path(cache, design, i, b)
            for t in range(old_first[b], old_last[b]):
                paths[x, t] = path[t]
    for x in range(count):
        a, b = source[x, 0], source[x, 1]
        cache.alpha[i, x] = mass[x]
        cache.offset[i, x], m[x] = old_offset[a], old_m[a]
        cache.coefficient[i, x] = old_coefficient[a]
        cache.first[i, x], cache.last[i, x] = old_first[a], old_last[a]
        if b >= 0:
            cache.offset[i, x] += old_offset[b]
            m[x] += old_m[b]
            cache.coefficient[i, x] = max(old_coefficient[a], old_coefficient[b])
            cache.first[i, x], cache.last[i, x] = left, old_last[b]
        for y in range(count):
            c, d = source[y, 0], source[y, 1]
            product = old_gram[a, c]
            if b >= 0:
                product += old_gram[b, c]
            if d >= 0:
                product += old_gram[a, d]
            if b >= 0 and d >= 0:
                product += old_gram[b, d]
            cache.gram[i, x, y] = product
    cache.used[i] = count
    for x in range(count):
        path = plane_path(cache, design, i, x)
        for t in range(n):
            path[t] = paths[x, t]
    for x in range(count, used):
        cache.alpha[i, x] = 0.0
