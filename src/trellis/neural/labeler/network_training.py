"""Training a network as the run of a solver: one step is one epoch of mini-batches.

The objective of a batch is the mean over its sentences (not over their steps). The word-local softmax is

    sum_t (log sum_k exp s[t, k] - s[t, y*_t])

and trains no transitions. Gradients are clipped to a norm of ``clip_norm``. The hold-out loss is the mean
task loss of the decoded sentences. Everything random in epoch e follows from (seed, e), so a run that goes on
from a checkpoint equals one that was never interrupted; an interrupted epoch is undone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.arrays import AnyArray
from trellis.core.errors import NumericalError
from trellis.core.status import Status
from trellis.data.constraints import LegalTransitions
from trellis.data.labels import LabelSet
from trellis.losses.labelings import Loss
from trellis.neural.chain.neural_chain import Chain
from trellis.neural.labeler.batches import Batch, Corpus
from trellis.neural.labeler.networks import ChainNetwork
from trellis.neural.labeler.schedules import RATES, Stage, new_optimizer
from trellis.neural.tensor_questions import relative_gaps, structured_loss
from trellis.neural.torch_snapshots import load_moments, moments
from trellis.objectives.score_gaps import median_gap
from trellis.structures.chain.oracle.chain_oracle import Chain as ChainInference
from trellis.structures.chain.scores.chain_scores import ChainScores

PREDICTED_AT_ONCE = 64  # sentences


@dataclass(frozen=True, eq=False)
class NetworkProblem:
    """What to train on, and for what."""

    corpus: Corpus
    held: Corpus | None
    labels: LabelSet
    legal: LegalTransitions | None
    loss: Loss

    def objective(self, network: ChainNetwork, batch: Batch, stage: Stage) -> Tensor:
        """The mean over the sentences of a batch, differentiable."""
        return self.objective_at(network, network(batch.inputs, batch.lengths), batch, stage)

    def objective_at(
        self,
        network: ChainNetwork,
        scores: Tensor,
        batch: Batch,
        stage: Stage,
        epsilon: float | None = None,
    ) -> Tensor:
        """The same for the scores of the steps, with ``epsilon`` in place of that of the objective."""
        if stage.objective is None:
            return softmax_loss(scores, batch)
        return structured_loss(
            self._chain(network),
            scores,
            batch.gold,
            lengths=batch.lengths,
            objective=stage.objective,
            loss=self.loss if batch.costs is None else batch.costs,
            epsilon=epsilon,
        )

    def _chain(self, network: ChainNetwork) -> Chain:
        return Chain(network.transitions, network.start, network.end, allowed=self.legal)

    def holdout_loss(self, network: ChainNetwork) -> float:
        """The mean task loss of the held-out sentences."""
        if self.held is None or self.held.gold is None:
            return np.nan
        found = ChainInference().best(packed_scores(network, self.held, self.legal))
        return float(self.loss.per_sequence(self.held.gold, found.labels, self.labels).mean())

    @torch.no_grad()
    def typical_gap(self, network: ChainNetwork) -> float | None:
        """eps_0: the median of (s(y_hat) - s(y*)) / L(y_hat) over the held-out sentences that the network
        gets wrong; where there are none, over those that it learns from; None if these are right as well."""
        network.eval()
        chain = self._chain(network)
        for corpus in (self.held, self.corpus):
            gaps = [
                relative_gaps(
                    chain,
                    network(batch.inputs, batch.lengths),
                    batch.gold,
                    lengths=batch.lengths,
                    loss=self.loss if batch.costs is None else batch.costs,
                )
                for _, batch in ([] if corpus is None else corpus.by_length(PREDICTED_AT_ONCE))
            ]
            typical = median_gap(np.concatenate(gaps)) if gaps else None
            if typical is not None:
                return typical
        return None


@dataclass(frozen=True)
class NetworkSolver:
    """How to train: see the parameters of :class:`trellis.neural.NeuralSequenceLabeler`."""

    stages: tuple[Stage, ...]
    optimizer: str
    learning_rate: float
    weight_decay: float
    schedule: str
    clip_norm: float | None
    batch_size: int
    max_epochs: int
    patience: int
    seed: int

    def start(self, problem: NetworkProblem, network: ChainNetwork) -> NetworkRun:
        if self.fine_tunes:
            from trellis.neural.labeler.network_fine_tuning import FineTunedNetworkRun

            return FineTunedNetworkRun(self, problem, network)
        return NetworkRun(self, problem, network)

    @property
    def fine_tunes(self) -> bool:
        return any(stage.fine_tuned for stage in self.stages)

    def stage(self, epoch: int) -> Stage:
        return next(stage for stage in self.stages if epoch < stage.until)

    @property
    def last_stage_from(self) -> int:
        """The epochs before the last stage."""
        return self.stages[-2].until if len(self.stages) > 1 else 0


class NetworkRun:
    """The state of training after ``epoch`` epochs."""

    def __init__(self, solver: NetworkSolver, problem: NetworkProblem, network: ChainNetwork) -> None:
        self.solver, self.problem, self.network = solver, problem, network
        self.epoch = 0
        self.epsilon: float | None = None  # of a stage that has a schedule for it
        self.moved = 0  # sentences of the epoch whose scores had a gradient
        self._start_optimizer()

    def _start_optimizer(self) -> None:
        s = self.solver
        self._optimizer = new_optimizer(s.optimizer, self.network, s.learning_rate, s.weight_decay)

    @property
    def weights(self) -> dict[str, AnyArray]:
        return self.network.weights

    @property
    def stage(self) -> Stage:
        """That of the next epoch."""
        return self.solver.stage(self.epoch)

    def step(self) -> dict[str, float]:
        """All batches once."""
        stage = self.stage
        if self.epoch and self.solver.stage(self.epoch - 1) is not stage:
            self._start_optimizer()
        return self.run_epoch(stage)

    def run_epoch(self, stage: Stage) -> dict[str, float]:
        began = time.process_time()
        before = deepcopy(self.network.weights)
        try:
            objective, rate = self._epoch(stage)
        except KeyboardInterrupt:
            self.network.load_weights(before)
            raise
        self.epoch += 1
        return {
            "objective": objective,
            "learning_rate": rate,
            "cpu_seconds": time.process_time() - began,
        }

    def progress(self, done: float) -> tuple[float, float]:
        """The epochs done, ``done`` of this one among them, and those in all, for the learning rate."""
        return self.epoch + done, self.solver.max_epochs

    def before_batch(self, done: float) -> None:
        """Called with the share of the epoch that is done."""

    def _epoch(self, stage: Stage) -> tuple[float, float]:
        solver, corpus = self.solver, self.problem.corpus
        self.network.train()
        torch.manual_seed(int(np.random.SeedSequence([solver.seed, self.epoch]).generate_state(1)[0]))
        n_batches = corpus.n_batches(solver.batch_size)
        total, rate, self.moved = 0.0, 0.0, 0
        for i, batch in enumerate(corpus.shuffled(solver.batch_size, [solver.seed, self.epoch])):
            share = RATES[solver.schedule](*self.progress(i / n_batches))
            rate = solver.learning_rate * stage.factor * share
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self.before_batch(i / n_batches)
            total += self.update(batch, stage) * len(batch.lengths)
        return total / max(len(corpus.nonempty), 1), rate

    def update(self, batch: Batch, stage: Stage) -> float:
        """A step of the optimiser; the objective of the batch before it."""
        self._optimizer.zero_grad()
        scores = self.network(batch.inputs, batch.lengths)
        value = self.problem.objective_at(self.network, scores, batch, stage, self.epsilon)
        if scores.requires_grad:
            scores.retain_grad()
        value.backward()  # type: ignore[no-untyped-call]
        if scores.grad is not None:
            self.moved += int((scores.grad != 0).flatten(1).any(1).sum())
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.solver.clip_norm or torch.inf)
        if not bool(torch.isfinite(norm)):
            raise NumericalError(
                f"the gradient is not finite in epoch {self.epoch + 1}; lower learning_rate or clip_norm"
            )
        self._optimizer.step()
        return float(value.detach())

    def status(self) -> Status | None:
        end = self.solver.stages[-1].until
        if self.epoch < end or end == self.solver.max_epochs:
            return None
        return Status(False, f"objective_schedule ends after {end} epochs; give its last objective more")

    def snapshot(self) -> dict[str, Any]:
        """What :meth:`restore` takes."""
        return {
            "epoch": self.epoch,
            "network": self.network.weights,
            "optimizer": moments(self._optimizer),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self.epoch = int(snapshot["epoch"])
        self.network.load_weights(snapshot["network"])
        self._start_optimizer()
        if self.epoch:
            load_moments(self._optimizer, snapshot["optimizer"])


def softmax_loss(scores: Tensor, batch: Batch) -> Tensor:
    """The cross-entropy of each step by itself, summed over steps; sets of labels count as their sum."""
    gold: Any = batch.gold
    mask = torch.arange(scores.shape[1]) < batch.lengths[:, None]
    if gold.dtype == torch.bool:
        within = torch.logsumexp(scores.masked_fill(~gold, -torch.inf), -1)
        return ((torch.logsumexp(scores, -1) - within) * mask).sum() / len(scores)
    total = torch.nn.functional.cross_entropy(
        scores.flatten(0, 1), gold.masked_fill(~mask, -100).flatten(), ignore_index=-100, reduction="sum"
    )
    return total / len(scores)


@torch.no_grad()
def packed_scores(network: ChainNetwork, corpus: Corpus, legal: LegalTransitions | None) -> ChainScores:
    """The part scores of all sentences for the oracles of chains, in double precision, without dropout."""
    network.eval()
    offsets = corpus.inputs.offsets
    unary = np.zeros((int(offsets[-1]), len(network.start)))
    for chosen, batch in corpus.by_length(PREDICTED_AT_ONCE):
        scores = network(batch.inputs, batch.lengths).numpy()
        positions = np.arange(scores.shape[1])
        mask = positions < corpus.lengths[chosen][:, None]
        unary[(offsets[chosen][:, None] + positions)[mask]] = scores[mask]
    parts = [tensor.double().numpy().copy() for tensor in (network.start, network.transitions, network.end)]
    if legal is not None:
        for part, allowed in zip(parts, legal, strict=True):
            part[~allowed] = -np.inf
    return ChainScores(unary, parts[1][None], parts[0], parts[2], offsets)
