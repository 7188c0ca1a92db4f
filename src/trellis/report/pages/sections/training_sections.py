"""What pages say of any trained model: its options, why training stopped, and the curves of its history."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from trellis.report.pages.page_parts import escaped
from trellis.report.pages.svg_figures import svg_figure
from trellis.report.plots import MEASURES, plot_training, shown_measures

_SILENT = ("n_jobs", "verbose", "checkpoint", "period")  # options that do not change what is learned
_CAPTIONS = {
    "objective": "What training minimised, by iteration.",
    "gap": "How far training was from the optimum, by iteration.",
    "holdout": "The task loss on examples held out of training, by iteration.",
}


def training_facts(model: Any) -> list[tuple[str, object]]:
    """Kind, options that matter, why training stopped, and the solver."""
    options = ", ".join(f"{name}={value}" for name, value in _options(model).items())
    facts: list[tuple[str, object]] = [
        ("model", type(model).__name__),
        ("options", options or "all by default"),
        ("training", model.status_),
    ]
    if solver := getattr(model, "solver_", None):
        facts.append(("solver", solver))
    return facts


def _options(model: Any) -> dict[str, Any]:
    """The objective and the loss, and options that are not the default."""
    declared = inspect.signature(type(model)).parameters
    shown = {}
    for name, value in model.get_params(deep=False).items():
        default = declared[name].default if name in declared else inspect.Parameter.empty
        plain = isinstance(value, str | int | float | bool | None)
        if name in _SILENT:
            continue
        if name in ("objective", "loss", "l2") or (plain and value != default):
            shown[name] = value
    return shown


def training_section(model: Any) -> str:
    """The status, and a figure of each measure that the history has."""
    figures = "".join(
        svg_figure(
            f"training-{measure}",
            partial(plot_training, model, measure=measure),
            f"{_CAPTIONS[measure]} {_ends(model.history_, measure)}",
            _CAPTIONS[measure],
            width=4.2,
            height=2.6,
        )
        for measure in shown_measures(model.history_)
    )
    return f'<p>Training {escaped(str(model.status_))}.</p><div class="figures">{figures}</div>'


def _ends(history: dict[str, list[float]], measure: str) -> str:
    said = [
        f"{name} from {history[key][0]:.4g} to {history[key][-1]:.4g}"
        for key, name in MEASURES[measure].items()
        if len(history.get(key, ()))
    ]
    return "; ".join(said)
