"""Models to and from one file: parameters and names as JSON, everything large as arrays, nothing that executes."""

from __future__ import annotations

import os
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import storage
from trellis.data.labels import LabelSet
from trellis.errors import ModelFileError
from trellis.estimators.sequence_labeler import SequenceLabeler
from trellis.features.encoders import encoder_from_state
from trellis.losses import LOSSES, Custom, Loss
from trellis.objectives.modes import OBJECTIVES, Objective
from trellis.scores.linear import LinearLayout
from trellis.scores.linear_kernels import Penalties
from trellis.solvers.loop import Status

KIND = "SequenceLabeler"


def save(model: SequenceLabeler, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model; ``extra`` (JSON values) is kept beside it, in ``extra_`` of the loaded model."""
    encoder_meta, encoder_arrays = model.encoder_.to_state()
    layout_meta, layout_arrays = model.layout_.to_state()
    meta = {
        "parameters": _parameters(model),
        "labels": model.labels_.to_state(),
        "encoder": encoder_meta,
        "layout": layout_meta,
        "status": {"converged": model.status_.converged, "reason": model.status_.reason, "n_iter": model.status_.n_iter},
        "solver": model.solver_,
        "epsilon": model.epsilon_,
        "history": model.history_,
        "one_symbol": model.one_symbol_,
        "extra": extra or {},
    }
    arrays: dict[str, NDArray[Any]] = {
        "weights": model.weights_,
        **{f"encoder.{name}": a for name, a in encoder_arrays.items()},
        **{f"layout.{name}": a for name, a in layout_arrays.items()},
        **{f"penalties.{name}": np.asarray(a) for name, a in model.penalties_._asdict().items()},
    }
    storage.save(path, KIND, meta, arrays)


def load(path: str | os.PathLike[str]) -> SequenceLabeler:
    """Read a model that ``save`` wrote. Reading executes nothing that the file contains."""
    kind, meta, arrays = storage.read(path)
    if kind != KIND:
        raise ModelFileError(f"{os.fspath(path)}: holds a model of kind {kind!r}, which this version cannot load")
    try:
        model = SequenceLabeler(**_from_json(meta["parameters"]))
        model._keep(
            encoder_from_state(meta["encoder"], _under("encoder.", arrays)),
            LabelSet.from_state(meta["labels"]),
            LinearLayout.from_state(meta["layout"], _under("layout.", arrays)),
            Penalties(**_under("penalties.", arrays)),
            arrays["weights"],
        )
        model.status_ = Status(**meta["status"])
        model.solver_, model.epsilon_, model.epsilon_losses_ = meta["solver"], meta["epsilon"], None
        model.history_, model.n_iter_ = meta["history"], model.status_.n_iter
        model.one_symbol_, model.extra_ = meta["one_symbol"], meta["extra"]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{os.fspath(path)}: the model file is damaged or incomplete ({error})") from error
    return model


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def _parameters(model: SequenceLabeler) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    if isinstance(parameters["holdout"], tuple):
        parameters["holdout"] = "auto"  # data are not part of a model
    if parameters["template"] is not None:
        parameters["template"] = None  # the encoder holds it
    return {name: _to_json(value) for name, value in parameters.items()}


def _to_json(value: Any) -> Any:
    """JSON values; options objects become {"@": what, "name": ..., **options}."""
    if isinstance(value, Objective):
        return {"@": "objective", "name": value.name, **{k: _to_json(v) for k, v in asdict(value).items()}}
    if isinstance(value, Loss):
        options = {k: _to_json(v) for k, v in vars(value).items() if not callable(v)}
        return {"@": "loss", "name": value.name, **options}
    if is_dataclass(value) and hasattr(value, "name") and not isinstance(value, type):
        return value.name  # a solver: its options do not matter to the trained model
    if callable(value):
        return {"@": "loss", "name": "custom"}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"@": "dict", "items": [[_to_json(k), _to_json(v)] for k, v in value.items()]}
    if isinstance(value, tuple | list | set | frozenset):
        return {"@": "tuple", "items": [_to_json(v) for v in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return None  # a generator or random state: not part of a model


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kind = value.get("@")
    if kind is None:
        return {k: _from_json(v) for k, v in value.items()}
    if kind == "dict":
        return {_from_json(k): _from_json(v) for k, v in value["items"]}
    if kind == "tuple":
        return tuple(_from_json(v) for v in value["items"])
    options = {k: _from_json(v) for k, v in value.items() if k not in ("@", "name")}
    if kind == "objective":
        return OBJECTIVES[value["name"]](**options)
    if kind == "loss":
        return Custom(**options) if value["name"] == Custom.name else LOSSES[value["name"]](**options)
    raise ModelFileError(f"the model file has a parameter of the unknown kind {kind!r}")
