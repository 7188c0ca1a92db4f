"""The state of a neural labeller: parameters and names as JSON, vocabularies and weights as arrays.

A network by name is built anew and must fit the weights. A module of the user's own is code, which a file
does not store: such a model comes back with ``encoder=None`` and its weights, and works once the module is
given again (``set_params(encoder=...)``).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trellis.core.codec import decode, encode
from trellis.core.errors import ModelFileError
from trellis.core.status import Status
from trellis.data.constraints import LegalTransitions
from trellis.neural.labeler.network_inputs import InputEncoder
from trellis.neural.labeler.networks import new_network
from trellis.neural.labeler.neural_labeler import NeuralSequenceLabeler
from trellis.training.parameters import parameters_from_json, parameters_to_json

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def neural_to_state(model: NeuralSequenceLabeler) -> State:
    """What :func:`neural_from_state` reads."""
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["encoder"], str):
        parameters["encoder"] = None
    if isinstance(parameters["holdout"], tuple):
        parameters["holdout"] = None
    parameters["checkpoint"] = None
    stored = parameters_to_json(parameters)
    stored.pop("template")
    inputs_meta, inputs_arrays = model.inputs_.to_state()
    weights = model._network().state_dict()
    meta = {
        "parameters": stored,
        "labels": encode(model.labels_, {}),
        "inputs": inputs_meta,
        "status": asdict(model.status_),
        "history": model.history_,
    }
    arrays = {f"inputs.{name}": array for name, array in inputs_arrays.items()}
    arrays |= {f"network.{name}": tensor.detach().numpy() for name, tensor in weights.items()}
    if model.legal_ is not None:
        arrays |= {f"legal.{name}": array for name, array in model.legal_._asdict().items()}
    return meta, arrays


def neural_from_state(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> NeuralSequenceLabeler:
    """The model, once everything about it is checked."""
    model = NeuralSequenceLabeler(**parameters_from_json(meta["parameters"]))
    encoder = InputEncoder.from_state(meta["inputs"], _under("inputs.", arrays))
    labels = decode(meta["labels"], {})
    weights = {name: torch.from_numpy(np.array(array)) for name, array in _under("network.", arrays).items()}
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelFileError(f"some of its weights {name} are not finite")
    network: Any = weights
    if model.encoder is not None:
        network = new_network(model.encoder, encoder.shape, len(labels), model._sizes())
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise ModelFileError("its weights do not fit its network") from error
    model._keep(encoder, labels, _legal(_under("legal.", arrays), len(labels)), network)
    model.status_ = Status(**meta["status"])
    model.history_, model.n_iter_ = meta["history"], model.status_.n_iter
    return model


def _legal(arrays: dict[str, NDArray[Any]], k: int) -> LegalTransitions | None:
    if not arrays:
        return None
    legal = LegalTransitions(**arrays)
    if [(a.dtype.name, a.shape) for a in legal] != [("bool", s) for s in ((k,), (k, k), (k,))]:
        raise ModelFileError("its constraints do not fit its labels")
    return legal


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
