"""Fine-tuning a network for the task loss: how stages of ``Direct(epsilon="auto")`` are trained.

1. The stages before it, such as epochs of the log objective, train the network. One that may end ``early``
   does so after ``patience`` epochs without a smaller hold-out loss.
2. The epoch with the smallest hold-out loss is the start; without a hold-out set, the last one.
3. eps_0 is the median of (s(y_hat) - s(y*)) / L(y_hat) over the held-out sentences that the start gets wrong.
4. A new optimiser, a fraction of the learning rate, and an epsilon that falls from 3 eps_0 to 0.3 eps_0,
   batch by batch, until the end of the stage (:mod:`trellis.solvers.online.epsilon_schedule`). A learning
   rate that falls does so within each stage.
5. The epoch with the smallest hold-out loss is kept, the start among them.

Patience does not end a fine-tuned stage: its objective is another one in every epoch. Adam's steps do not
depend on the size of gradients, so dividing by epsilon changes none of them, and the fraction of the learning
rate alone says how far the network may go from its start.

Beside what every epoch measures there are ``holdout_loss`` and, where epsilon falls, the last ``epsilon``;
``update_share``, the share of sentences whose gradient was not 0; and ``relative_norm``, the norm of all
parameters over that at the start. In the epochs before, these three are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from trellis.core.arrays import AnyArray
from trellis.core.status import Status
from trellis.neural.labeler.network_training import NetworkProblem, NetworkRun, NetworkSolver
from trellis.neural.labeler.networks import ChainNetwork
from trellis.neural.labeler.schedules import Stage
from trellis.solvers.online.epsilon_schedule import EpsilonSchedule


class FineTunedNetworkRun(NetworkRun):
    """``number``: that of the stage of the next epoch, and ``began``: the epochs before it. ``best``: the
    smallest hold-out loss, its epoch and its weights. ``eps0``: None before fine-tuning. ``start_epoch``,
    ``start_loss``, ``start_norm``: the epochs, the hold-out loss and the norm of the network that is
    fine-tuned."""

    def __init__(self, solver: NetworkSolver, problem: NetworkProblem, network: ChainNetwork) -> None:
        super().__init__(solver, problem, network)
        self.number, self.began = 0, 0
        self.best: tuple[float, int, dict[str, AnyArray] | None] = (np.inf, 0, None)
        self.eps0: float | None = None
        self.start_epoch, self.start_norm = 0, 0.0
        self.start_loss, self.share = np.inf, 1.0
        self.nothing_wrong = False

    @property
    def stage(self) -> Stage:
        return self.solver.stages[self.number]

    @property
    def weights(self) -> dict[str, AnyArray]:
        best = self.best[2]
        return self.network.weights if best is None else best

    def step(self) -> dict[str, float]:
        measured = self.run_epoch(self.stage)
        measured |= dict.fromkeys(("epsilon", "update_share", "relative_norm"), np.nan)
        if self.epsilon is not None:
            self.share = self.moved / max(len(self.problem.corpus.nonempty), 1)
            measured["epsilon"], measured["update_share"] = self.epsilon, self.share
            measured["relative_norm"] = self._norm() / self.start_norm
        if self.problem.held is not None:
            loss = self.problem.holdout_loss(self.network)
            if loss < self.best[0]:
                self.best = loss, self.epoch, deepcopy(self.network.weights)
            measured["holdout_loss"] = loss
        if self._stage_ends() and self.number + 1 < len(self.solver.stages):
            self._next_stage()
        return measured

    def progress(self, done: float) -> tuple[float, float]:
        """That of the stage: fine-tuning must not begin where a rate has fallen to 0."""
        return self.epoch - self.began + done, self.stage.until - self.began

    def before_batch(self, done: float) -> None:
        if self.eps0 is not None and self.stage.fine_tuned:
            at, epochs = self.progress(done)
            self.epsilon = EpsilonSchedule(self.eps0, epochs)(at)

    def status(self) -> Status | None:
        last = self.solver.stages[-1]
        if self.nothing_wrong:
            reason = "the network predicts every sentence right, so there is nothing to fine-tune"
        elif self.epsilon is not None and self.share == 0.0:
            reason = (
                "no sentence has a gradient any more: epsilon is too small beside the gaps between scores"
            )
        elif self.epoch >= last.until:
            reason = f"the schedule of {last.until} epochs is done"
        else:
            return None
        return Status(False, f"{reason}; {self._chosen()}")

    def snapshot(self) -> dict[str, Any]:
        own = {
            name: getattr(self, name)
            for name in (
                "number",
                "began",
                "best",
                "eps0",
                "start_epoch",
                "start_norm",
                "start_loss",
                "share",
            )
        }
        return {**super().snapshot(), "fine_tuning": {**own, "nothing_wrong": self.nothing_wrong}}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        for name, value in snapshot["fine_tuning"].items():
            setattr(self, name, value)
        self.epsilon = None

    def _stage_ends(self) -> bool:
        stage = self.stage
        waited = self.epoch - max(self.best[1], self.began)
        exhausted = stage.early and self.problem.held is not None and waited >= self.solver.patience
        return self.epoch >= stage.until or exhausted

    def _next_stage(self) -> None:
        self.number, self.began = self.number + 1, self.epoch
        self.epsilon = None
        if self.stage.fine_tuned:
            loss, epoch, weights = self.best
            if weights is not None:
                self.network.load_weights(weights)
            self.start_loss, self.start_epoch = loss, self.epoch if weights is None else epoch
            self.start_norm = self._norm()
            self.eps0 = self.problem.typical_gap(self.network)
            self.nothing_wrong = self.eps0 is None
        self._start_optimizer()

    def _chosen(self) -> str:
        """Which network is the answer, in words."""
        if self.problem.held is None:
            return "the last network is kept, as no hold-out set chooses among the epochs"
        loss, epoch, _ = self.best
        if epoch <= self.start_epoch:
            return (
                f"no epoch of fine-tuning brought the hold-out loss below the {self.start_loss:.6g} of its "
                f"start (epoch {self.start_epoch}), which is kept"
            )
        return (
            f"the hold-out loss is smallest, {loss:.6g}, after epoch {epoch}, which is kept (the start of "
            f"fine-tuning, epoch {self.start_epoch}: {self.start_loss:.6g})"
        )

    def _norm(self) -> float:
        return float(np.sqrt(sum(float((p.detach().double() ** 2).sum()) for p in self.network.parameters())))
