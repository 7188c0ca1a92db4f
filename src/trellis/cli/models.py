"""Saving and opening labellers together with the format of their input files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trellis.core.errors import ModelFileError
from trellis.core.output_files import Target
from trellis.core.persistence import load, save
from trellis.data.shard_files.input_format import InputFormat
from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

INPUT_KEY = "input"


def save_model(labeler: SequenceLabeler, layout: InputFormat, path: Target) -> None:
    save(labeler, path, extra={INPUT_KEY: layout.to_meta()})


def open_model(
    path: str, jobs: int | None, encoding: str | None = None
) -> tuple[SequenceLabeler, InputFormat]:
    """The model and the format of its input files, which a model saved from Python does not have.

    ``encoding`` is that of a file which is not written in the same one as the training file.
    """
    labeler = open_labeler(path)
    return labeler, input_format(labeler, path, jobs, encoding)


def input_format(labeler: Any, path: str, jobs: int | None, encoding: str | None = None) -> InputFormat:
    """The format of the input files of a labeller that was loaded from ``path``, which gets its threads."""
    labeler.set_params(n_jobs=-1 if jobs is None else jobs)
    if INPUT_KEY not in labeler.extra_:
        raise ModelFileError(
            f"{path}: this model was saved from Python, without the format of its input files; "
            "use it from Python, or train one with trellis train"
        )
    layout = InputFormat.from_meta(labeler.extra_[INPUT_KEY], path)
    return layout if encoding is None else replace(layout, encoding=encoding)


def open_labeler(path: str) -> SequenceLabeler:
    """The labeller in a file; other models are not for these commands."""
    return check_labeler(load(path), path)


def check_labeler(model: Any, path: str) -> SequenceLabeler:
    if not isinstance(model, SequenceLabeler):
        raise ModelFileError(
            f"{path}: this is a {type(model).__name__}, and the command needs a SequenceLabeler; open other "
            "models in Python with trellis.load"
        )
    return model
