"""Which plan a question gets, and whether it runs at all.

Of several elimination orders the first whose plan fits into the memory limit is taken: orders come with the
fewest multiplications first, and where none fits, the plan that needs least memory says what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.errors import UnsupportedError
from trellis.factors.elimination_order import LARGE, EliminationOrder, elimination_orders, given_order
from trellis.factors.junction_tree.plan import Forecast, Plan

GIB = 2.0**30
MEMORY_LIMIT = 8 * GIB
IMPRACTICAL = 1e14  # multiplications: half a day
# Multiplications that planning for one variable is worth: with more, evidence gets a plan of its own.
REPLAN_ABOVE = 30_000.0
WITHIN_REACH = 4.0  # times the memory that there is: a long search brings no plan down from further up

OF_NETWORKS = (
    "condition on variables of the largest cliques (method='conditioning') or use an approximate method "
    "('loopy', 'likelihood_weighting', 'gibbs')"
)

Order = str | Sequence[int]


def orders_for(
    sizes: Sequence[int],
    scopes: Sequence[tuple[int, ...]],
    order: Order,
    keep: Sequence[int] = (),
    *,
    thorough: bool = True,
) -> list[EliminationOrder]:
    """Orders by a rule, or the one that is given."""
    if isinstance(order, str):
        return elimination_orders(sizes, scopes, order, keep=keep, thorough=thorough)
    return [given_order(sizes, scopes, order, keep)]


def worth_a_plan(order: EliminationOrder) -> bool:
    """Whether what an order costs is worth a plan for each evidence."""
    return order.total > REPLAN_ABOVE * len(order.variables)


def planned(
    sizes: Sequence[int],
    scopes: Sequence[tuple[int, ...]],
    order: Order,
    memory_limit: float,
    *,
    keep: Sequence[int] = (),
    thorough: bool = True,
    quick: Sequence[EliminationOrder] | None = None,
) -> Plan:
    """The plan of a model; a long search for orders only where it can make the difference.

    ``quick``: the orders of a short search, if they are known.
    """
    orders = quick or orders_for(sizes, scopes, order, keep, thorough=False)
    plan = chosen_plan(sizes, scopes, orders, memory_limit)
    if not thorough or orders[0].total < LARGE or plan.forecast.bytes > WITHIN_REACH * memory_limit:
        return plan
    return chosen_plan(sizes, scopes, orders_for(sizes, scopes, order, keep), memory_limit)


def chosen_plan(
    sizes: Sequence[int],
    scopes: Sequence[tuple[int, ...]],
    orders: Sequence[EliminationOrder],
    memory_limit: float,
) -> Plan:
    """The first plan that fits into memory, or the smallest; refuses what would take for ever."""
    if is_impractical(orders[0]):
        raise refusal(rough_forecast(orders[0]))
    plans = []
    for order in orders:
        plans.append(Plan(sizes, scopes, order.variables))
        if plans[-1].forecast.bytes <= memory_limit:
            return plans[-1]
    return min(plans, key=lambda plan: plan.forecast.bytes)


def is_impractical(order: EliminationOrder) -> bool:
    """Whether nobody would wait for it."""
    return order.total > IMPRACTICAL


def refuse_above(forecast: Forecast, limit: float, alternatives: str = OF_NETWORKS) -> None:
    """Raise if a plan needs more memory than allowed."""
    if forecast.bytes > limit:
        raise refusal(forecast, limit, alternatives)


def refusal(forecast: Forecast, limit: float = 0.0, alternatives: str = OF_NETWORKS) -> UnsupportedError:
    """What a plan would need, what the limit is (0: no memory would do), and what else there is."""
    return UnsupportedError(
        f"exact inference by a junction tree would need {_amount(forecast.bytes)} of memory (width "
        f"{forecast.width}, largest clique {forecast.clique:.3g} entries, {forecast.multiplications:.3g} "
        "multiplications)"
        + (f", and the limit is {_amount(limit)}; raise memory_limit, " if limit else "; ")
        + alternatives
    )


def rough_forecast(order: EliminationOrder) -> Forecast:
    """A forecast from the order alone, where planning itself would take long: tables as large as cliques."""
    largest = float(np.exp(order.log_sizes.max()))
    return Forecast(order.width, largest, order.total, 16.0 * order.total)


def _amount(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} PiB"
