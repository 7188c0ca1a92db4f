"""``trellis train``: learn a model from labelled files.

One file is read into memory. Several files, a folder, or a file with a limit of memory or a cluster are cut
into shards (:class:`~trellis.data.shard_files.ShardFiles`), which are read where they are worked on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from trellis.cli import train_options as opt
from trellis.cli.console import check_output, note
from trellis.cli.options import read_pairs
from trellis.cli.places import chosen_place, is_one_file
from trellis.cli.training_output import collected_warnings, save_trained
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.output_files import check_folder
from trellis.core.stage_times import StageTimes, after, stages_in_words
from trellis.training import declarations as declared

if TYPE_CHECKING:
    from trellis.data.shard_files.input_format import InputFormat


def train(
    files: opt.Files,
    output: opt.Output,
    format: opt.Format = None,
    label_column: opt.LabelColumn = None,
    feature_columns: opt.FeatureColumns = None,
    tabs: opt.Tabs = False,
    encoding: opt.Encoding = "utf-8",
    template: opt.TemplateFile = None,
    out_of_bounds: opt.OutOfBounds = "pad",
    min_count: opt.MinCount = declared.MIN_COUNT.default,
    hashing: opt.Hashing = None,
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
    cluster: opt.Cluster = None,
    local_cluster: opt.LocalCluster = None,
    max_memory: opt.MaxMemory = None,
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
    """Learn a model from labelled files and write it to one file.

    Several files, or a folder, are read in shards, for example: trellis train data/*.conll.gz -o m.trellis
    --max-memory 1GB (or --local-cluster 4, or --cluster tcp://host:8786)
    """
    from trellis.cli.models import save_model
    from trellis.cli.training_input import TrainingFile, TrainingFiles
    from trellis.data.shard_files.file_paths import find_files
    from trellis.structures.chain.labeler.inspection import said_of_hashing
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

    began, stages = time.perf_counter(), StageTimes()
    listed = files if is_one_file(files) else find_files(files)
    check_output(output, "a model", inputs=[*listed, dev, template, constraints, transitions])
    if checkpoint is not None:
        check_folder(checkpoint)
    backend = chosen_place(cluster, local_cluster)
    in_memory = is_one_file(files) and backend is None and max_memory is None
    data = (TrainingFile if in_memory else TrainingFiles)(
        files,
        format,
        label_column=label_column,
        feature_columns=feature_columns,
        tabs=tabs,
        encoding=encoding,
    )
    layout = data.layout
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
        hashing=hashing,
        weights="all" if all_weights else "observed",
        class_weight=_class_weight(class_weight),
        holdout=_held_out(holdout, dev, layout, data),
        patience=patience,
        verbose=False if quiet else None,
        checkpoint=checkpoint,
        backend=backend,
        max_memory=max_memory,
    )
    if not quiet and (doubt := data.doubt()) is not None:
        note(f"trellis: warning: {doubt}")
    stages.done(data.reading)
    doubts: list[str] = []
    try:
        with collected_warnings() as doubts:
            data.fit(labeler)
    except KeyboardInterrupt:
        if not hasattr(labeler, "weights_"):
            raise
    labeler.fit_seconds_ = after(stages.seconds, getattr(labeler, "fit_seconds_", None) or {})
    save_trained(lambda target: save_model(labeler, layout, target), output, checkpoint=checkpoint)
    if not quiet:
        for doubt in doubts:
            note(f"trellis: warning: {doubt}")
        if (said := said_of_hashing(labeler)) is not None:
            note(said)
        note(
            f"{labeler.status_}\n"
            f"{data.n_steps} tokens in {data.n_sequences} sequences, {len(labeler.classes_)} labels, "
            f"{len(labeler.weights_)} weights, {time.perf_counter() - began:.1f} s "
            f"({stages_in_words(labeler.fit_seconds_)}); the model is in {output}"
        )


def _objective(name: str, epsilon: str | None, sign: str | None) -> Any:
    """The objective by name, or with its options where any are given."""
    from trellis.objectives.special_cases import Direct

    if epsilon is None and sign is None:
        return name
    if name != Direct.name:
        raise UnsupportedError(f"--epsilon and --sign apply only to --objective direct, not to {name}")
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
            f"{given}: each line has {data.n_columns} labels; give two, the previous and the next"
        )
    return list(zip(data.column(0), data.column(1), strict=True))


def _template(path: str | None, out_of_bounds: str, layout: InputFormat) -> Any:
    """The template for column files; attribute files have their features ready."""
    from trellis.core.file_formats import FileFormat
    from trellis.features.templates import Template

    if layout.format is FileFormat.crfsuite:
        if path is not None:
            raise UnsupportedError(
                "CRFsuite files already contain features, so a template does not apply; leave out --template"
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


def _held_out(fraction: float | None, dev: str | None, layout: InputFormat, training: Any) -> Any:
    """A fraction, or the development file, whose labels must be among those of the training file."""
    if dev is None:
        return "auto" if fraction is None else fraction
    if fraction is not None:
        raise UnsupportedError("--holdout and --dev both say what to hold out; give only one of them")
    from trellis.data.shard_files.input_format import locate_step

    data = layout.read(dev)
    labels = layout.labels(data)
    known = training.labels()
    if known is None:  # not before all files have been read; a label that they lack counts as an error
        return layout.inputs(data), labels
    for step, label in enumerate(chain.from_iterable(labels)):
        if label not in known:
            raise DataError(
                f"{locate_step(data, step)}: label {label!r} does not occur in the training file, so the "
                "model cannot learn it; leave out its sequence"
            )
    return layout.inputs(data), labels
