"""The state of an ``IOHMM``: options as JSON, parameters as arrays, all of it checked when read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.errors import ModelFileError
from trellis.core.status import Status
from trellis.hmm.input_output.conditional_emission import State
from trellis.hmm.input_output.io_hmm import EMISSIONS, IOHMM
from trellis.hmm.input_output.io_parameters import Parameters, checked_parameters


def model_to_state(model: IOHMM) -> State:
    """What :func:`model_from_state` reads."""
    options = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in model.get_params(deep=False).items()
        if name != "emission"
    }
    if not isinstance(options["random_state"], int):
        options["random_state"] = None  # a stream of random numbers has no beginning to go back to
    emission_meta, emission_arrays = model.emission_.to_state()
    kind = next(name for name, known in EMISSIONS.items() if type(model.emission_) is known)
    meta = {
        "options": options,
        "emission": {"kind": kind, "by_name": isinstance(model.emission, str), **emission_meta},
        "status": asdict(model.status_) if hasattr(model, "status_") else None,
        "history": getattr(model, "history_", {}),
        "objectives": getattr(model, "objectives_", []),
    }
    p = model.parameters_
    arrays: dict[str, NDArray[Any]] = {
        "initial": p.initial,
        "transitions": p.transitions,
        **{f"emission.{name}": array for name, array in emission_arrays.items()},
    }
    return meta, arrays


def model_from_state(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> IOHMM:
    """The model, once everything about it is checked."""
    kind = meta["emission"]["kind"]
    if kind not in EMISSIONS:
        raise ModelFileError(f"it has an emission of the unknown kind {kind!r}")
    own = {
        name.removeprefix("emission."): array
        for name, array in arrays.items()
        if name.startswith("emission.")
    }
    emission = EMISSIONS[kind].from_state(meta["emission"], own)
    model = IOHMM(
        emission=kind if meta["emission"]["by_name"] else emission.without_parameters(), **meta["options"]
    )
    model._keep(checked_parameters(Parameters(arrays["initial"], arrays["transitions"], emission)))
    if meta["status"] is not None:
        model.status_, model.history_ = Status(**meta["status"]), meta["history"]
        model.n_iter_, model.objectives_ = model.status_.n_iter, meta["objectives"]
    return model
