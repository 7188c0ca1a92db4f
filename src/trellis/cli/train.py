"""``trellis train``: learn a model from a labelled file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from trellis.cli import train_options as opt
from trellis.cli.console import check_output, note
from trellis.cli.options import read_pairs
from trellis.cli.training_output import collected_warnings, save_trained
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.output_files import check_folder
from trellis.training import declarations as declared

if TYPE_CHECKING:
    from trellis.data.input_format import InputData, InputFormat


def train(
    file: opt.File,
    output: opt.Output,
    format: opt.Format = None,
    label_column: opt.LabelColumn = None,
    feature_columns: opt.FeatureColumns = None,
    tabs: opt.Tabs = False,
    encoding: opt.Encoding = "utf-8",
    template: opt.TemplateFile = None,
    out_of_bounds: opt.OutOfBounds = "pad",
    min_count: opt.MinCount = declared.MIN_COUNT.default,
    all_weights: opt.AllWeights = False,
    objective: opt.Objective = "log",
    loss: opt.Loss = "hamming",
    solver: opt.SolverName = "auto",
    l2: opt.L2 = declared.L2.default,
    l1: opt.L1 = declared.L1.default,
    epsilon: opt.Epsilon = None,
    sign: opt.Sign = None,
    average: opt.Average = True,
    constraints: opt.ConstraintsOption = None,
    transitions: opt.TransitionsOption = "all",
    latent_states: opt.LatentStates = None,
    class_weight: opt.ClassWeight = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    max_iter: opt.MaxIter = declared.MAX_ITER.default,
    tol: opt.Tol = declared.TOL.default,
    delta: opt.Delta = declared.DELTA.default,
    period: opt.Period = declared.PERIOD.default,
    holdout: opt.Holdout = None,
    dev: opt.DevFile = None,
    patience: opt.Patience = declared.PATIENCE.default,
    checkpoint: opt.Checkpoint = None,
    quiet: opt.Quiet = False,
) -> None:
    """Learn a model from a labelled FILE and write it to one file."""
    from trellis.cli.models import save_model
    from trellis.data.input_format import choose_format, locate_step
    from trellis.data.streams import read_utf8, source_name
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

    began = time.perf_counter()
    check_output(output, "a model")
    if checkpoint is not None:
        check_folder(checkpoint)
    text, name = read_utf8(file, encoding), source_name(file)
    columns = {"label_column": label_column, "feature_columns": feature_columns}
    layout = choose_format(text, name, format, tabs=tabs, encoding=encoding, **columns)
    data = layout.parse(text, name)
    labeler = SequenceLabeler(
        _objective(objective, epsilon, sign),
        loss,
        _solver(solver, average),
        l2=l2,
        l1=l1,
        max_iter=max_iter,
        tol=tol,
        delta=delta,
        period=period,
        n_jobs=-1 if jobs is None else jobs,
        random_state=seed,
        constraints=_label_pairs(constraints, encoding, "bio", "bioes"),
        transitions=_label_pairs(transitions, encoding, "all", "observed"),
        latent_states=_latent_states(latent_states),
        template=_template(template, out_of_bounds, layout),
        min_count=min_count,
        weights="all" if all_weights else "observed",
        class_weight=_class_weight(class_weight),
        holdout=_held_out(holdout, dev, layout, data),
        patience=patience,
        verbose=False if quiet else None,
        checkpoint=checkpoint,
    )
    doubts: list[str] = []
    try:
        with collected_warnings() as doubts:
            labeler.fit(layout.inputs(data), layout.labels(data))
    except DataError as error:
        if error.step is None:
            raise
        raise DataError(f"{locate_step(data, error.step)}: {error}") from error
    except KeyboardInterrupt:
        if not hasattr(labeler, "weights_"):
            raise
    save_trained(lambda target: save_model(labeler, layout, target), output, checkpoint=checkpoint)
    if not quiet:
        for doubt in doubts:
            note(f"trellis: warning: {doubt}")
        note(
            f"{labeler.status_}\n"
            f"{data.n_steps} tokens in {len(data)} sequences, {len(labeler.classes_)} labels, "
            f"{len(labeler.weights_)} weights, {time.perf_counter() - began:.1f} s; the model is in {output}"
        )


def _objective(name: str, epsilon: str | None, sign: str | None) -> Any:
    """The objective by name, or with its options where any are given."""
    from trellis.objectives.special_cases import Direct

    if epsilon is None and sign is None:
        return name
    if name != Direct.name:
        raise UnsupportedError(f"--epsilon and --sign belong to --objective direct, not to {name}")
    options: dict[str, Any] = {} if sign is None else {"sign": sign}
    if epsilon is not None:
        try:
            options["epsilon"] = float(epsilon)
        except ValueError:
            options["epsilon"] = epsilon
    return Direct(**options)


def _solver(name: str, average: bool) -> Any:
    """The solver by name, or as an object that does not average."""
    if average:
        return name
    from dataclasses import fields, replace

    from trellis.solvers import get_solver

    solver: Any = None if name == "auto" else get_solver(name)
    if solver is None or "average" not in {field.name for field in fields(solver)}:
        raise UnsupportedError(f"--no-average needs a --solver that averages its weights, not {name}")
    # where there are several ways to average, "not at all" is None
    return replace(solver, average=None if isinstance(solver.average, str) else False)


def _label_pairs(given: str | None, encoding: str, *names: str) -> str | list[tuple[str, str]] | None:
    """One of the names, or the pairs in a file."""
    if given is None or given in names or not os.path.exists(given):
        return given
    from trellis.data.columns import read_columns

    data = read_columns(given, encoding=encoding)
    if data.n_columns != 2:
        raise DataError(
            f"{given}: {data.n_columns} labels in a line; give two, the previous one and the next"
        )
    return list(zip(data.column(0), data.column(1), strict=True))


def _template(path: str | None, out_of_bounds: str, layout: InputFormat) -> Any:
    """The template for column files; attribute files have their features ready."""
    from trellis.data.file_formats import FileFormat
    from trellis.features.templates import Template

    if layout.format is FileFormat.crfsuite:
        if path is not None:
            raise UnsupportedError(
                "CRFsuite files hold features, so a template does not apply; leave out --template"
            )
        return None
    if path is None:
        return Template.builtin(len(layout.features))
    return Template.read(path, out_of_bounds, layout.encoding)


def _latent_states(entries: list[str] | None) -> int | dict[str, int]:
    """One number for all labels, or LABEL=N for some."""
    if entries and len(entries) == 1 and entries[0].isdecimal():
        return int(_label_numbers("--latent-states", [f"all={entries[0]}"], int)["all"])
    return _label_numbers("--latent-states", entries, int) or 1


def _class_weight(entries: list[str] | None) -> str | dict[str, float] | None:
    return "balanced" if entries == ["balanced"] else _label_numbers("--class-weight", entries, float) or None


def _label_numbers(option: str, entries: list[str] | None, kind: Callable[[str], Any]) -> dict[str, Any]:
    numbers = read_pairs(option, entries, "B-NP=2")
    try:
        return {label: kind(text) for label, text in numbers.items()}
    except ValueError:
        raise DataError(f"{option} {' '.join(entries or ())}: give a number, as in {option} B-NP=2") from None


def _held_out(fraction: float | None, dev: str | None, layout: InputFormat, training: InputData) -> Any:
    """A fraction, or the development file, whose labels must be among those of the training file."""
    if dev is None:
        return "auto" if fraction is None else fraction
    if fraction is not None:
        raise UnsupportedError("--holdout and --dev both say what to hold out; give only one of them")
    from trellis.data.input_format import locate_step

    data = layout.read(dev)
    labels = layout.labels(data)
    known = set(chain.from_iterable(layout.labels(training)))
    for step, label in enumerate(chain.from_iterable(labels)):
        if label not in known:
            raise DataError(
                f"{locate_step(data, step)}: label {label!r} does not occur in the training file, so the "
                "model cannot learn it; leave out its sequence"
            )
    return layout.inputs(data), labels
