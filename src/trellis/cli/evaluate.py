"""``trellis evaluate``: compare a model's labels with those of a labelled file, and with another model's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trellis.theory.paired_tests import Comparison

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Model file that trellis train wrote.", show_default=False)
]
File = Annotated[
    str, typer.Argument(metavar="FILE", help="Labelled file, plain or gzip; - reads standard input.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Threads; all cores if not given.")
]


Against = Annotated[
    str | None,
    typer.Option(
        "--against", metavar="MODEL", help="Another model: differences on the same data, with paired tests."
    ),
]
Bernstein = Annotated[
    bool,
    typer.Option(
        "--bernstein",
        help="Add the interval of empirical Bernstein, which holds for any number of sequences.",
    ),
]


def evaluate(
    model: Model,
    file: File = "-",
    against: Against = None,
    bernstein: Bernstein = False,
    as_json: AsJson = False,
    jobs: Jobs = None,
) -> None:
    """Compare a MODEL's labels with those of a labelled FILE.

    Span F1 (as conlleval counts) and the share of right tokens with a 95% bootstrap interval over sequences,
    the share of right sequences with the exact one, and the scores of each type.
    """
    from trellis.cli.models import open_model
    from trellis.data.streams import read_utf8, source_name
    from trellis.report.evaluation import evaluate_labels

    labeler, layout = open_model(model, jobs)
    text, name = read_utf8(file, layout.encoding), source_name(file)
    data = layout.parse(text, name)
    gold = layout.labels(data)
    predicted = labeler.predict(layout.inputs(data))
    evaluation = evaluate_labels(gold, predicted, bernstein=bernstein)
    compared = None if against is None else _compared(against, jobs, text, name, gold, predicted)
    if as_json:
        import json

        from trellis.report.comparison import comparison_json

        figures = evaluation.to_json()
        if compared is not None:
            figures["against"] = {"model": against, **comparison_json(compared)}
        typer.echo(json.dumps(figures, indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    typer.echo(evaluation.headline())
    if (line := evaluation.bernstein_line()) is not None:
        typer.echo(line)
    console.print(evaluation.table())
    if compared is not None and against is not None:
        from trellis.report.comparison import comparison_table

        # as wide as it needs to be, also in a file
        wide = Console(width=max(120, len(model) + len(against) + 100), highlight=False)
        wide.print(comparison_table(compared, model, against))


def _compared(
    path: str, jobs: int | None, text: bytes, name: str, gold: list[list[str]], predicted: list[list[Any]]
) -> dict[str, Comparison]:
    """Labels against those of the model at ``path``, which may read the file in its own way."""
    from trellis.cli.models import open_model
    from trellis.core.errors import DataError
    from trellis.report.comparison import compare_labels

    labeler, layout = open_model(path, jobs)
    data = layout.parse(text, name)
    if layout.labels(data) != gold:
        raise DataError(
            f"{path}: this model takes its labels from another column of {name}; models are compared on "
            "the same labels"
        )
    return compare_labels(gold, predicted, labeler.predict(layout.inputs(data)))
