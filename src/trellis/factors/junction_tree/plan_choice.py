"""Which plan answers a question, and whether it may run at all.

Elimination orders come with the fewest multiplications first; the first whose plan fits into the memory limit
is taken. If none fits, the error says what the smallest plan would need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trellis.core.errors import UnsupportedError
from trellis.factors.elimination_order import LARGE, EliminationOrder, elimination_orders, given_order
from trellis.factors.junction_tree.plan import Forecast, Plan

MEMORY_LIMIT = 8 * 2.0**30
IMPRACTICAL = 1e14  # multiplications: half a day
REPLAN_ABOVE = 30_000.0  # multiplications per variable above which evidence gets a plan of its own
MOST_AXES = 64  # of an array of NumPy
WITHIN_REACH = 4.0  # times the memory limit: no long search brings a larger plan below it

FOR_NETWORKS = (
    "condition on variables of the largest cliques (method='conditioning') or use an approximate method "
    "('loopy', 'likelihood_weighting', 'gibbs')"
)

Order = str | Sequence[int]


def find_orders(
    sizes: Sequence[int],
    scopes: Sequence[tuple[int, ...]],
    order: Order,
    keep: Sequence[int] = (),
    *,
    thorough: bool = True,
) -> list[EliminationOrder]:
    """Orders by a heuristic, or the one that is given."""
    if isinstance(order, str):
        return elimination_orders(sizes, scopes, order, keep=keep, thorough=thorough)
    return [given_order(sizes, scopes, order, keep)]


def worth_a_plan(order: EliminationOrder) -> bool:
    """Whether the cost of an order justifies planning anew for each evidence."""
    return order.total > REPLAN_ABOVE * len(order.variables)


def make_plan(
    sizes: Sequence[int],
    scopes: Sequence[tuple[int, ...]],
    order: Order,
    memory_limit: float,
    *,
    keep: Sequence[int] = (),
    thorough: bool = True,
    quick: Sequence[EliminationOrder] | None = None,
) -> Plan:
    """The plan of a model, after a long search for orders only where that can make a difference.

    ``quick``: the orders of a short search, if known.
    """
    orders = quick or find_orders(sizes, scopes, order, keep, thorough=False)
    plan = choose_plan(sizes, scopes, orders, memory_limit)
    if not thorough or orders[0].total < LARGE or plan.forecast.bytes > WITHIN_REACH * memory_limit:
        return plan
    return choose_plan(sizes, scopes, find_orders(sizes, scopes, order, keep), memory_limit)


def choose_plan(
    sizes: Sequence[int],
    scopes: Sequence[tuple[int, ...]],
    orders: Sequence[EliminationOrder],
    memory_limit: float,
) -> Plan:
    """The first plan that fits into memory, or the smallest; impractical ones are refused."""
    if is_impractical(orders[0]):
        raise refusal(rough_forecast(orders[0]))
    plans = []
    for order in orders:
        plans.append(Plan(sizes, scopes, order.variables))
        if plans[-1].forecast.bytes <= memory_limit:
            return plans[-1]
    return min(plans, key=lambda plan: plan.forecast.bytes)


def is_impractical(order: EliminationOrder) -> bool:
    """Whether it would take longer than anyone waits."""
    return order.total > IMPRACTICAL


def check_memory(forecast: Forecast, limit: float, alternatives: str = FOR_NETWORKS) -> None:
    """Raise if a plan needs more memory than allowed."""
    if forecast.bytes > limit:
        raise refusal(forecast, limit, alternatives)


def check_joint(sizes: Sequence[int], limit: float) -> None:
    """Raise if the joint table of targets with these numbers of states is larger than allowed."""
    cells = math.prod(sizes)
    if len(sizes) > MOST_AXES or 8.0 * cells > limit:
        raise UnsupportedError(
            f"the joint distribution of {len(sizes)} targets has {cells:.3g} cells, which take "
            f"{_amount(8.0 * cells)} of memory, and the limit is {_amount(limit)} and {MOST_AXES} targets; "
            "ask for fewer targets at once"
        )


def refusal(forecast: Forecast, limit: float = 0.0, alternatives: str = FOR_NETWORKS) -> UnsupportedError:
    """The error for a plan that is too large; a limit of 0 stands for "however much memory there is"."""
    return UnsupportedError(
        f"exact inference by a junction tree would need {_amount(forecast.bytes)} of memory (width "
        f"{forecast.width}, largest clique {forecast.clique:.3g} entries, {forecast.multiplications:.3g} "
        "multiplications)"
        + (f", and the limit is {_amount(limit)}; raise memory_limit, " if limit else "; ")
        + alternatives
    )


def rough_forecast(order: EliminationOrder) -> Forecast:
    """A forecast from the order alone, where planning itself would take long."""
    largest = float(np.exp(order.log_sizes.max()))
    return Forecast(order.width, largest, order.total, 16.0 * order.total)


def _amount(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} PiB"
