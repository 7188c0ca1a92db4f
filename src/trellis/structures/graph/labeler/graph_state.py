"""The state of a ``GraphLabeler``: parameters, names and shapes as JSON, the weights as an array.

Reading trusts nothing: sizes, types and values are checked before the model is given out.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.errors import ModelFileError
from trellis.data.labels import LabelSet
from trellis.solvers.run import Status
from trellis.structures.graph.labeler.graph_labeler import GraphLabeler
from trellis.structures.graph.oracle.graph_oracle import GraphInference
from trellis.structures.graph.scores.linear_graph import GraphLayout
from trellis.training.parameters import parameters_from_json, parameters_to_json


def graph_labeler_to_state(model: GraphLabeler) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What :func:`graph_labeler_from_state` reads."""
    parameters = model.get_params(deep=False)
    if isinstance(model.inference, GraphInference):
        parameters["inference"] = asdict(model.inference)
    losses = model.epsilon_losses_
    meta = {
        "parameters": parameters_to_json(parameters),
        "labels": model.labels_.to_state(),
        "layout": asdict(model.layout_),
        "status": asdict(model.status_),
        "history": model.history_,
        "solver": model.solver_,
        "excess": "inf" if model.excess_ == np.inf else model.excess_,  # JSON has no infinity
        "epsilon": model.epsilon_,
        "epsilon_losses": None if losses is None else list(losses.items()),
    }
    return meta, {"weights": model.weights_}


def graph_labeler_from_state(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> GraphLabeler:
    """The model, once everything about it is checked."""
    parameters = parameters_from_json(meta["parameters"])
    parameters.pop("template", None)
    if isinstance(parameters["inference"], dict):
        parameters["inference"] = GraphInference(**parameters["inference"])
    model = GraphLabeler(**parameters)
    names = LabelSet.from_state(meta["labels"])
    layout, weights = _layout(meta["layout"], len(names)), arrays["weights"]
    if weights.dtype != np.float64 or weights.shape != (layout.dimension,):
        raise ModelFileError(
            f"its weights are {weights.dtype} of shape {weights.shape}; they should be float64 of shape "
            f"({layout.dimension},)"
        )
    if not np.isfinite(weights).all():
        raise ModelFileError("some of its weights are not finite")
    model._keep(names, layout, weights)
    model.status_, model.history_ = Status(**meta["status"]), meta["history"]
    model.n_iter_, model.solver_ = model.status_.n_iter, meta["solver"]
    model.excess_ = None if meta["excess"] is None else float(meta["excess"])
    losses = meta["epsilon_losses"]
    model.epsilon_ = meta["epsilon"]
    model.epsilon_losses_ = None if losses is None else dict(map(tuple, losses))
    return model


def _layout(stored: dict[str, Any], n_labels: int) -> GraphLayout:
    layout = GraphLayout(**{**stored, "directed": tuple(stored["directed"])})
    sizes = layout.n_labels, layout.n_features, layout.n_edge_features
    flags = (*layout.directed, layout.bias)
    if not (all(type(n) is int and n >= 0 for n in sizes) and all(type(flag) is bool for flag in flags)):
        raise ModelFileError("the shape of its weights is not made of whole numbers")
    if layout.n_labels != n_labels or not layout.directed:
        raise ModelFileError("its weights do not fit its labels")
    return layout
