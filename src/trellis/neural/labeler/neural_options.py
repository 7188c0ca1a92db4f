"""The parameters of a neural labeller, checked before any work is done, and what is held out of its data."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.losses.labelings import get_loss
from trellis.neural.labeler.batches import Corpus
from trellis.neural.labeler.network_inputs import InputEncoder, Inputs
from trellis.neural.labeler.schedules import OPTIMIZERS, RATES, Stage, stages_of

if TYPE_CHECKING:
    from trellis.neural.labeler.neural_labeler import NeuralSequenceLabeler

_COUNTS = ("embedding_dim", "attribute_dim", "char_dim", "hidden", "layers", "batch_size", "max_epochs")


def checked_stages(model: NeuralSequenceLabeler) -> tuple[Stage, ...]:
    """The stages; a parameter that cannot be used is an error that names it."""
    for name in (*_COUNTS, "min_count", "patience"):
        value = getattr(model, name)
        if not isinstance(value, Integral) or value < 1:
            raise UnsupportedError(f"{name}={value!r} must be a whole number of at least 1")
    _check_number("learning_rate", model.learning_rate, lambda x: 0 < x < math.inf, "positive")
    _check_number("weight_decay", model.weight_decay, lambda x: 0 <= x < math.inf, "0 or more")
    _check_number("dropout", model.dropout, lambda x: 0 <= x < 1, "at least 0 and below 1")
    if model.clip_norm is not None:
        _check_number("clip_norm", model.clip_norm, lambda x: x > 0, "positive, or None")
    for name, known in (("optimizer", OPTIMIZERS), ("schedule", RATES)):
        if getattr(model, name) not in known:
            raise UnsupportedError(f"{name}={getattr(model, name)!r}: choose one of {', '.join(known)}")
    if get_loss(model.loss).kind == "candidates":
        raise UnsupportedError(
            f"loss={model.loss!r} is not a sum over steps; use 'hamming', 'zero_one' or a weighted one"
        )
    return stages_of(model.objective, model.objective_schedule, model.max_epochs)


def _check_number(name: str, value: Any, right: Callable[[float], bool], what: str) -> None:
    if not isinstance(value, Real) or not right(float(value)):
        raise UnsupportedError(f"{name}={value!r} must be a number that is {what}")


def given_labels(y: Any, holdout: Any) -> Any:
    """All label sequences: a rare label may occur in the hold-out sentences only."""
    return [*y, *holdout[1]] if isinstance(holdout, tuple) and len(holdout) == 2 else y


def hold_out(
    holdout: Any, inputs: Inputs, gold: EncodedLabels, encoder: InputEncoder, labels: LabelSet, seed: int
) -> tuple[Corpus, Corpus | None]:
    """What to learn from, and what is held out of it (or given besides)."""
    if holdout is None:
        return Corpus(inputs, gold), None
    if isinstance(holdout, tuple) and len(holdout) == 2:
        held = encoder.transform(holdout[0])
        return Corpus(inputs, gold), Corpus(held, labels.encode(holdout[1], like=held.offsets))
    if not isinstance(holdout, Real) or not 0 < float(holdout) < 1:
        given = f"a {type(holdout).__name__}" if isinstance(holdout, list | tuple) else repr(holdout)
        raise UnsupportedError(f"holdout={given}: give a fraction between 0 and 1, (X, y) or None")
    n = len(inputs.offsets) - 1
    size = round(float(holdout) * n)
    if not 0 < size < n:
        raise DataError(
            f"holdout={holdout} of {n} sentences leaves one part empty; give more sentences, or (X, y)"
        )
    order = np.random.default_rng(seed).permutation(n)
    return _take(inputs, gold, np.sort(order[size:])), _take(inputs, gold, np.sort(order[:size]))


def _take(inputs: Inputs, gold: EncodedLabels, sentences: NDArray[np.int64]) -> Corpus:
    lengths = np.diff(inputs.offsets)[sentences]
    chosen = gold.take(sentences)
    within = np.arange(lengths.sum()) - np.repeat(chosen.offsets[:-1], lengths)
    rows = inputs.rows[np.repeat(inputs.offsets[sentences], lengths) + within]
    return Corpus(Inputs(rows, chosen.offsets), chosen)
