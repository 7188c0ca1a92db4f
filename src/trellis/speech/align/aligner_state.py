"""The state of an aligner: its parameters and what it learnt, as JSON and arrays.

Records of options become plain dictionaries, and back: frames, classifiers, boundaries, objectives and
losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from trellis.core.arrays import AnyArray
from trellis.core.errors import ModelFileError
from trellis.core.status import Status
from trellis.objectives.records import OBJECTIVES, Objective, options_of
from trellis.speech.acoustics.boundary_classifier import BoundaryOptions
from trellis.speech.acoustics.feed_forward import NetworkOptions
from trellis.speech.acoustics.frame_classifiers import options_from_json, options_to_json
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.audio.cepstra import FrameOptions
from trellis.structures.segments.problem.alignment_losses import ALIGNMENT_LOSSES, AlignmentLoss


def aligner_to_state(aligner: Aligner) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """What :func:`aligner_from_state` reads."""
    meta, arrays = aligner.model_.to_state()
    parameters = {name: _to_json(value) for name, value in aligner.get_params(deep=False).items()}
    losses = aligner.epsilon_losses_
    return {
        "parameters": parameters,
        "history": aligner.history_,
        "status": asdict(aligner.status_),
        "epsilon": aligner.epsilon_,
        "epsilon_losses": None if losses is None else list(losses.items()),
        "model": meta,
    }, arrays


def aligner_from_state(meta: dict[str, Any], arrays: dict[str, AnyArray]) -> Aligner:
    """The aligner, once everything about it is checked."""
    aligner = Aligner(**{name: _from_json(name, value) for name, value in meta["parameters"].items()})
    losses = meta["epsilon_losses"]
    aligner.model_ = AlignmentModel.from_state(meta["model"], arrays)
    aligner.history_, aligner.status_ = dict(meta["history"]), Status(**meta["status"])
    aligner.epsilon_ = meta["epsilon"]
    aligner.epsilon_losses_ = None if losses is None else dict(map(tuple, losses))
    return aligner


def _to_json(value: Any) -> Any:
    if isinstance(value, Objective):
        options = {k: list(v) if isinstance(v, tuple) else v for k, v in options_of(value).items()}
        return {"@": "objective", "name": value.name, **options}
    if isinstance(value, AlignmentLoss):
        return {"@": "loss", "name": value.name, "tau": value.tau}
    if isinstance(value, FrameOptions | BoundaryOptions):
        return asdict(value)
    if hasattr(value, "fit"):
        return options_to_json(value)
    if isinstance(value, Mapping):
        return {k: list(v) if not isinstance(v, str) else v for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [v.item() if isinstance(v, np.generic) else v for v in value]
    return value.item() if isinstance(value, np.generic) else value


def _from_json(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    if name == "frames":
        return FrameOptions(**value)
    if name == "boundaries":
        network = NetworkOptions(**{**value["network"], "hidden": tuple(value["network"]["hidden"])})
        return BoundaryOptions(**{**value, "network": network})
    if name == "classifier":
        return options_from_json(value)
    known: Any
    if name == "objective":
        known = OBJECTIVES.get(value["name"])
        options = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items() if k not in "@name"}
    elif name == "loss":
        known, options = ALIGNMENT_LOSSES.get(value["name"]), {"tau": value["tau"]}
    else:
        return value
    if known is None:
        raise ModelFileError(
            f"the model names the {name} {value['name']!r}, which is not known; update trellis"
        )
    return known(**options)
