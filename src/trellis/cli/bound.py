"""``trellis bound``: learning theory on the back of an envelope."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from trellis.cli.console import echo
from trellis.cli.options import AsJson, argument, option

if TYPE_CHECKING:
    from trellis.theory.bounds import Bound
    from trellis.theory.confidence_intervals import Interval


class BoundKind(StrEnum):
    """Which bound or interval."""

    consistent = "consistent"
    agnostic = "agnostic"
    vc = "vc"
    deviation = "deviation"
    heldout = "heldout"
    exact = "exact"


# kind -> the function of trellis.theory that computes it, and the option that it needs
_KINDS = {
    BoundKind.consistent: ("finite_consistent_bound", "--hypotheses"),
    BoundKind.agnostic: ("finite_agnostic_bound", "--hypotheses"),
    BoundKind.vc: ("vc_bound", "--vc"),
    BoundKind.deviation: ("vc_deviation_bound", "--vc"),
    BoundKind.heldout: ("hoeffding_bound", None),
    BoundKind.exact: ("clopper_pearson_interval", "--errors"),
}

Kind = Annotated[
    BoundKind,
    argument(
        "KIND",
        "consistent, agnostic (finite classes), vc, deviation (VC dimension), heldout (Hoeffding), "
        "exact (errors counted on held-out examples).",
    ),
]
Hypotheses = Annotated[
    str | None, option("-H --hypotheses N", "Number of hypotheses: 1000, 1e6, 2^20 or 2^2^10.")
]
VcDimension = Annotated[int | None, option("--vc D", "VC dimension of the class.")]
Examples = Annotated[int | None, option("-m --examples M", "Number of examples; computed if omitted.")]
Delta = Annotated[float | None, option("--delta P", "Probability that the bound fails; computed if omitted.")]
Epsilon = Annotated[
    float | None, option("-e --epsilon E", "Distance from the true error; computed if omitted.")
]
Errors = Annotated[int | None, option("--errors K", "Wrong predictions among the examples (for exact).")]


def bound(
    kind: Kind,
    hypotheses: Hypotheses = None,
    vc: VcDimension = None,
    m: Examples = None,
    delta: Delta = None,
    epsilon: Epsilon = None,
    errors: Errors = None,
    as_json: AsJson = False,
) -> None:
    """Compute a generalisation bound of the given KIND.

    Give two of M, P and E, and the one that you omit is computed. The kind exact takes K and M instead, and
    P is 0.05 if omitted.
    """
    from trellis import theory

    options = {"--hypotheses": hypotheses, "--vc": vc, "--errors": errors, "--epsilon": epsilon}
    _check_options(kind, options, m)
    compute = getattr(theory, _KINDS[kind][0])
    answer: Bound | Interval
    if kind is BoundKind.exact:
        answer = compute(errors, m, delta=0.05 if delta is None else delta)
    else:
        capacity: dict[str, Any] = {} if vc is None else {"vc_dimension": vc}
        if hypotheses is not None:
            capacity = {"log_hypotheses": _log_count(hypotheses)}
        answer = compute(**capacity, m=m, delta=delta, epsilon=epsilon)
    if not as_json:
        echo(str(answer))
        return
    import json
    from dataclasses import asdict

    # JSON has no infinity: a bound that says nothing has no number
    numbers = {key: None if value == math.inf else value for key, value in asdict(answer).items()}
    if kind is not BoundKind.exact:
        numbers["vacuous"] = bool(answer.vacuous)  # type: ignore[union-attr]
    echo(json.dumps(numbers, indent=2, allow_nan=False))


def _check_options(kind: BoundKind, options: dict[str, Any], m: int | None) -> None:
    """An option that a kind does not use is a mistake, and is not passed over."""
    from trellis.core.errors import DataError, UnsupportedError

    _, needed = _KINDS[kind]
    if kind is BoundKind.exact and (m is None or options["--errors"] is None):
        raise DataError("trellis bound exact needs --errors and --examples")
    if needed is not None and options[needed] is None:
        raise DataError(f"trellis bound {kind} needs {needed}")
    used = {needed} if kind is BoundKind.exact else {needed, "--epsilon"}
    for name, value in options.items():
        if value is not None and name not in used:
            raise UnsupportedError(f"trellis bound {kind} does not use {name}; leave it out")


def _log_count(text: str) -> float:
    """ln of a number such as 1000, 1e6, 2^20 or 2^2^10 = 2^(2^10), which may be too large for a float."""
    from trellis.core.errors import DataError

    parts = re.split(r"\^|\*\*", text.replace(",", "").replace("_", ""))
    with suppress(ValueError, OverflowError):
        base, *powers = [float(part) for part in parts]
        if len(powers) <= 2 and base >= 1 and all(0 <= x < math.inf for x in (base, *powers)):
            return math.pow(*[*powers, 1.0, 1.0][:2]) * math.log(base)
    raise DataError(f"--hypotheses {text}: give a number of at least 1, such as 1000, 1e6, 2^20 or 2^2^10")
