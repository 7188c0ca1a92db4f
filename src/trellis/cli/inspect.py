"""``trellis inspect``: what a model has learned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from trellis.cli.console import echo, echo_table
from trellis.cli.options import AsJson, argument, option

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

Model = Annotated[str, argument("MODEL", "Model file.")]
Number = Annotated[int, option("-n --number N", "Number of features to show for each label.", min=0)]
Labels = Annotated[list[str] | None, option("-l --label LABEL", "Show only this label (may be repeated).")]
Transitions = Annotated[bool, option("--transitions/--no-transitions", "Show the transition table.")]

MANY = 60  # labels, or pairs of labels: more are not shown without being asked for


def inspect(
    model: Model,
    number: Number = 10,
    label: Labels = None,
    transitions: Transitions = True,
    as_json: AsJson = False,
) -> None:
    """Show what a MODEL has learned, and how it was trained."""
    from trellis.cli.models import open_labeler
    from trellis.core.errors import DataError

    labeler = open_labeler(model)
    name_of = _names(labeler)
    names = list(name_of.values())
    shown = names if label is None else label
    for name in shown:
        if name not in names:
            raise DataError(f"{model}: the model has no label {name!r}; its labels are {', '.join(names)}")
    strongest = {
        name_of[state]: top[:number]
        for state, top in labeler.strongest_weights(max(number, 1)).items()
        if name_of[state] in shown
    }
    if as_json:
        import json

        weights = {name: [list(pair) for pair in top] for name, top in strongest.items()}
        table = _json_transitions(labeler, names) if transitions else None
        report = {**_facts(labeler), "labels": names, "strongest_weights": weights, "transitions": table}
        echo(json.dumps(report, indent=2, default=str))
        return
    for key, value in _facts(labeler).items():
        echo(f"{key:<10} {value}")
    if number:
        _print_weights(strongest)
    if transitions and (label is not None or len(names) <= MANY):
        _print_transitions(labeler, names, shown)
    elif transitions:
        echo(f"\ntransition scores of {len(names)} labels are not shown; choose labels with --label")


def _json_transitions(labeler: SequenceLabeler, names: list[str]) -> list[Any]:
    """A table, or [previous, next, score] where the allowed pairs are a list."""
    from trellis.structures.chain.scores.sparse_layout import SparseLayout

    layout = labeler.layout_
    if isinstance(layout, SparseLayout):
        scores, pairs = layout.views(labeler.weights_).transitions.tolist(), layout.pairs
        ends = zip(pairs.source.tolist(), pairs.target.tolist(), scores, strict=True)
        return [[names[j], names[k], score] for j, k, score in ends]
    # JSON has no infinity: what is forbidden has no score
    return [[None if math.isinf(x) else x for x in row] for row in labeler.transition_table().tolist()]


def _names(labeler: SequenceLabeler) -> dict[Any, str]:
    """How states are shown: a label by its name, one of its latent states as LABEL/NUMBER."""
    labels = set(labeler.classes_)
    return {
        state: str(state) if state in labels else f"{state[0]}/{state[1]}" for state in labeler.state_names_
    }


def _facts(labeler: SequenceLabeler) -> dict[str, Any]:
    from trellis.structures.chain.labeler.inspection import said_of_hashing

    parameters = labeler.get_params(deep=False)
    names = [
        "objective",
        "loss",
        "l2",
        "l1",
        "constraints",
        "transitions",
        "latent_states",
        "class_weight",
        "min_count",
        "hashing",
    ]
    options = {name: _shown(parameters[name]) for name in names if parameters[name] is not None}
    hashing = said_of_hashing(labeler)
    return {
        "model": type(labeler).__name__,
        "options": ", ".join(f"{name}={value}" for name, value in options.items()),
        "solver": labeler.solver_,
        "status": str(labeler.status_),
        "size": f"{len(labeler.classes_)} labels, {labeler.encoder_.n_features} features, "
        f"{len(labeler.weights_)} weights",
        **({} if hashing is None else {"hashing": hashing}),
    }


def _shown(option: Any) -> Any:
    """A name as it is, a long list by its length."""
    return f"{len(option)} pairs" if isinstance(option, list | tuple) and len(option) > MANY else option


def _print_weights(strongest: dict[str, list[tuple[str, float]]]) -> None:
    for name, top in strongest.items():
        echo(f"\n{name}")
        for feature, weight in top:
            echo(f"  {weight:+9.4f}  {feature}")


def _print_transitions(labeler: SequenceLabeler, names: list[str], shown: list[str]) -> None:
    """Rows lead to columns; a dot is a forbidden transition."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title="transitions (row to column)", box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left"
    )
    table.add_column("")
    for name in shown:
        table.add_column(Text(name), justify="right", no_wrap=True)
    scores = labeler.transition_table()
    columns = [names.index(name) for name in shown]
    for name in shown:
        row = scores[names.index(name)]
        cells = ["." if math.isinf(row[k]) else f"{row[k]:.2f}" for k in columns]
        table.add_row(Text(name), *cells)
    echo()
    # A table is for reading whole, also in a file: as wide as it needs to be.
    echo_table(table, max(80, 12 * (len(shown) + 2)))
