"""``trellis evaluate``: compare a model's labels with those of a labelled file, and with another model's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from trellis.cli.console import STDOUT, echo, echo_table, note
from trellis.cli.options import AsJson, Jobs, argument, option
from trellis.cli.places import Cluster, LocalCluster, MaxMemory, chosen_place, is_one_file
from trellis.cli.tag import Decoding, Encoding

if TYPE_CHECKING:
    from trellis.cli.file_maps import Work
    from trellis.data.shard_files.input_format import InputFormat
    from trellis.report.evaluation import Evaluation
    from trellis.report.label_counts import LabelCounts
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler
    from trellis.theory.paired_tests import Comparison

Model = Annotated[str, argument("MODEL", "Model file that trellis train wrote.")]
Files = Annotated[
    list[str] | None,
    argument("[FILE]...", "Labelled files, plain or gzip, or folders of them; - is standard input."),
]
Against = Annotated[
    str | None,
    option("--against MODEL", "Another model to compare with on the same data, with paired tests."),
]
Bernstein = Annotated[
    bool,
    option("--bernstein", "Also print the empirical Bernstein interval, valid for any number of sequences."),
]


def evaluate(
    model: Model,
    files: Files = None,
    against: Against = None,
    bernstein: Bernstein = False,
    decoding: Decoding = "best",
    encoding: Encoding = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    cluster: Cluster = None,
    local_cluster: LocalCluster = None,
    max_memory: MaxMemory = None,
) -> None:
    """Measure the accuracy of a MODEL on labelled files.

    Prints span F1 (as conlleval counts) and token accuracy with 95% intervals over sequences, sequence
    accuracy with an exact interval, and the scores of each type.

    Several files, or a folder, count as one: trellis evaluate m.trellis test/*.conll.gz --local-cluster 4
    """
    from trellis.cli.models import open_model
    from trellis.core.arguments import check_choice
    from trellis.data.streams import read_utf8, source_name
    from trellis.losses.labelings import DECODINGS
    from trellis.report.evaluation import evaluate_labels

    check_choice("--decoding", decoding, DECODINGS)
    files, backend = files or [STDOUT], chosen_place(cluster, local_cluster)
    labeler, layout = open_model(model, jobs, encoding)
    if is_one_file(files) and backend is None:
        text, name = read_utf8(files[0], layout.encoding), source_name(files[0])
        data = layout.parse(text, name)
        gold = layout.labels(data)
        predicted = labeler.predict(layout.inputs(data), decoding=decoding)
        evaluation = evaluate_labels(gold, predicted, bernstein=bernstein)
        compared = None
        if against is not None:
            compared = _compared(against, jobs, text, name, gold, predicted, decoding)
    else:
        places = {"backend": backend, "jobs": jobs, "max_memory": max_memory}
        evaluation, compared = _evaluate_many(
            files, labeler, layout, against, decoding, bernstein=bernstein, **places
        )
    if as_json:
        import json

        from trellis.report.comparison import comparison_json

        figures = evaluation.to_json()
        if compared is not None:
            figures["against"] = {"model": against, **comparison_json(compared)}
        echo(json.dumps(figures, indent=2))
        return
    _note_labels_without_spans(evaluation)
    echo(evaluation.headline())
    if (line := evaluation.bernstein_line()) is not None:
        echo(line)
    echo_table(evaluation.table())
    if compared is not None and against is not None:
        from trellis.report.comparison import comparison_table

        # as wide as it needs to be, also in a file
        width = max(120, len(model) + len(against) + 100)
        echo_table(comparison_table(compared, model, against), width)


def _note_labels_without_spans(evaluation: Evaluation) -> None:
    """One misspelt label takes the span F1 away; say which, where the others are span labels."""
    from trellis.data.constraints import split_tag
    from trellis.losses.metrics import SPAN_TAGS

    if evaluation.span_f1 is not None:
        return
    tags = {label: split_tag(label) for label in evaluation.by_type if label != "O"}
    odd = [label for label, (tag, kind) in tags.items() if tag not in SPAN_TAGS or not kind]
    begins = any(tag == "B" and kind for tag, kind in tags.values())
    if begins and 0 < len(odd) < len(tags) - len(odd):
        shown = ", ".join(repr(label) for label in sorted(odd)[:3])
        note(f"labels are scored one by one, without span F1, because not all are like B-NP or O: {shown}")


def _evaluate_many(
    files: list[str],
    labeler: SequenceLabeler,
    layout: InputFormat,
    against: str | None,
    decoding: str,
    *,
    bernstein: bool,
    **places: Any,
) -> tuple[Evaluation, dict[str, Comparison] | None]:
    """Counts of each piece, made by workers and added up. To compare models, all labels are gathered here."""
    from trellis.cli.file_maps import answers, work_on
    from trellis.cli.models import open_model
    from trellis.report.comparison import compare_labels
    from trellis.report.evaluation import evaluate_counts
    from trellis.report.label_counts import add_counts

    other = None if against is None else open_model(against, 1, layout.encoding)
    mapped = answers(
        evaluate_piece, work_on(files, layout), labeler, layout, decoding, other, title="evaluate", **places
    )
    parts, gathered = [], tuple[list[Any], list[Any], list[Any]](([], [], []))
    for _, (counts, labellings) in mapped:
        parts.append(counts)
        for kept, new in zip(gathered, labellings or (), strict=False):
            kept.extend(new)
    evaluation = evaluate_counts(add_counts(parts), bernstein=bernstein)
    return evaluation, None if other is None else compare_labels(*gathered)


def evaluate_piece(
    work: Work,
    labeler: SequenceLabeler,
    layout: InputFormat,
    decoding: str,
    other: tuple[SequenceLabeler, InputFormat] | None,
) -> tuple[LabelCounts, tuple[Any, Any, Any] | None]:
    """Counts, and with another model all labels: those of the file, of the model, of the other one."""
    from trellis.report.label_counts import count_labels

    data = work.read()
    gold = layout.labels(data)
    predicted = [list(labels) for labels in labeler.predict(layout.inputs(data), decoding=decoding)]
    counts = count_labels(gold, predicted)
    if other is None:
        return counts, None
    second, its_layout = other
    again = work.read() if its_layout == layout else its_layout.parse(work.piece.read_text(), work.piece.path)
    _check_same_labels(its_layout.labels(again), gold, work.piece.path)
    return counts, (gold, predicted, second.predict(its_layout.inputs(again), decoding=decoding))


def _check_same_labels(found: list[list[str]], gold: list[list[str]], name: str) -> None:
    from trellis.core.errors import DataError

    if found != gold:
        raise DataError(
            f"the two models read their labels from different columns of {name}; only models with the same "
            "labels can be compared"
        )


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
    from trellis.report.comparison import compare_labels

    labeler, layout = open_model(path, jobs)
    data = layout.parse(text, name)
    _check_same_labels(layout.labels(data), gold, name)
    return compare_labels(gold, predicted, labeler.predict(layout.inputs(data), decoding=decoding))
