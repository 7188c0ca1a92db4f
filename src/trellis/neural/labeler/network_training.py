"""The training loop of networks: epochs of mini-batches, early stopping, interruption, an honest status.

The objective of a batch is the mean over its sentences (not over their steps). The word-local softmax is

    sum_t (log sum_k exp s[t, k] - s[t, y*_t])

and trains no transitions. Gradients are clipped to a norm of ``clip_norm``. The hold-out loss is the mean
task loss of the decoded sentences; the weights with the smallest are kept. Patience counts from the beginning
of the last stage. Everything random in epoch e follows from (seed, e), so a run that goes on from a
checkpoint equals one that was never interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.errors import NumericalError
from trellis.core.status import Status
from trellis.data.constraints import LegalTransitions
from trellis.data.labels import LabelSet
from trellis.losses.labelings import Loss
from trellis.neural.chain.neural_chain import Chain
from trellis.neural.labeler.batches import Batch, Corpus
from trellis.neural.labeler.networks import ChainNetwork
from trellis.neural.labeler.schedules import RATES, Stage, new_optimizer
from trellis.neural.tensor_questions import structured_loss
from trellis.structures.chain.oracle.chain_oracle import Chain as ChainInference
from trellis.structures.chain.scores.chain_scores import ChainScores

PREDICTED_AT_ONCE = 64  # sentences
OnEpoch = Callable[[int, Mapping[str, float], Any], None]


@dataclass(frozen=True, eq=False)
class Plan:
    """What to train on, for what, and how."""

    corpus: Corpus
    held: Corpus | None
    labels: LabelSet
    legal: LegalTransitions | None
    loss: Loss
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

    def stage(self, epoch: int) -> Stage:
        return next(stage for stage in self.stages if epoch < stage.until)


@dataclass
class Run:
    """Where training stands after ``epoch`` epochs."""

    network: ChainNetwork
    optimizer: torch.optim.Optimizer
    epoch: int = 0
    history: dict[str, list[float]] = field(default_factory=dict)
    best_loss: float = np.inf
    best: dict[str, Tensor] = field(default_factory=dict)
    since_best: int = 0
    status: Status | None = None


def start(plan: Plan, network: ChainNetwork) -> Run:
    return Run(network, new_optimizer(plan.optimizer, network, plan.learning_rate, plan.weight_decay))


def train(
    plan: Plan,
    run: Run,
    on_epoch: OnEpoch | None = None,
    keep: Callable[[Run], None] | None = None,
) -> Status:
    """Go on until the epochs or the patience run out; ``keep`` is called after each epoch (checkpoints)."""
    last = plan.stages[-1]
    n_epochs = last.until
    try:
        while run.status is None and run.epoch < n_epochs:
            measured = one_epoch(plan, run)
            if plan.held is not None:
                measured["holdout_loss"] = _early_stopping(plan, run, last)
            for key, value in measured.items():
                run.history.setdefault(key, []).append(float(value))
            if keep is not None:
                keep(run)
            if on_epoch is not None:
                on_epoch(run.epoch, measured, None)
    except KeyboardInterrupt:
        run.status = Status(False, "interrupted from the keyboard; the weights reached so far are kept")
    remedy = "for more passes" if plan.held is None else "if the hold-out loss still falls"
    status = run.status or Status(False, f"all {n_epochs} epochs are done; raise max_epochs {remedy}")
    if run.best:
        run.network.load_state_dict(run.best)
    return Status(status.converged, status.reason, run.epoch)


def one_epoch(plan: Plan, run: Run) -> dict[str, float]:
    """All batches once."""
    began, cpu = time.perf_counter(), time.process_time()
    stage = plan.stage(run.epoch)
    if run.epoch and plan.stage(run.epoch - 1) is not stage:
        run.optimizer = new_optimizer(plan.optimizer, run.network, plan.learning_rate, plan.weight_decay)
        run.since_best = 0
    run.network.train()
    torch.manual_seed(int(np.random.SeedSequence([plan.seed, run.epoch]).generate_state(1)[0]))
    n_batches = plan.corpus.n_batches(plan.batch_size)
    total, rate = 0.0, 0.0
    for i, batch in enumerate(plan.corpus.shuffled(plan.batch_size, [plan.seed, run.epoch])):
        share = RATES[plan.schedule](run.epoch + i / n_batches, plan.max_epochs)
        rate = plan.learning_rate * stage.factor * share
        for group in run.optimizer.param_groups:
            group["lr"] = rate
        value = one_step(plan, run, stage, batch)
        total += value * len(batch.lengths)
    run.epoch += 1
    return {
        "objective": total / max(len(plan.corpus.some), 1),
        "learning_rate": rate,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
    }


def one_step(plan: Plan, run: Run, stage: Stage, batch: Batch) -> float:
    """A step of the optimiser; the objective of the batch before it."""
    run.optimizer.zero_grad()
    value = batch_objective(run.network, batch, stage, plan)
    value.backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.clip_grad_norm_(run.network.parameters(), plan.clip_norm or torch.inf)
    if not bool(torch.isfinite(norm)):
        raise NumericalError(
            f"the gradient is not finite in epoch {run.epoch + 1}; lower learning_rate or clip_norm"
        )
    run.optimizer.step()
    return float(value.detach())


def batch_objective(network: ChainNetwork, batch: Batch, stage: Stage, plan: Plan) -> Tensor:
    """The mean over the sentences of a batch, differentiable."""
    scores = network(batch.inputs, batch.lengths)
    if stage.objective is None:
        return softmax_loss(scores, batch)
    chain = Chain(network.transitions, network.start, network.end, allowed=plan.legal)
    return structured_loss(
        chain,
        scores,
        batch.gold,
        lengths=batch.lengths,
        objective=stage.objective,
        loss=plan.loss if batch.costs is None else batch.costs,
    )


def softmax_loss(scores: Tensor, batch: Batch) -> Tensor:
    """The cross-entropy of each step by itself, summed over steps; sets of labels count as their sum."""
    gold = batch.gold
    if gold is None:
        raise NumericalError("a batch without gold labels has no objective")
    real = torch.arange(scores.shape[1]) < batch.lengths[:, None]
    if gold.dtype == torch.bool:
        within = torch.logsumexp(scores.masked_fill(~gold, -torch.inf), -1)
        return ((torch.logsumexp(scores, -1) - within) * real).sum() / len(scores)
    total = torch.nn.functional.cross_entropy(
        scores.flatten(0, 1), gold.masked_fill(~real, -100).flatten(), ignore_index=-100, reduction="sum"
    )
    return total / len(scores)


def _early_stopping(plan: Plan, run: Run, last: Stage) -> float:
    """Remembers the best weights; sets the status where patience has run out."""
    held = plan.held
    if held is None or held.gold is None:
        return np.nan
    found = ChainInference().best(packed_scores(run.network, held, plan.legal))
    loss = float(plan.loss.per_sequence(held.gold, found.labels, plan.labels).mean())
    if loss < run.best_loss:
        run.best_loss, run.since_best = loss, 0
        run.best = {name: tensor.clone() for name, tensor in run.network.state_dict().items()}
    else:
        run.since_best += 1
    if run.since_best >= plan.patience and plan.stage(run.epoch - 1) is last:
        run.status = Status(
            True,
            f"the hold-out loss did not fall below {run.best_loss:.6g} for {run.since_best} epochs; its best "
            "weights are kept",
        )
    return loss


@torch.no_grad()
def packed_scores(network: ChainNetwork, corpus: Corpus, legal: LegalTransitions | None) -> ChainScores:
    """The part scores of all sentences for the oracles of chains, in double precision, without dropout."""
    network.eval()
    offsets = corpus.inputs.offsets
    unary = np.zeros((int(offsets[-1]), len(network.start)))
    for chosen, batch in corpus.by_length(PREDICTED_AT_ONCE):
        scores = network(batch.inputs, batch.lengths).numpy()
        places = np.arange(scores.shape[1])
        real = places < corpus.lengths[chosen][:, None]
        unary[(offsets[chosen][:, None] + places)[real]] = scores[real]
    parts = [tensor.double().numpy().copy() for tensor in (network.start, network.transitions, network.end)]
    if legal is not None:
        for part, allowed in zip(parts, legal, strict=True):
            part[~allowed] = -np.inf
    return ChainScores(unary, parts[1][None], parts[0], parts[2], offsets)
