"""Small feed-forward networks: trained by scikit-learn (or PyTorch), kept as arrays, evaluated by NumPy.

    h_0 = x,   h_m = max(W_m' h_{m-1} + b_m, 0),   logits = W_M' h_{M-1} + b_M

No hidden layer is multinomial logistic regression; one output is a logistic regression, whose logit is the
log-odds. Training minimises the mean cross-entropy plus ``decay`` / 2 ||W||^2 (scikit-learn's ``alpha``) by
Adam over mini-batches. The result is the mean of the weights after each epoch of the last third, which is
more stable than the last one.

Rows are gathered in blocks (``rows(indices)``), so that windows of frames need not all exist at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from trellis.core.arrays import Float32Array, IntArray
from trellis.core.errors import DataError, MissingExtraError
from trellis.core.registration import register

BLOCK = 16384  # rows that exist at a time while training
UNSEEN = -12.0  # logit of a class without training rows: a probability of about 1e-5

Gather = Callable[[IntArray], Float32Array]
_ONE_AT_A_TIME = Lock()


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
    seen = np.unique(targets)
    train = _torch_epochs if options.torch else _sklearn_epochs
    kept: list[Network] = []
    first_kept = options.epochs - max(1, options.epochs // 3)
    for epoch, network in enumerate(train(rows, targets, seen, options, seed)):
        if epoch >= first_kept:
            kept.append(network)
    mean = Network(*(tuple(np.mean(layer, axis=0) for layer in zip(*parts, strict=True)) for parts in (
        [n.weights for n in kept], [n.biases for n in kept]
    )))  # fmt: skip
    return mean if n_classes == 2 and mean.biases[-1].shape == (1,) else _spread(mean, seen, n_classes)


def _blocks(n: int, rng: np.random.Generator) -> list[IntArray]:
    """The rows of one epoch in random order, cut into blocks of about equal size."""
    order = rng.permutation(n)
    return np.array_split(order, -(-n // BLOCK))


def _sklearn_epochs(
    rows: Gather, targets: IntArray, seen: IntArray, options: NetworkOptions, seed: int
) -> Any:
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(seed)
    model = MLPClassifier(
        hidden_layer_sizes=options.hidden,
        alpha=options.decay,
        batch_size=min(options.batch, len(targets)),
        learning_rate_init=options.rate,
        random_state=seed,
        shuffle=False,  # the blocks are shuffled already
    )
    for _ in range(options.epochs):
        for block in _blocks(len(targets), rng):
            model.batch_size = min(options.batch, len(block))
            model.partial_fit(rows(block), targets[block], classes=seen)
        yield Network(
            tuple(np.array(w, dtype=np.float32) for w in model.coefs_),
            tuple(np.array(b, dtype=np.float32) for b in model.intercepts_),
        )


def _torch_epochs(rows: Gather, targets: IntArray, seen: IntArray, options: NetworkOptions, seed: int) -> Any:
    """The same network by PyTorch, with dropout and a falling learning rate."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(
            "classifier='torch' needs PyTorch; run: pip install 'trellis-learn[torch]'"
        ) from error
    # PyTorch's random numbers and threads belong to the process: training is reproducible on one thread, one
    # at a time.
    with _ONE_AT_A_TIME:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield from _torch_training(torch, rows, targets, seen, options, seed)
        finally:
            torch.set_num_threads(threads)


def _torch_training(
    torch: Any, rows: Gather, targets: IntArray, seen: IntArray, options: NetworkOptions, seed: int
) -> Any:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    codes = torch.from_numpy(np.searchsorted(seen, targets))
    sizes = [rows(np.arange(1)).shape[1], *options.hidden]
    layers: list[Any] = []
    for wide, narrow in pairwise(sizes):
        layers += [torch.nn.Linear(wide, narrow), torch.nn.ReLU(), torch.nn.Dropout(options.dropout)]
    binary = len(seen) == 2
    model = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 1 if binary else len(seen)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=options.decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options.epochs)
    get_loss = torch.nn.BCEWithLogitsLoss() if binary else torch.nn.CrossEntropyLoss()
    for _ in range(options.epochs):
        for block in _blocks(len(targets), rng):
            values, wanted = torch.from_numpy(rows(block)), codes[torch.from_numpy(block)]
            for i in range(0, len(block), options.batch):
                out, goal = model(values[i : i + options.batch]), wanted[i : i + options.batch]
                loss = get_loss(out[:, 0], goal.float()) if binary else get_loss(out, goal)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        schedule.step()
        linear = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
        yield Network(
            tuple(layer.weight.detach().numpy().T.copy() for layer in linear),
            tuple(layer.bias.detach().numpy().copy() for layer in linear),
        )


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
