"""Saving and opening labellers together with the format of their input files."""

from __future__ import annotations

from trellis.cli.inputs import InputFormat
from trellis.core.errors import ModelFileError
from trellis.core.persistence import load, save
from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

_KEY = "input"


def save_model(labeler: SequenceLabeler, layout: InputFormat, path: str) -> None:
    save(labeler, path, extra={_KEY: layout.to_meta()})


def open_model(path: str, jobs: int | None) -> tuple[SequenceLabeler, InputFormat]:
    """The model and the format of its input files, which a model saved from Python does not have."""
    labeler = open_labeler(path)
    labeler.set_params(n_jobs=-1 if jobs is None else jobs)
    if _KEY not in labeler.extra_:
        raise ModelFileError(
            f"{path}: this model was saved from Python, without the format of its input files; "
            "use it from Python, or train one with trellis train"
        )
    return labeler, InputFormat.from_meta(labeler.extra_[_KEY], path)


def open_labeler(path: str) -> SequenceLabeler:
    """The labeller in a file; other models are not for these commands."""
    model = load(path)
    if not isinstance(model, SequenceLabeler):
        raise ModelFileError(
            f"{path}: holds a {type(model).__name__}; this command needs a SequenceLabeler "
            "(open other models in Python with trellis.load)"
        )
    return model
