"""A hidden Markov model as JSON values and arrays, and back. What is read is checked by what reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.errors import ModelFileError
from trellis.core.status import Status
from trellis.hmm.emissions import emission_from_state, emission_to_state
from trellis.hmm.hmm_parameters import Expectations
from trellis.hmm.online_em import OnlineState
from trellis.hmm.transition_constraints import check_probabilities

if TYPE_CHECKING:
    from trellis.hmm.hidden_markov_model import HMM

PLAIN = ("n_states", "max_iter", "tol", "n_init", "start", "step_power", "n_jobs", "verbose")
ARRAYS = ("initial", "transitions", "initial_pseudocount", "transition_pseudocount")

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def hmm_to_state(model: HMM) -> State:
    """What :func:`hmm_from_state` reads."""
    parameters = model.parameters()
    given, given_arrays = emission_to_state(model.emission)
    fitted, fitted_arrays = emission_to_state(parameters.emission)
    seed = model.random_state
    tied = model.tied_transitions
    meta = {
        "parameters": {
            **{name: _plain(getattr(model, name)) for name in PLAIN},
            "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
            "tied_transitions": None if tied is None else [_plain(label) for label in tied],
        },
        "emission": given,
        "fitted_emission": fitted,
        "fitted": hasattr(model, "initial_"),
        "status": asdict(model.status_) if hasattr(model, "status_") else None,
        "history": getattr(model, "history_", {}),
        "objectives": getattr(model, "objectives_", []),
        "online": None,
    }
    options: dict[str, Any] = {
        name: getattr(model, name) for name in ARRAYS if getattr(model, name) is not None
    }
    arrays = {
        "initial": parameters.initial,
        "transitions": parameters.transitions,
        **{f"parameters.{name}": np.asarray(value, dtype=np.float64) for name, value in options.items()},
        **{f"emission.{name}": array for name, array in given_arrays.items()},
        **{f"fitted_emission.{name}": array for name, array in fitted_arrays.items()},
    }
    online: OnlineState | None = getattr(model, "online_", None)
    if online is not None:
        meta["online"] = {"n_batches": online.n_batches, "n_steps": online.n_steps}
        arrays |= {"online.start": online.mean.start, "online.pairs": online.mean.pairs}
        arrays |= {f"online.emission.{name}": np.asarray(a) for name, a in online.mean.emission.items()}
    return meta, arrays


def hmm_from_state(cls: type[HMM], meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> HMM:
    """The model that :func:`hmm_to_state` described."""
    options: dict[str, Any] = {
        name: array if array.ndim else float(array) for name, array in _under("parameters.", arrays).items()
    }
    emission = emission_from_state(meta["emission"], _under("emission.", arrays))
    model = cls(emission=emission, **meta["parameters"], **options)
    k = int(model.n_states)
    if not meta["fitted"]:
        return model
    initial = check_probabilities("initial", arrays["initial"], (k,))
    transitions = check_probabilities("transitions", arrays["transitions"], (k, k))
    fitted = emission_from_state(meta["fitted_emission"], _under("fitted_emission.", arrays))
    if fitted.n_states != k:
        raise ModelFileError(f"its emission has {fitted.n_states} states, not {k}")
    model.initial_, model.transitions_, model.emission_ = initial, transitions, fitted
    if meta["status"] is not None:
        model.status_ = Status(**meta["status"])
        model.n_iter_ = model.status_.n_iter
    model.history_, model.objectives_ = dict(meta["history"]), list(meta["objectives"])
    model.online_ = _online(model, meta.get("online"), arrays)
    return model


def _online(
    model: HMM, counts: Mapping[str, int] | None, arrays: Mapping[str, NDArray[Any]]
) -> OnlineState | None:
    """What partial_fit goes on from; None where the last to learn was fit."""
    if counts is None:
        return None
    start, pairs = arrays["online.start"], arrays["online.pairs"]
    if (start.shape, pairs.shape) != (model.initial_.shape, model.transitions_.shape):
        raise ModelFileError(f"its online counts have shapes {start.shape} and {pairs.shape}")
    mean = Expectations(start, pairs, _under("online.emission.", arrays), model.parameters())
    return OnlineState(mean, int(counts["n_batches"]), int(counts["n_steps"]))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
