"""One formula per objective, for any structure that answers questions about one example at a time.

:class:`trellis.core.oracle.Oracle` is an example at given part scores s: its gold output y* and its loss L.

    perceptron       f = max_y s(y) - s(y*)
    margin           f = max_y (s(y) + L(y)) - s(y*)
    ramp             f = max_y (s(y) + L(y)) - max_y s(y)
    log              f = log sum_y exp s(y) - s(y*)
    softmax_margin   f = log sum_y exp(s(y) + L(y)) - s(y*)
    direct           f = L(y_hat), along (parts(y_hat) - parts(y_direct)) / eps with y_direct = argmax s - eps
                     L (``sign="better"``), or (parts(y_direct) - parts(y_hat)) / eps with argmax s + eps L
                     ("worse")

With hidden parts h the gold output is a set, and the oracle maximises or sums over it: s(y*) becomes max_h
s(y*, h) in the first three, log sum_h exp s(y*, h) in the next two.
"""

from __future__ import annotations

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.oracle import Oracle
from trellis.objectives.records import Direct, Log, Margin, Objective, Perceptron, Ramp, SoftmaxMargin

SUPPORTED = (Perceptron, Margin, Ramp, Log, SoftmaxMargin, Direct)


def check_objective(objective: Objective, structure: str) -> None:
    if not isinstance(objective, SUPPORTED):
        names = ", ".join(c.name for c in SUPPORTED)
        raise UnsupportedError(
            f"objective {objective.name!r} is not exact for {structure}; choose one of {names}"
        )


def value_and_gradient(
    objective: Objective, oracle: Oracle, epsilon: float = 1.0
) -> tuple[float, FloatArray]:
    """f and a (sub)gradient of it in ``parts``; ``epsilon`` concerns the direct objective."""
    if not objective.two_labelings:
        above = oracle.sum(1.0 if isinstance(objective, SoftmaxMargin) else 0.0)
        below = oracle.gold_sum()
    elif isinstance(objective, Direct):
        return _direct(objective, oracle, epsilon)
    else:
        above = oracle.best(0.0 if isinstance(objective, Perceptron) else 1.0)
        below = oracle.best(0.0) if isinstance(objective, Ramp) else oracle.gold_best()
    return above.value - below.value, above.parts - below.parts


def _direct(objective: Direct, oracle: Oracle, epsilon: float) -> tuple[float, FloatArray]:
    sign = -1.0 if objective.sign == "better" else 1.0
    best, adjusted = oracle.best(0.0), oracle.best(sign * epsilon)
    return best.loss, (adjusted.parts - best.parts) * (sign / epsilon)
