"""A small CNN on image grids: pictures under noise, by pixels and as a graph trained through inference.

Pictures of 5 x 5 pixels hold one rectangle under heavy noise. A convolution scores the two states of every
pixel, and one shared table scores neighbouring pairs: 25 variables, 65 factors, exact inference by
elimination. The same network trained by a softmax of each pixel is the competitor. A picture is read off as
the best one as a whole, which is what "pictures right" wants, or as the most probable state of each pixel,
which is what "pixels right" wants. 200 pictures are few: differences of two or three points may be chance.

    python examples/neural_grid.py          # about a minute
"""

from __future__ import annotations

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from trellis.neural import Factors, decode, marginals, structured_loss

SIDE, NOISE = 5, 1.1
PIXELS = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
PAIRS = [
    *zip(PIXELS[:, :-1].ravel().tolist(), PIXELS[:, 1:].ravel().tolist(), strict=True),
    *zip(PIXELS[:-1].ravel().tolist(), PIXELS[1:].ravel().tolist(), strict=True),
]
GRID = Factors([2] * SIDE**2, [*((v,) for v in range(SIDE**2)), *PAIRS])


def pictures(n: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy pictures (n, 1, SIDE, SIDE) and their true pixels (n, SIDE^2)."""
    true = np.zeros((n, SIDE, SIDE), np.int64)
    for picture in true:
        top, left = rng.integers(0, SIDE - 2, 2)
        height, width = rng.integers(2, SIDE, 2)
        picture[top : top + height, left : left + width] = 1
    noisy = true + NOISE * rng.normal(size=true.shape)
    return torch.tensor(noisy[:, None], dtype=torch.float32), torch.tensor(true.reshape(n, -1))


class Network(torch.nn.Module):
    """Scores of pixels [batch, SIDE^2, 2] by convolutions, and of pairs (2, 2) by a table."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 2, 1)
        )
        self.pair = torch.nn.Parameter(torch.zeros(2, 2))

    def forward(self, noisy: torch.Tensor) -> list[torch.Tensor]:
        pixels = self.pixels(noisy).flatten(2).transpose(1, 2)
        return [*pixels.unbind(1), *[self.pair] * len(PAIRS)]


def train(objective: str, noisy: torch.Tensor, true: torch.Tensor, epochs: int) -> Network:
    torch.manual_seed(0)
    network = Network()
    adam = torch.optim.Adam(network.parameters(), lr=2e-2)
    for _ in range(epochs):
        for rows in torch.randperm(len(noisy)).split(20):
            adam.zero_grad()
            factors = network(noisy[rows])
            if objective == "softmax":
                pixels = torch.stack(factors[: SIDE**2], 1)
                value = torch.nn.functional.cross_entropy(pixels.flatten(0, 1), true[rows].flatten())
            else:
                value = structured_loss(GRID, factors, true[rows], objective=objective) / SIDE**2
            value.backward()
            adam.step()
    return network


def run(n_train: int = 200, n_test: int = 200, epochs: int = 25) -> dict[str, tuple[float, ...]]:
    """Shares of right pixels and of pictures without a mistake: of the best picture, of the best pixels."""
    rng = np.random.default_rng(0)
    noisy, true = pictures(n_train, rng)
    new, gold = pictures(n_test, rng)
    found = {}
    for objective in ("softmax", "log", "margin"):
        network = train(objective, noisy, true, epochs)
        with torch.no_grad():
            scores = network(new)
        best = decode(GRID, scores) == gold
        each = torch.stack(marginals(GRID, scores)[: SIDE**2], 1).argmax(-1) == gold
        shares = (
            best.double().mean(),
            best.all(1).double().mean(),
            each.double().mean(),
            each.all(1).double().mean(),
        )
        found[objective] = tuple(float(share) for share in shares)
    return found


def main() -> None:
    columns = [
        f"{what} right, {how}" for how in ("best picture", "best pixels") for what in ("pixels", "pictures")
    ]
    table = Table("trained by", *columns, title="200 new pictures, per cent")
    for objective, shares in run().items():
        table.add_row(objective, *(f"{100 * share:.1f}" for share in shares))
    Console().print(table)


if __name__ == "__main__":
    main()
