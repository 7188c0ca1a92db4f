"""The state of labellers of chains: parameters and names as JSON, all that is large as arrays.

Reading trusts nothing: kernels index without bounds checks, so every array that they index with is checked
against the sizes it must fit before the model is given out.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import ModelFileError
from trellis.data.labels import LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.features.encoded import FeatureEncoder, State
from trellis.features.encoders import encoder_from_state
from trellis.features.template_encoder import TemplateEncoder
from trellis.solvers.run import Status
from trellis.structures.chain.labeler.chain_labeler import ChainLabeler
from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import LABEL, LAST, Penalties
from trellis.training.parameters import parameters_from_json, parameters_to_json


def labeler_to_state(model: SequenceLabeler) -> State:
    """What :func:`labeler_from_state` reads."""
    epsilon_losses = model.epsilon_losses_
    meta, arrays = chain_to_state(model)
    meta |= {
        "solver": model.solver_,
        "epsilon": model.epsilon_,
        "epsilon_losses": None if epsilon_losses is None else list(epsilon_losses.items()),
        "one_symbol": model.one_symbol_,
    }
    return meta, arrays


def labeler_from_state(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SequenceLabeler:
    """The model, once everything about it is checked."""
    model = SequenceLabeler(**parameters_from_json(meta["parameters"]))
    restore_chain(model, meta, arrays)
    model.solver_, model.epsilon_ = meta["solver"], meta["epsilon"]
    losses = meta["epsilon_losses"]
    model.epsilon_losses_ = None if losses is None else dict(map(tuple, losses))
    model.one_symbol_ = bool(meta["one_symbol"])
    return model


def chain_to_state(model: ChainLabeler) -> State:
    """What :func:`restore_chain` reads: all that labellers of chains have in common."""
    encoder_meta, encoder_arrays = model.encoder_.to_state()
    layout_meta, layout_arrays = model.layout_.to_state()
    meta = {
        "parameters": parameters_to_json(model.get_params(deep=False)),
        "labels": model.labels_.to_state(),
        "latent_states": model.latent_.counts.tolist(),
        "encoder": encoder_meta,
        "layout": layout_meta,
        "status": asdict(model.status_),
        "history": model.history_,
    }
    arrays: dict[str, NDArray[Any]] = {
        "weights": model.weights_,
        **{f"encoder.{name}": a for name, a in encoder_arrays.items()},
        **{f"layout.{name}": a for name, a in layout_arrays.items()},
        **{f"penalties.{name}": np.asarray(a) for name, a in model.penalties_._asdict().items()},
    }
    return meta, arrays


def restore_chain(model: ChainLabeler, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Give a new model what was learned, once everything about it is checked."""
    encoder = encoder_from_state(meta["encoder"], _under("encoder.", arrays))
    if isinstance(encoder, TemplateEncoder):
        model.template = encoder.template
    latent = _latent_labels(LabelSet.from_state(meta["labels"]), meta.get("latent_states"))
    layout = LinearLayout.from_state(meta["layout"], _under("layout.", arrays))
    penalties = Penalties(**_under("penalties.", arrays))
    weights = arrays["weights"]
    _check_layout(layout, encoder, len(latent.label_of))
    _check_scores(layout, penalties, weights)
    model._keep(encoder, latent, layout, penalties, weights)
    model.status_ = Status(**meta["status"])
    model.history_, model.n_iter_ = meta["history"], model.status_.n_iter


def _latent_labels(names: LabelSet, counts: Any) -> LatentLabels:
    """Files that say nothing of latent states have one for each label."""
    if counts is None:
        return LatentLabels.of(names, 1)
    whole = isinstance(counts, list) and all(isinstance(n, int) and n > 0 for n in counts)
    if not whole or len(counts) != len(names):
        raise ModelFileError("its numbers of latent states do not fit its labels")
    return LatentLabels(names, np.array(counts, dtype=np.int64))


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def _check_layout(layout: LinearLayout, encoder: FeatureEncoder, n_labels: int) -> None:
    """Rows, labels and pointers stay inside the weights, and every feature has exactly one row."""
    k, n_hot, row_of = layout.n_labels, layout.n_hot, layout.row_of
    pointer, label = layout.rows.pointer, layout.rows.label
    n = len(row_of)
    types = [array.dtype.name for array in (row_of, pointer, label, layout.mask)]
    sizes_fit = (
        types == ["uint32", "uint32", "uint16", "uint8"]
        and k == n_labels
        and n == encoder.n_features
        and layout.n_edge == encoder.n_edge_features
        and 0 <= n_hot <= n
        and pointer.shape == (n + 1,)
    )
    if not sizes_fit:
        raise ModelFileError("its weights do not fit its features and labels")
    bounds = pointer.astype(np.int64)
    width = np.diff(bounds)
    tail = label[n_hot * k :] if bounds[n_hot] == n_hot * k else label[:0]
    ends = bounds[n_hot + 1 :][width[n_hot:] > 0] - 1 - n_hot * k
    inside = (
        bounds[0] == 0
        and bool((width >= 0).all() and (width[:n_hot] == k).all())
        and label.shape == (bounds[-1],)
        and bool(((label & LABEL) < k).all())
        and np.array_equal(np.flatnonzero(tail & LAST), ends)
        and np.array_equal(np.sort(row_of), np.arange(n))
    )
    if not inside:
        raise ModelFileError("its rows of weights are not in order")


def _check_scores(layout: LinearLayout, penalties: Penalties, weights: FloatArray) -> None:
    k = layout.n_labels
    for array, shape in (
        (weights, (layout.dimension,)),
        (penalties.start, (k,)),
        (penalties.transitions, (k, k)),
        (penalties.end, (k,)),
    ):
        if array.dtype != np.float64 or array.shape != shape:
            raise ModelFileError(f"an array of shape {array.shape} should be float64 of shape {shape}")
    if not np.isfinite(weights).all():
        raise ModelFileError("some of its weights are not finite")
    if not all(np.isin(part, (0.0, -np.inf)).all() for part in penalties):
        raise ModelFileError("its constraints are neither 0 nor -inf")
    if layout.mask.shape not in ((0,), weights.shape):
        raise ModelFileError("its mask does not fit its weights")
