"""Stages of objectives, optimisers by name, and the learning rate over time.

With t the epochs done (a fraction within an epoch) of T in all, the rate is ``learning_rate`` times

    constant 1     linear 1 - t / T     cosine (1 + cos(pi t / T)) / 2     inverse_sqrt 1 / sqrt(1 + t)

and times the factor of the stage. Where direct loss is fine-tuned, t and T are those of the stage. Each stage
starts with a new optimiser: its running means belong to the gradients of one objective.

``Direct(epsilon="auto")`` is two stages: ``START_SHARE`` of the epochs for the convex objective that it
starts from (fewer if the hold-out loss stops falling), all others for fine-tuning at ``FINE_TUNING_RATE``
times the learning rate (:mod:`trellis.neural.labeler.network_fine_tuning`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch
from torch import nn

from trellis.core.errors import DataError, UnsupportedError
from trellis.objectives.records import Objective, get_objective
from trellis.objectives.special_cases import fixed_epsilon

SOFTMAX = "softmax"
RATES: dict[str, Callable[[float, float], float]] = {
    "constant": lambda t, total: 1.0,
    "linear": lambda t, total: 1.0 - t / total,
    "cosine": lambda t, total: 0.5 * (1.0 + math.cos(math.pi * t / total)),
    "inverse_sqrt": lambda t, total: (1.0 + t) ** -0.5,
}
START_SHARE = 0.6  # of the epochs, before direct loss is fine-tuned
FINE_TUNING_RATE = 0.1  # of the learning rate: steps that are small beside the network they start from
NEED_TOTAL = ("linear", "cosine")  # rates that depend on max_epochs
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}


@dataclass(frozen=True)
class Stage:
    """An objective (``None``: the word-local softmax) until an epoch, with a factor of the learning rate.
    ``early``: whether the stage ends where the hold-out loss stops falling."""

    objective: Objective | None
    until: int
    factor: float = 1.0
    early: bool = False

    @property
    def uses_loss(self) -> bool:
        return self.objective is not None and self.objective.uses_loss

    @property
    def fine_tuned(self) -> bool:
        return self.objective is not None and self.objective.fine_tuned


def make_stages(objective: Any, schedule: Iterable[Any] | None, max_epochs: int) -> tuple[Stage, ...]:
    """One stage, or those of ``[(objective, epochs), (objective, epochs, factor), ...]``; ``None`` epochs
    take all that are left."""
    if schedule is None:
        only = Stage(_objective(objective), max_epochs)
        return _fine_tuning(only) if only.fine_tuned else (only,)
    stages: list[Stage] = []
    done = 0
    for entry in schedule:
        if done >= max_epochs:
            break
        if not isinstance(entry, tuple | list) or len(entry) not in (2, 3):
            raise DataError(
                f"objective_schedule has the entry {entry!r}; give (objective, epochs) or (objective, "
                "epochs, factor of the learning rate), None for all epochs that are left"
            )
        name, epochs, *rest = entry
        factor = rest[0] if rest else 1.0
        if epochs is not None and (not isinstance(epochs, Integral) or epochs < 1):
            raise DataError(f"objective_schedule gives {name!r} {epochs!r} epochs; give at least 1")
        if not isinstance(factor, Real) or not 0 < float(factor) < math.inf:
            raise DataError(f"objective_schedule gives {name!r} the factor {factor!r}; it must be positive")
        done = max_epochs if epochs is None else min(done + int(epochs), max_epochs)
        stages.append(Stage(_objective(name), done, float(factor)))
    if not stages:
        raise DataError("objective_schedule is empty; give None, or at least one (objective, epochs)")
    if stages[0].fine_tuned:
        raise UnsupportedError(
            "objective_schedule begins with direct loss under epsilon='auto', which fine-tunes a trained "
            "network; put ('log', epochs) before it, or give epsilon a number"
        )
    return tuple(stages)


def _fine_tuning(stage: Stage) -> tuple[Stage, Stage]:
    """The objective that direct loss starts from, and direct loss itself."""
    start = stage.objective.starts_from if stage.objective is not None else None
    if start is None:
        raise UnsupportedError(
            "epsilon='auto' goes by the scores of a trained network, and start='zero' has none; give epsilon "
            "a number, or start='log'"
        )
    if stage.until < 2:
        raise DataError(
            f"max_epochs={stage.until} is too few for direct loss under epsilon='auto', which needs one "
            f"epoch of {start.name!r} and one of fine-tuning; give at least 2"
        )
    first = min(max(1, round(START_SHARE * stage.until)), stage.until - 1)
    return Stage(start, first, early=True), Stage(stage.objective, stage.until, FINE_TUNING_RATE)


def _objective(objective: Any) -> Objective | None:
    if isinstance(objective, str) and objective == SOFTMAX:
        return None
    chosen = get_objective(objective)
    if not chosen.fine_tuned:
        fixed_epsilon(chosen, None)  # other schedules of epsilon belong to solvers: say so before any work
    return chosen


def new_optimizer(
    name: str, network: nn.Module, learning_rate: float, weight_decay: float
) -> torch.optim.Optimizer:
    options: dict[str, Any] = {"lr": learning_rate, "weight_decay": weight_decay, "fused": True}
    if name == "sgd":
        options["momentum"] = 0.9
    return OPTIMIZERS[name](network.parameters(), **options)
