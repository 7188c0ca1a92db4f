# mypy: allow-untyped-defs
"""The gold side of a chain with hidden parts: the best labelling among those that are allowed."""

from __future__ import annotations

from trellis.core.numerics import kernel
from trellis.structures.chain.problem.chain_problem_kernels import example_at, score_sequence, score_shared
from trellis.structures.chain.problem.objective_kernels import gold_path
from trellis.structures.chain.scores.linear_chain_kernels import add_path


@kernel
def gold_completions(design, rows, w, penalties, mask, task, first, last, work, g, values, completed):
    """h_i = max over the allowed labellings of s into ``completed`` (N,), and for sequences first..last-1

    values[i] = s(h_i) (not weighted),      g += sum_i weight_i Phi(h_i).
    """
    score_shared(design, w, penalties, work)
    work.up[:] = -1  # no label: all parts of the other labelling differ from it
    for i in range(first, last):
        lo, hi = design.offsets[i], design.offsets[i + 1]
        n = hi - lo
        values[i] = 0.0
        if n == 0:
            continue
        score_sequence(design, rows, w, penalties, i, work)
        u, a, start, end, gold, ambiguous, allowed, _ = example_at(design, task, i, work)
        values[i] = gold_path(u, a, start, end, gold, ambiguous, allowed, work, work.down)
        add_path(design, rows, g, mask, i, work.down, work.up, task.weight[i])
        completed[lo:hi] = work.down[:n]
