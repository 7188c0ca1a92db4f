"""``trellis evaluate``: compare a model's labels with those of a labelled file."""

from __future__ import annotations

from typing import Annotated

import typer

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


def evaluate(model: Model, file: File = "-", as_json: AsJson = False, jobs: Jobs = None) -> None:
    """Compare a MODEL's labels with those of a labelled FILE.

    Span F1 (as conlleval counts) with a 95% bootstrap interval over sequences, the share of tokens and of
    whole sequences that are right, and the scores of each type.
    """
    from trellis.cli.models import open_model
    from trellis.report.evaluation import evaluate_labels

    labeler, layout = open_model(model, jobs)
    data = layout.read(file)
    gold = layout.labels(data)
    evaluation = evaluate_labels(gold, labeler.predict(layout.inputs(data)))
    if as_json:
        import json

        typer.echo(json.dumps(evaluation.to_json(), indent=2))
        return
    from rich.console import Console

    typer.echo(evaluation.headline())
    Console(highlight=False).print(evaluation.table())
