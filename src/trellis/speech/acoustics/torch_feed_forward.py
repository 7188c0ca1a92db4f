"""The feed-forward network trained by PyTorch, with dropout and a falling learning rate.

PyTorch's random numbers and threads belong to the process: each epoch runs on one thread, one epoch at a
time, with the random numbers of its own training. So training is reproducible to the last bit, also when it
goes on from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import MissingExtraError
from trellis.speech.acoustics.feed_forward import FeedForwardTraining, Gather, Network, NetworkOptions

try:
    import torch
except ImportError as error:
    raise MissingExtraError(
        "classifier='torch' needs PyTorch; run: pip install 'trellis-learn[torch]'"
    ) from error

from trellis.neural.torch_snapshots import load_moments, moments

_ONE_AT_A_TIME = Lock()


class TorchTraining(FeedForwardTraining):
    """By AdamW; the rate falls along a cosine."""

    kept = ("random_numbers",)

    def __init__(
        self, rows: Gather, targets: IntArray, n_classes: int, options: NetworkOptions, seed: int
    ) -> None:
        super().__init__(rows, targets, n_classes, options, seed)
        self._codes = torch.from_numpy(np.searchsorted(self._seen, targets))
        sizes = [rows(np.arange(1)).shape[1], *options.hidden]
        self._binary = len(self._seen) == 2
        with _alone():
            torch.manual_seed(seed)
            layers: list[Any] = []
            for wide, narrow in pairwise(sizes):
                layers += [torch.nn.Linear(wide, narrow), torch.nn.ReLU(), torch.nn.Dropout(options.dropout)]
            last = torch.nn.Linear(sizes[-1], 1 if self._binary else len(self._seen))
            self._model = torch.nn.Sequential(*layers, last)
            self.random_numbers = torch.get_rng_state().numpy()
        self._optimiser = torch.optim.AdamW(
            self._model.parameters(), lr=options.rate, weight_decay=options.decay
        )
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimiser, options.epochs)
        self._loss = torch.nn.BCEWithLogitsLoss() if self._binary else torch.nn.CrossEntropyLoss()

    def one_pass(self) -> None:
        with _alone():
            torch.set_rng_state(torch.from_numpy(np.array(self.random_numbers)))
            super().one_pass()
            self._schedule.step()
            self.random_numbers = torch.get_rng_state().numpy()

    def train_on(self, block: IntArray) -> None:
        values, wanted = torch.from_numpy(self._rows(block)), self._codes[torch.from_numpy(block)]
        size = self._options.batch
        for i in range(0, len(block), size):
            out, goal = self._model(values[i : i + size]), wanted[i : i + size]
            loss = self._loss(out[:, 0], goal.float()) if self._binary else self._loss(out, goal)
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()

    def network(self) -> Network:
        linear = [layer for layer in self._model if isinstance(layer, torch.nn.Linear)]
        return Network(
            tuple(layer.weight.detach().numpy().T.copy() for layer in linear),
            tuple(layer.bias.detach().numpy().copy() for layer in linear),
        )

    def snapshot(self) -> dict[str, Any]:
        return {
            **super().snapshot(),
            "layers": [p.detach().numpy() for p in self._model.parameters()],
            "optimiser": moments(self._optimiser),
            "rate": self._optimiser.param_groups[0]["lr"],
            "schedule": self._schedule.state_dict(),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        with torch.no_grad():
            for p, stored in zip(self._model.parameters(), snapshot["layers"], strict=True):
                p.copy_(torch.from_numpy(np.array(stored)))
        load_moments(self._optimiser, snapshot["optimiser"])
        self._optimiser.param_groups[0]["lr"] = snapshot["rate"]
        self._schedule.load_state_dict(dict(snapshot["schedule"]))


@contextmanager
def _alone() -> Iterator[None]:
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
