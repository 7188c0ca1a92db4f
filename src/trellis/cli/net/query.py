"""``trellis net query``: probabilities given evidence."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from trellis.cli.net.options import Evidence, Network


class Method(StrEnum):
    """Exact ones, then approximate ones."""

    auto = "auto"
    junction_tree = "junction_tree"
    elimination = "elimination"
    conditioning = "conditioning"
    loopy = "loopy"
    rejection = "rejection"
    likelihood_weighting = "likelihood_weighting"
    gibbs = "gibbs"


Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TARGET]...",
        help="A variable, or several for their joint distribution; none: each by itself.",
        show_default=False,
    ),
]
Soft = Annotated[
    list[str] | None,
    typer.Option("--soft", metavar="X=W,W,...", help="Soft evidence: a weight for each state of X."),
]
EvidenceFile = Annotated[
    str | None, typer.Option("--evidence-file", metavar="FILE", help="Evidence from an .evid file.")
]
By = Annotated[Method, typer.Option("--method", help="How; the last four are approximate.")]
Best = Annotated[bool, typer.Option("--mpe", help="The most probable assignment of all variables instead.")]
MemoryLimit = Annotated[
    float, typer.Option("--memory", metavar="GIB", help="Exact inference that needs more is refused.")
]
Samples = Annotated[
    int | None, typer.Option("--samples", metavar="N", min=1, help="Of the samplers; sweeps for gibbs.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the samplers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]

_EXACT = {Method.auto, Method.junction_tree, Method.elimination, Method.conditioning}


def query(
    network: Network,
    targets: Targets = None,
    evidence: Evidence = None,
    soft: Soft = None,
    evidence_file: EvidenceFile = None,
    method: By = Method.auto,
    mpe: Best = False,
    memory: MemoryLimit = 8.0,
    samples: Samples = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """P(TARGET | evidence) in a NETWORK.

    For example: trellis net query alarm.bif HYPOVOLEMIA -e BP=HIGH -e PAP=NORMAL
    """
    import warnings

    from trellis.bayesnet.formats.uai import read_evidence
    from trellis.bayesnet.inference.approximate_posterior import ApproximationWarning
    from trellis.cli.console import note
    from trellis.cli.net.models import open_model, pairs
    from trellis.core.errors import UnsupportedError

    model = open_model(network)
    seen: dict[str, Any] = read_evidence(evidence_file, model) if evidence_file is not None else {}
    seen.update(pairs("--evidence", evidence))
    likelihoods = {name: text.split(",") for name, text in pairs("--soft", soft).items()}
    options: dict[str, Any] = {"likelihoods": likelihoods} if likelihoods else {}
    if mpe and (targets or method is not Method.auto):
        raise UnsupportedError("--mpe is about all variables, and exact; leave out targets and --method")
    if samples is not None and method in _EXACT | {Method.loopy}:
        raise UnsupportedError(f"--samples has no meaning for the method {method}; leave it out")
    if method in _EXACT:
        options["memory_limit"] = memory * 2**30
    elif method is not Method.loopy:
        name = "n_sweeps" if method is Method.gibbs else "n_samples"
        options.update({"random_state": seed} | ({} if samples is None else {name: samples}))
    if mpe:
        _print_best(model.mpe(seen, **options), as_json)
        return
    wanted = None if not targets else targets[0] if len(targets) == 1 else targets
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ApproximationWarning)
        found = model.query(wanted, seen, method=str(method), **options)
    for doubt in doubts:
        note(f"trellis: warning: {doubt.message}")
    _print(found if isinstance(found, dict) else {", ".join(targets or ()): found}, as_json)


def _print(found: dict[str, Any], as_json: bool) -> None:
    if not as_json:
        typer.echo("\n\n".join(str(answer) for answer in found.values()))
        return
    import json

    typer.echo(json.dumps({name: _as_json(answer) for name, answer in found.items()}, indent=2))


def _as_json(answer: Any) -> dict[str, Any]:
    named = {key if isinstance(key, str) else ", ".join(key): p for key, p in answer.as_dict().items()}
    errors = getattr(answer, "standard_errors", None)
    if errors is None:
        return {"probabilities": named, "method": answer.method}
    bars = [None if error != error else error for error in errors.ravel().tolist()]  # NaN is not JSON
    return {
        "probabilities": named,
        "standard_errors": dict(zip(named, bars, strict=True)),
        "method": answer.method,
        "report": answer.report,
    }


def _print_best(best: Any, as_json: bool) -> None:
    if not as_json:
        width = max(map(len, best), default=0)
        for name, state in best.items():
            typer.echo(f"{name:<{width}}  {state}")
        typer.echo(f"log-probability {best.log_probability:.6g}, given the evidence {best.log_posterior:.6g}")
        return
    import json

    figures = {"log_probability": best.log_probability, "log_posterior": best.log_posterior}
    typer.echo(json.dumps({"states": dict(best), **figures}, indent=2))
