"""Denoising of generated images: when training for the loss itself beats the margin objective, and when not.

Smooth black and white shapes on a grid, seen through noise. The model has one feature, the grey value, and
one table of scores for neighbours, so all that can be learned is where the threshold lies and how much the
neighbours count.

    gaussian   grey = +-1 + normal noise: the log-linear model is right
    impulse    a share of the pixels has a huge grey value of random sign: no linear score is right, and a
               hinge grows with each such pixel, while the Hamming loss of it is 1

The l2 of the margin objective and of the pseudo-likelihood is the best of seven on a hold-out set. Direct
loss and ramp start from the weights of that margin objective and keep what is best on the same hold-out set,
so they are tuned on it once more: the epsilon of direct loss, and after which pass to stop. Each figure is
the share of wrong pixels of unseen images, in percent: the mean over seeds, and the 95% interval of the
paired difference to the margin objective.
"""

from __future__ import annotations

import time
from copy import deepcopy
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.stats import t as student

from _common import Figures, parser
from trellis import Graph, GraphLabeler
from trellis.objectives import Direct
from trellis.solvers import MiniBatch

SIDE = 12
L2 = (0.1, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
METHODS = ("pixels alone", "pseudo-likelihood", "margin", "ramp", "direct")


class Images(NamedTuple):
    graphs: list[Graph]
    labels: list[np.ndarray]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--noise", nargs="+", default=["gaussian", "impulse"])
    given = options.parse_args()
    seeds = 3 if given.quick else given.seeds
    for noise in given.noise:
        began = time.process_time()
        errors = np.array([one_seed(noise, seed) for seed in range(seeds)])
        table = Figures(
            f"{noise} noise, {seeds} seeds", ("wrong pixels", "less the margin's", "interval", "")
        )
        margin = errors[:, METHODS.index("margin")]
        for method, column in zip(METHODS, errors.T, strict=True):
            difference = column - margin
            half = student.ppf(0.975, seeds - 1) * difference.std(ddof=1) / np.sqrt(seeds)
            interval = f"{difference.mean() - half:+.2f} to {difference.mean() + half:+.2f}"
            table.row(method, f"{column.mean():.2f}%", f"{difference.mean():+.2f}", interval, met=None)
        table.print()
        print(f"CPU {time.process_time() - began:.0f} s")


def one_seed(noise: str, seed: int) -> list[float]:
    """The test errors of the methods, in percent."""
    rng = np.random.default_rng([seed, len(noise)])
    train, held, test = (images(noise, n, rng) for n in (30, 20, 60))

    def chosen(objective: str, alone: bool = False) -> GraphLabeler:
        """The model with the l2 that is best on the hold-out set."""
        parts = [without_edges(part) if alone else part for part in (train, held)]
        models = [labeler(objective, l2=l2 * len(train.graphs)).fit(*parts[0]) for l2 in L2]
        return max(models, key=lambda model: model.score(*parts[1]))

    margin = chosen("margin")
    models = {"pseudo-likelihood": chosen("pseudo_likelihood"), "margin": margin}
    direct = Direct("holdout", "better", EPSILONS)
    for name, objective in (("ramp", "ramp"), ("direct", direct)):
        model = deepcopy(margin).set_params(objective=objective, warm_start=True, holdout=tuple(held))
        model.set_params(solver=MiniBatch(0.01, batch_size=5), max_iter=15)
        models[name] = model.fit(*train)
    alone = chosen("pseudo_likelihood", alone=True).score(*without_edges(test))
    return [100 * (1 - alone), *(100 * (1 - models[name].score(*test)) for name in METHODS[1:])]


def labeler(objective: str, l2: float) -> GraphLabeler:
    return GraphLabeler(objective, inference="message_passing", l2=l2, random_state=0, verbose=False)


def images(noise: str, n: int, rng: np.random.Generator) -> Images:
    graphs, labels = [], []
    for _ in range(n):
        y = (gaussian_filter(rng.normal(size=(SIDE, SIDE)), 1.5) > 0).astype(int)
        grey = 2.0 * y - 1.0 + rng.normal(0.0, 1.2, y.shape)
        if noise == "impulse":
            grey = np.where(rng.random(y.shape) < 0.15, 8.0 * rng.choice([-1.0, 1.0], y.shape), grey)
        graphs.append(Graph.grid(grey))
        labels.append(y)
    return Images(graphs, labels)


def without_edges(part: Images) -> Images:
    return Images([Graph(graph.nodes, shape=graph.shape) for graph in part.graphs], part.labels)


if __name__ == "__main__":
    main()
