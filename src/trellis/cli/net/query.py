"""``trellis net query``: probabilities given evidence."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

from trellis.cli.console import echo, note
from trellis.cli.net.options import Encoding, Evidence, Network, Seed
from trellis.cli.options import AsJson, argument, option, read_pairs


class Method(StrEnum):
    """Exact methods, then approximate ones."""

    auto = "auto"
    junction_tree = "junction_tree"
    elimination = "elimination"
    conditioning = "conditioning"
    loopy = "loopy"
    rejection = "rejection"
    likelihood_weighting = "likelihood_weighting"
    gibbs = "gibbs"


EXACT = (Method.auto, Method.junction_tree, Method.elimination, Method.conditioning)
# the samplers, and what they call the number of samples
SAMPLERS = {
    Method.rejection: "n_samples",
    Method.likelihood_weighting: "n_samples",
    Method.gibbs: "n_sweeps",
}

Targets = Annotated[
    list[str] | None,
    argument(
        "[TARGET]...",
        "A variable, or several for their joint distribution; by default, each variable by itself.",
    ),
]
Soft = Annotated[
    list[str] | None, option("--soft X=W,W,...", "Soft evidence: one weight for each state of X.")
]
EvidenceFile = Annotated[str | None, option("--evidence-file FILE", "Read evidence from an .evid file.")]
MethodOption = Annotated[Method, option("--method", "Inference method (the last four are approximate).")]
Mpe = Annotated[bool, option("--mpe", "Print the most probable assignment of all variables instead.")]
MemoryLimit = Annotated[float, option("--memory GIB", "Memory limit of exact inference, in GiB.")]
Samples = Annotated[int | None, option("--samples N", "Number of samples (of sweeps, for gibbs).", min=1)]


def query(
    network: Network,
    targets: Targets = None,
    evidence: Evidence = None,
    soft: Soft = None,
    evidence_file: EvidenceFile = None,
    encoding: Encoding = "utf-8",
    method: MethodOption = Method.auto,
    mpe: Mpe = False,
    memory: MemoryLimit = 8.0,
    samples: Samples = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compute probabilities in a NETWORK, given evidence."""
    import warnings

    from trellis.bayesnet.formats.uai import read_evidence
    from trellis.bayesnet.inference.query import ApproximationWarning
    from trellis.cli.net.models import open_model
    from trellis.core.errors import UnsupportedError

    model = open_model(network, encoding)
    seen: dict[str, Any] = {}
    if evidence_file is not None:
        seen.update(read_evidence(evidence_file, model, encoding=encoding))
    seen.update(read_pairs("--evidence", evidence, "Rain=yes"))
    likelihoods = {name: text.split(",") for name, text in read_pairs("--soft", soft, "Rain=0.2,0.8").items()}
    options: dict[str, Any] = {"likelihoods": likelihoods} if likelihoods else {}
    if mpe and (targets or method is not Method.auto):
        raise UnsupportedError(
            "--mpe covers all variables and chooses its own method; leave out targets and --method"
        )
    if samples is not None and method not in SAMPLERS:
        raise UnsupportedError(f"--samples does not apply to --method {method}; leave it out")
    if method in EXACT:
        options["memory_limit"] = memory * 2**30
    elif method in SAMPLERS:
        options["random_state"] = seed
        if samples is not None:
            options[SAMPLERS[method]] = samples
    wanted = None if not targets else targets[0] if len(targets) == 1 else targets
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ApproximationWarning)
        found = (
            model.mpe(seen, **options) if mpe else model.query(wanted, seen, method=str(method), **options)
        )
    for doubt in doubts:
        note(f"trellis: warning: {doubt.message}")
    if mpe:
        _print_assignment(found, as_json)
        return
    _print(found if isinstance(found, dict) else {", ".join(targets or ()): found}, as_json)


def _print(found: dict[str, Any], as_json: bool) -> None:
    if not as_json:
        echo("\n\n".join(str(answer) for answer in found.values()))
        return
    echo(json.dumps({name: _as_json(answer) for name, answer in found.items()}, indent=2))


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


def _print_assignment(best: Any, as_json: bool) -> None:
    known = best.log_posterior == best.log_posterior  # NaN is not JSON
    if not as_json:
        width = max(map(len, best), default=0)
        for name, state in best.items():
            echo(f"{name:<{width}}  {state}")
        given = f", given the evidence {best.log_posterior:.6g}" if known else ""
        echo(f"log-probability {best.log_probability:.6g}{given}")
        return
    figures = {
        "log_probability": best.log_probability,
        "log_posterior": best.log_posterior if known else None,
        "bound": best.bound,
        "exact": best.exact,
        "method": best.method,
    }
    echo(json.dumps({"states": dict(best), **figures}, indent=2))
