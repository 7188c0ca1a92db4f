"""The perceptron's mistake bound, with radius and margin measured on a trained model.

If some weights u separate the data, s_u(y*) - s_u(y) >= gamma ||u|| for every example and every y != y*, and
||Phi(x, y*) - Phi(x, y)|| <= R, then the perceptron, started at zero, makes at most

    mistakes <= R^2 / gamma^2

however often and in whatever order it visits the examples. Any separating u gives a valid bound, the one with
the largest margin the best. ``measured_mistake_bound`` measures gamma at the weights of a model. For chains,
the largest ||Phi(x, y*) - Phi(x, y)|| is hard to find, so R bounds it from above, block by block of the
weights (nodes, transitions, edge features, start and end are orthogonal to each other):

    values >= 0    ||g - h||^2 <= ||g||^2 + ||h||^2 <= ||g||^2 + ||sum_t x_t||^2     g of y*, h of any y
    any values     ||g - h||   <= sqrt(2) sum_t ||x_t||
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from trellis.core.arguments import as_floats
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler
from trellis.structures.chain.oracle.chain_oracle import Chain


@dataclass(frozen=True)
class MistakeBound:
    """``radius``: R. ``margin``: gamma, of unit weights. ``mistakes``: the bound, infinite if gamma <= 0.

    Examples
    --------
    >>> from trellis.theory import MistakeBound
    >>> MistakeBound(radius=2.0, margin=0.5).mistakes
    16.0
    """

    radius: float
    margin: float

    @property
    def mistakes(self) -> float:
        """The largest whole number of mistakes that the bound allows."""
        if self.margin <= 0:
            return np.inf
        return float(perceptron_mistake_bound(self.radius, self.margin))

    def __float__(self) -> float:
        return self.mistakes

    def __str__(self) -> str:
        measured = f"radius {self.radius:.4g}, margin {self.margin:.4g}"
        if self.margin <= 0:
            return f"perceptron: vacuous ({measured}): these weights do not separate the data"
        return f"perceptron: at most {self.mistakes:,.0f} mistakes ({measured})"


def perceptron_mistake_bound(radius: ArrayLike, margin: ArrayLike) -> FloatArray:
    """The largest whole number that is not above (radius / margin)^2; arrays broadcast.

    Examples
    --------
    >>> from trellis.theory import perceptron_mistake_bound
    >>> float(perceptron_mistake_bound(radius=1.0, margin=0.1))
    100.0
    """
    r, gamma = as_floats("radius", radius), as_floats("margin", margin)
    if not np.all((r >= 0) & np.isfinite(r)):
        raise DataError(f"radius is {radius!r}; it must be finite and not negative")
    if not np.all(gamma > 0):
        raise DataError(f"margin is {margin!r}; it must be positive: without a margin there is no bound")
    # what rounding put just below a whole number is that number; a margin next to nothing overflows
    with np.errstate(over="ignore"):
        return np.asarray(np.floor((r / gamma) ** 2 * (1.0 + 1e-12)))


def measured_mistake_bound(model: Any, X: Any, y: Any) -> MistakeBound:
    """Radius and margin of the training data at the weights of a trained ``model``.

    ``model``: a :class:`trellis.SequenceLabeler`, or a linear classifier of two classes with ``coef_`` and
    ``intercept_``, as those of scikit-learn.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.theory import measured_mistake_bound
    >>> X, y = [["the", "cat"], ["a", "dog"]], [["D", "N"], ["D", "N"]]
    >>> model = SequenceLabeler("perceptron", random_state=0).fit(X, y)
    >>> measured_mistake_bound(model, X, y).mistakes < 100
    True
    """
    if isinstance(model, SequenceLabeler):
        if not model.latent_.plain:
            raise UnsupportedError("the bound is for labels without latent states; fit with latent_states=1")
        return MistakeBound(_chain_radius(model, X, y), _chain_margin(model, X, y))
    if hasattr(model, "coef_") and np.shape(model.coef_)[:1] == (1,):
        return _two_classes(model, X, y)
    raise UnsupportedError(
        f"the margin of a {type(model).__name__} is not known; give a SequenceLabeler or a linear classifier "
        "of two classes"
    )


def _two_classes(model: Any, X: Any, y: Any) -> MistakeBound:
    """Weights (coef, intercept), features (x, 1), Phi(x, y*) = y* x for y* = +1, -1: R is max ||(x, 1)||."""
    fits_intercept = bool(np.any(model.intercept_ != 0)) or bool(getattr(model, "fit_intercept", False))
    rows = as_floats("X", X.toarray() if issparse(X) else X)
    if rows.ndim != 2 or not len(rows) or len(rows) != len(y) or rows.shape[1] != model.coef_.shape[1]:
        raise DataError(
            f"X has shape {rows.shape} and y {len(y)} labels; give (examples, {model.coef_.shape[1]}) "
            "features and one label for each of at least one example"
        )
    rows = np.column_stack([rows, np.ones(len(rows))]) if fits_intercept else rows
    weights = np.append(model.coef_[0], model.intercept_) if fits_intercept else model.coef_[0]
    labels = np.asarray(y)
    unknown = ~np.isin(labels, model.classes_)
    if unknown.any():
        raise DataError(f"label {labels[unknown][0]!r} is not one of the model's, {[*model.classes_]}")
    signs = np.where(labels == model.classes_[1], 1.0, -1.0)
    size = float(np.linalg.norm(weights))
    smallest = float((signs * (rows @ weights)).min())
    return MistakeBound(float(np.linalg.norm(rows, axis=1).max()), smallest / size if size else 0.0)


def _chain_margin(model: SequenceLabeler, X: Any, y: Any) -> float:
    """min over sequences of s(y*) - max over y != y* of s(y), divided by the norm of the weights."""
    scores = model.scores(X)
    gold = model.labels_.encode(y, None, like=scores.offsets)
    if gold.allowed is not None:
        raise UnsupportedError("the margin needs every label, and some labels here are not known")
    chain = Chain(model._threads())
    ranked = chain.k_best(scores, 2)
    wrong = np.concatenate([[0], np.cumsum(ranked.labels[0] != gold.codes)])
    is_best = np.diff(wrong[scores.offsets]) == 0
    other = np.where(is_best, np.where(ranked.counts > 1, ranked.scores[:, 1], -np.inf), ranked.scores[:, 0])
    margins = chain.score(scores, gold.codes) - other
    size = float(np.linalg.norm(model.weights_))
    return float(margins.min()) / size if size else 0.0


def _chain_radius(model: SequenceLabeler, X: Any, y: Any) -> float:
    encoded = model.encoder_.transform(X, None)
    offsets = encoded.nodes.offsets
    gold = model.labels_.encode(y, None, like=offsets)
    k = len(model.labels_)
    inner = np.ones(len(gold.codes), dtype=np.bool_)  # steps that a transition leads into
    inner[offsets[:-1][np.diff(offsets) > 0]] = False
    codes = gold.codes.astype(np.int64)  # k^2 pairs
    pairs = np.where(inner, np.roll(codes, 1) * k + codes, -1)
    squares = _block_bound(encoded.nodes.to_csr(), gold.codes, k, offsets)
    one = csr_array(np.ones((len(gold.codes), 1)))
    squares += _block_bound(one, pairs, k * k, offsets)
    if encoded.edges is not None:
        squares += _block_bound(encoded.edges.to_csr(), pairs, k * k, offsets)
    if model.layout_.boundaries:
        squares += 4.0  # a wrong start and a wrong end: two weights each
    return float(np.sqrt(squares.max(initial=0.0)))


def _block_bound(rows: csr_array, codes: NDArray[np.integer], n_codes: int, offsets: IntArray) -> FloatArray:
    """A bound on ||g - h||^2 of each sequence; steps with code -1 have no features in this block."""
    n, present = len(offsets) - 1, codes >= 0
    sequence = np.repeat(np.arange(n), np.diff(offsets))[present]
    rows = rows[np.flatnonzero(present)]
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    loose: FloatArray = 2.0 * np.bincount(sequence, norms, minlength=n).astype(np.float64) ** 2
    if rows.nnz and rows.data.min() < 0:
        return loose
    steps = np.arange(len(sequence))
    ones = np.ones(len(steps))
    total = csr_array((ones, (sequence, steps)), shape=(n, len(steps))) @ rows
    # one row for each pair of a sequence and a label: g, laid out over both
    keys, which = np.unique(sequence * n_codes + codes[present], return_inverse=True)
    by_label = csr_array((ones, (which.ravel(), steps)), shape=(len(keys), len(steps))) @ rows
    of_gold = np.asarray(by_label.multiply(by_label).sum(axis=1)).ravel()
    of_any = np.asarray(total.multiply(total).sum(axis=1)).ravel()
    tight: FloatArray = np.bincount(keys // n_codes, of_gold, minlength=n) + of_any
    return np.minimum(loose, tight)
