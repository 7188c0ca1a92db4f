"""Structured losses on tensors against pytorch-crf: the same scores, the same numbers, one thread.

The negative log-likelihood forward and backward of a padded batch of 32 sequences in single precision,
Viterbi decoding, and what the other objectives cost next to the log objective. Needs no data: scores are
random.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torchcrf import CRF

from _common import Figures, check, fastest, parser
from trellis.neural import Chain, decode, structured_loss
from trellis.objectives import Direct, Objective

BATCH = 32
CASES = ((128, 22, 15.0), (128, 64, 6.0), (2000, 22, 100.0))


class Case:
    """One batch, and the transitions of a pytorch-crf layer."""

    def __init__(self, time: int, labels: int) -> None:
        torch.manual_seed(0)
        self.crf = CRF(labels, batch_first=True)
        self.scores = torch.randn(BATCH, time, labels, requires_grad=True)
        self.gold = torch.randint(0, labels, (BATCH, time))
        layer = self.crf
        self.chain = Chain(layer.transitions, layer.start_transitions, layer.end_transitions)

    def _clear(self) -> None:
        self.scores.grad = None
        self.crf.zero_grad()

    def peer(self) -> Any:
        self._clear()
        loss = -self.crf(self.scores, self.gold, reduction="mean")
        loss.backward()
        return loss.detach()

    def ours(self, objective: str | Objective = "log") -> Any:
        self._clear()
        loss = structured_loss(self.chain, self.scores, self.gold, objective=objective)
        loss.backward()
        return loss.detach()

    def check(self) -> None:
        """Against pytorch-crf in double precision: its own sums lose digits over 2,000 steps in single."""
        layer, scores = copy.deepcopy(self.crf).double(), self.scores.detach().double().requires_grad_()
        value = -layer(scores, self.gold, reduction="mean")
        value.backward()
        ours = self.ours()
        check(torch.allclose(ours.double(), value, rtol=1e-6), "the negative log-likelihood")
        theirs = [scores.grad, *(p.grad for p in layer.parameters())]
        found = [self.scores.grad, *(p.grad for p in self.crf.parameters())]
        same = all(
            torch.allclose(a.double(), b, rtol=1e-4, atol=1e-6) for a, b in zip(found, theirs, strict=True)
        )
        check(same, "the gradients")
        check(decode(self.chain, self.scores).tolist() == layer.decode(scores), "the best labels")


def measure(figures: Figures, time: int, labels: int, target: float, repeats: int) -> None:
    case = Case(time, labels)
    case.check()
    name = f"T={time:,} K={labels}"
    ours, peer = fastest(case.ours, case.peer, repeats=repeats)
    names = "margin", "direct", "perceptron", "softmax_margin", "risk"
    objectives = [Direct(1.0, sign="better") if name == "direct" else name for name in names]
    for objective in objectives:
        case.ours(objective)
    log, *rest = fastest(
        case.ours, *(lambda o=objective: case.ours(o) for objective in objectives), repeats=15
    )
    # the least over both series: right after the peer has gone through gigabytes, caches are cold
    figures.times(f"log objective, forward and backward, {name}", min(ours, log), peer, target)
    for label, seconds in zip(names, rest, strict=True):
        limit = 1.5 if label in ("margin", "direct") else None
        figures.row(
            f"{label}, next to the log objective, {name}",
            f"{1e3 * seconds:.3g} ms",
            f"{1e3 * log:.3g} ms",
            f"{seconds / log:.2f}x",
            "" if limit is None else f"\u2264 {limit:g}x",
            met=None if limit is None else seconds <= limit * log,
        )
    ours, peer = fastest(
        lambda: decode(case.chain, case.scores), lambda: case.crf.decode(case.scores), repeats=repeats
    )
    figures.times(f"Viterbi decoding, {name}", ours, peer, 10.0)


def main() -> None:
    options = parser(__doc__).parse_args()
    warnings.filterwarnings("ignore", message="where received a uint8")  # pytorch-crf's own masks
    torch.set_num_threads(1)
    figures = Figures(f"neural: batch of {BATCH}, float32, one thread, CPU time; peer: pytorch-crf")
    for time, labels, target in CASES[:2] if options.quick else CASES:
        measure(figures, time, labels, target, repeats=3 if time > 1000 else 7)
    figures.print()


if __name__ == "__main__":
    main()
