"""``trellis evaluate``: compare a model's labels with those of a labelled file, and with another model's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from trellis.cli.console import echo, echo_table
from trellis.cli.options import AsJson, Jobs, argument, option
from trellis.cli.tag import Decoding, Encoding

if TYPE_CHECKING:
    from trellis.theory.paired_tests import Comparison

Model = Annotated[str, argument("MODEL", "Model file that trellis train wrote.")]
File = Annotated[str, argument("FILE", "Labelled file, plain or gzip; - reads standard input.")]
Against = Annotated[
    str | None, option("--against MODEL", "Another model: differences on the same data, with paired tests.")
]
Bernstein = Annotated[
    bool, option("--bernstein", "Add the empirical Bernstein interval, valid for any number of sequences.")
]


def evaluate(
    model: Model,
    file: File = "-",
    against: Against = None,
    bernstein: Bernstein = False,
    decoding: Decoding = "best",
    encoding: Encoding = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
) -> None:
    """Compare a MODEL's labels with those of a labelled FILE.

    Span F1 (as conlleval counts) and token accuracy with 95% intervals over sequences, sequence
    accuracy with an exact interval, and the scores of each type.
    """
    from trellis.cli.models import open_model
    from trellis.core.arguments import check_choice
    from trellis.data.streams import read_utf8, source_name
    from trellis.losses.labelings import DECODINGS
    from trellis.report.evaluation import evaluate_labels

    check_choice("--decoding", decoding, DECODINGS)
    labeler, layout = open_model(model, jobs, encoding)
    text, name = read_utf8(file, layout.encoding), source_name(file)
    data = layout.parse(text, name)
    gold = layout.labels(data)
    predicted = labeler.predict(layout.inputs(data), decoding=decoding)
    evaluation = evaluate_labels(gold, predicted, bernstein=bernstein)
    compared = None if against is None else _compared(against, jobs, text, name, gold, predicted, decoding)
    if as_json:
        import json

        from trellis.report.comparison import comparison_json

        figures = evaluation.to_json()
        if compared is not None:
            figures["against"] = {"model": against, **comparison_json(compared)}
        echo(json.dumps(figures, indent=2))
        return
    echo(evaluation.headline())
    if (line := evaluation.bernstein_line()) is not None:
        echo(line)
    echo_table(evaluation.table())
    if compared is not None and against is not None:
        from trellis.report.comparison import comparison_table

        # as wide as it needs to be, also in a file
        width = max(120, len(model) + len(against) + 100)
        echo_table(comparison_table(compared, model, against), width)


def _compared(
    path: str,
    jobs: int | None,
    text: bytes,
    name: str,
    gold: list[list[str]],
    predicted: list[list[Any]],
    decoding: str,
) -> dict[str, Comparison]:
    """Labels against those of the model at ``path``, which may read the file in its own way."""
    from trellis.cli.models import open_model
    from trellis.core.errors import DataError
    from trellis.report.comparison import compare_labels

    labeler, layout = open_model(path, jobs)
    data = layout.parse(text, name)
    if layout.labels(data) != gold:
        raise DataError(
            f"{path}: this model takes its labels from another column of {name}; only models with the same "
            "labels can be compared"
        )
    return compare_labels(gold, predicted, labeler.predict(layout.inputs(data), decoding=decoding))
