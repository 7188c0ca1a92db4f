"""``trellis bound``: learning theory on the back of an envelope."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trellis.theory.bounds import Bound
    from trellis.theory.intervals import Interval


class BoundKind(StrEnum):
    """Which bound or interval."""

    consistent = "consistent"
    agnostic = "agnostic"
    vc = "vc"
    deviation = "deviation"
    heldout = "heldout"
    exact = "exact"


Kind = Annotated[
    BoundKind,
    typer.Argument(
        metavar="KIND",
        help="consistent, agnostic (finite classes), vc, deviation (VC dimension), heldout (Hoeffding), "
        "exact (errors counted on held-out examples).",
        show_default=False,
    ),
]
Hypotheses = Annotated[
    str | None,
    typer.Option("--hypotheses", "-H", metavar="N", help="How many hypotheses: 1000, 1e6, 2^20 or 2^2^10."),
]
VcDimension = Annotated[int | None, typer.Option("--vc", metavar="D", help="The VC dimension of the class.")]
Examples = Annotated[
    int | None, typer.Option("-m", "--examples", metavar="M", help="Examples; left out, they are solved for.")
]
Delta = Annotated[
    float | None,
    typer.Option(
        "--delta", metavar="P", help="The bound may fail with this probability; left out, it is solved for."
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option("--epsilon", "-e", metavar="E", help="Distance from the truth; left out, it is solved for."),
]
Errors = Annotated[
    int | None, typer.Option("--errors", metavar="K", help="For exact: wrong ones among the examples.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]


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
    """Solve a generalisation bound of a KIND for the one of M, P and E that is left out.

    For example: trellis bound agnostic -H 2^20 -m 10000 --delta 0.05
    """
    given: dict[str, Any] = {"m": m, "delta": delta, "epsilon": epsilon}
    _check_belongs(kind, {"--hypotheses": hypotheses, "--vc": vc, "--errors": errors, "--epsilon": epsilon})
    if kind is BoundKind.exact:
        answer: Bound | Interval = _exact(errors, m, delta)
    else:
        answer = _solved(kind, hypotheses, vc, given)
    if as_json:
        import json
        from dataclasses import asdict

        extra = {} if kind is BoundKind.exact else {"vacuous": bool(answer.vacuous)}  # type: ignore[union-attr]
        # JSON has no infinity: a bound that says nothing has no number
        numbers = {k: None if v == math.inf else v for k, v in asdict(answer).items()}
        typer.echo(json.dumps({**numbers, **extra}, indent=2, allow_nan=False))
    else:
        typer.echo(str(answer))


def _check_belongs(kind: BoundKind, options: dict[str, Any]) -> None:
    """An option that a kind does not look at is a mistake, and is not passed over."""
    from trellis.core.errors import UnsupportedError

    needs = {
        BoundKind.consistent: "--hypotheses",
        BoundKind.agnostic: "--hypotheses",
        BoundKind.vc: "--vc",
        BoundKind.deviation: "--vc",
        BoundKind.heldout: None,
        BoundKind.exact: "--errors",
    }[kind]
    if needs is not None and options[needs] is None:
        raise UnsupportedError(f"trellis bound {kind} needs {needs}")
    useful = {needs} if kind is BoundKind.exact else {needs, "--epsilon"}
    for name, value in options.items():
        if value is not None and name not in useful:
            raise UnsupportedError(f"trellis bound {kind} does not use {name}; leave it out")


def _solved(kind: BoundKind, hypotheses: str | None, vc: int | None, given: dict[str, Any]) -> Bound:
    from trellis.theory import bounds

    if kind is BoundKind.heldout:
        return bounds.hoeffding_bound(**given)
    if hypotheses is not None:
        size = _log_count(hypotheses)
        if kind is BoundKind.consistent:
            return bounds.finite_consistent_bound(log_hypotheses=size, **given)
        return bounds.finite_agnostic_bound(log_hypotheses=size, **given)
    dimension = 0 if vc is None else vc
    if kind is BoundKind.vc:
        return bounds.vc_bound(dimension, **given)
    return bounds.vc_deviation_bound(dimension, **given)


def _exact(errors: int | None, m: int | None, delta: float | None) -> Interval:
    from trellis.core.errors import UnsupportedError
    from trellis.theory.intervals import clopper_pearson_interval

    if m is None or errors is None:
        raise UnsupportedError("trellis bound exact needs --errors and --examples")
    return clopper_pearson_interval(errors, m, delta=0.05 if delta is None else delta)


def _log_count(text: str) -> float:
    """ln of a number such as 1000, 1e6, 2^20 or 2^2^10 = 2^(2^10), which may be too large for a float."""
    from trellis.core.errors import DataError

    parts = re.split(r"\^|\*\*", text.replace(",", "").replace("_", ""))
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and numbers[0] >= 1 and math.isfinite(numbers[0]):
        return math.log(numbers[0])
    if len(numbers) in (2, 3) and numbers[0] >= 1 and min(numbers) >= 0 and all(map(math.isfinite, numbers)):
        with suppress(OverflowError):
            exponent = math.pow(*numbers[1:]) if len(numbers) == 3 else numbers[1]
            return exponent * math.log(numbers[0])
    raise DataError(f"--hypotheses {text}: give a number of at least 1, such as 1000, 1e6, 2^20 or 2^2^10")
