"""Small feed-forward networks: trained by scikit-learn (or PyTorch), kept as arrays, evaluated by NumPy.

    h_0 = x,   h_m = max(W_m' h_{m-1} + b_m, 0),   logits = W_M' h_{M-1} + b_M

No hidden layer is multinomial logistic regression; one output is a logistic regression, whose logit is the
log-odds. Training minimises the mean cross-entropy plus ``decay`` / 2 ||W||^2 (scikit-learn's ``alpha``) by
Adam over mini-batches. The result is the mean of the weights after each epoch of the last third, which is
more stable than the last one.

Rows are gathered in blocks (``rows(indices)``), so that windows of frames need not all exist at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from trellis.core.arrays import Float32Array, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.training.passes import Passes, train_passes

BLOCK = 16384  # rows that exist at a time while training
UNSEEN = -12.0  # logit of a class without training rows: a probability of about 1e-5

Gather = Callable[[IntArray], Float32Array]


@register
@dataclass(frozen=True)
class NetworkOptions:
    """``hidden``: units per hidden layer. ``torch``: train with PyTorch, with ``dropout`` on hidden units."""

    hidden: tuple[int, ...] = (128,)
    epochs: int = 12
    decay: float = 1e-3
    rate: float = 1e-3
    batch: int = 256
    torch: bool = False
    dropout: float = 0.2


@register
@dataclass(frozen=True, eq=False)
class Network:
    """``weights[m]``: (inputs, units), ``biases[m]``: (units,), in single precision."""

    weights: tuple[Float32Array, ...]
    biases: tuple[Float32Array, ...]

    def __post_init__(self) -> None:
        sizes = [np.shape(w) for w in self.weights]
        fit = all(len(size) == 2 for size in sizes) and all(a[1] == b[0] for a, b in pairwise(sizes))
        if not sizes or not fit or [np.shape(b) for b in self.biases] != [size[1:] for size in sizes]:
            raise DataError(f"the layers of a network do not fit each other: {sizes}")
        if not all(np.isfinite(a).all() and a.dtype == np.float32 for a in (*self.weights, *self.biases)):
            raise DataError("the weights of a network are not finite numbers in single precision")

    @property
    def n_inputs(self) -> int:
        return len(self.weights[0])

    @property
    def n_outputs(self) -> int:
        return len(self.biases[-1])

    def logits(self, rows: Float32Array) -> Float32Array:
        """(N, outputs)."""
        values = rows
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight
            values += bias
            if layer < last:
                np.maximum(values, 0.0, out=values)
        return values


def fit_network(
    rows: Gather, targets: IntArray, n_classes: int, options: NetworkOptions, seed: int
) -> Network:
    """A classifier of ``rows(i)`` into ``targets[i]``: ``n_classes`` logits, or one for two classes 0 and 1.

    Classes without rows get the logit ``UNSEEN`` everywhere.
    """
    return train_passes(start_training(rows, targets, n_classes, options, seed))


def start_training(
    rows: Gather, targets: IntArray, n_classes: int, options: NetworkOptions, seed: int
) -> FeedForwardTraining:
    """The training of :func:`fit_network`, an epoch at a time."""
    if options.torch:
        from trellis.speech.acoustics.torch_feed_forward import TorchTraining

        return TorchTraining(rows, targets, n_classes, options, seed)
    return SklearnTraining(rows, targets, n_classes, options, seed)


class FeedForwardTraining(Passes[Network]):
    """``networks``: those of the last epochs so far, whose mean is the result."""

    kept: ClassVar[tuple[str, ...]] = ("networks", "rng")

    def __init__(
        self, rows: Gather, targets: IntArray, n_classes: int, options: NetworkOptions, seed: int
    ) -> None:
        self._rows, self._targets, self._n_classes, self._options = rows, targets, n_classes, options
        self._seen = np.unique(targets)
        self.passes, self.rng = options.epochs, np.random.default_rng(seed)
        self.networks: list[Network] = []

    @abstractmethod
    def train_on(self, block: IntArray) -> None:
        """Steps of the optimiser over the rows ``block``, in their order."""

    @abstractmethod
    def network(self) -> Network:
        """A copy of the weights as they are."""

    def one_pass(self) -> None:
        for block in _blocks(len(self._targets), self.rng):
            self.train_on(block)
        if self.done >= self.passes - max(1, self.passes // 3):
            self.networks.append(self.network())

    @property
    def weights(self) -> Network:
        kept, n_classes = self.networks, self._n_classes
        mean = Network(*(tuple(np.mean(layer, axis=0) for layer in zip(*parts, strict=True)) for parts in (
            [n.weights for n in kept], [n.biases for n in kept]
        )))  # fmt: skip
        binary = n_classes == 2 and mean.biases[-1].shape == (1,)
        return mean if binary else _spread(mean, self._seen, n_classes)


def _blocks(n: int, rng: np.random.Generator) -> list[IntArray]:
    """The rows of one epoch in random order, cut into blocks of about equal size."""
    order = rng.permutation(n)
    return np.array_split(order, -(-n // BLOCK))


class SklearnTraining(FeedForwardTraining):
    """By scikit-learn's ``MLPClassifier``."""

    def __init__(
        self, rows: Gather, targets: IntArray, n_classes: int, options: NetworkOptions, seed: int
    ) -> None:
        super().__init__(rows, targets, n_classes, options, seed)
        self._seed = seed
        self._model = self._new_model()

    def _new_model(self) -> Any:
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier(
            hidden_layer_sizes=self._options.hidden,
            alpha=self._options.decay,
            learning_rate_init=self._options.rate,
            random_state=self._seed,
            shuffle=False,  # the blocks are shuffled already
        )

    def train_on(self, block: IntArray) -> None:
        self._model.batch_size = min(self._options.batch, len(block))
        self._model.partial_fit(self._rows(block), self._targets[block], classes=self._seen)

    def network(self) -> Network:
        return Network(
            tuple(np.array(w, dtype=np.float32) for w in self._model.coefs_),
            tuple(np.array(b, dtype=np.float32) for b in self._model.intercepts_),
        )

    def snapshot(self) -> dict[str, Any]:
        if not self.done:
            return super().snapshot()
        adam = self._model._optimizer
        moments = {"n": adam.t, "means": list(adam.ms), "squares": list(adam.vs)}
        return {**super().snapshot(), "layers": self._layers(), "optimiser": moments}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        self._model = self._new_model()
        if not self.done:
            return
        self.train_on(np.arange(1))  # makes the layers, whose values follow
        for layer, stored in zip(self._layers(), snapshot["layers"], strict=True):
            layer[...] = stored
        adam, moments = self._model._optimizer, snapshot["optimiser"]
        adam.t, adam.ms, adam.vs = moments["n"], list(moments["means"]), list(moments["squares"])

    def _layers(self) -> list[Float32Array]:
        return [*self._model.coefs_, *self._model.intercepts_]


def _spread(network: Network, seen: IntArray, n_classes: int) -> Network:
    """The outputs of the classes that were seen, placed among those of all classes."""
    weight, bias = network.weights[-1], network.biases[-1]
    if bias.shape == (1,):  # two classes (or one), trained with one logit
        signs = np.array([-0.5, 0.5], dtype=np.float32) if len(seen) == 2 else np.zeros(1, np.float32)
        weight, bias = weight * signs, bias * signs
    wide = np.zeros((len(weight), n_classes), dtype=np.float32)
    offsets = np.full(n_classes, UNSEEN, dtype=np.float32)
    wide[:, seen], offsets[seen] = weight, bias
    return Network((*network.weights[:-1], wide), (*network.biases[:-1], offsets))
