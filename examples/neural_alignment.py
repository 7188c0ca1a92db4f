"""A network of frames trained through the alignment, for the share of boundaries that are off.

Synthetic speech, which comes with the package: the network hears two voices say half of their sentences and
aligns a quarter; the last quarter chooses the epsilon and the sign of the direct objective, six candidates,
which the others do not need. It looks at 11 frames of 10 ms and scores every phone. First it learns to name
the phone of each frame; then it goes on in four ways for as many steps: naming frames, the likelihood of the
whole alignment (log), a margin, or directly the share of boundaries that are off by more than 10 ms. In the
last three the gradient comes through the segmentation. The new sentences have about 300 boundaries:
differences of less than five points may be chance, and some of them were looked at while the candidates were
picked.

    python examples/neural_alignment.py     # about a minute
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from trellis.neural import Segmentation, decode, structured_loss
from trellis.objectives import Direct, Objective
from trellis.speech import synthetic_corpus
from trellis.speech.acoustics.frame_classifiers import LOG_MEL
from trellis.speech.audio.front_end import frame_recording
from trellis.structures.segments.problem.alignment_losses import TauAlignment
from trellis.structures.segments.scores.segment_graph import SegmentGraph

SPEECH = Path(__file__).resolve().parent.parent / "tests/support/synthetic_speech"
VOICES, STEP, CONTEXT, LONGEST = ("rms", "slt"), 0.010, 5, 60
# The loss of one boundary is 1 / phones, about 1 / 40: epsilon must be so large that it moves boundaries.
DIRECT = [Direct(epsilon, sign) for epsilon in (20.0, 60.0, 200.0) for sign in ("better", "worse")]


@dataclass
class Heard:
    """``frames`` (T, D); ``phones`` (P,), which begin at the frames ``starts`` (P,)."""

    frames: torch.Tensor
    phones: torch.Tensor
    starts: np.ndarray

    @property
    def structure(self) -> Segmentation:
        n = len(self.phones)
        return Segmentation(SegmentGraph.chain(np.ones(n), np.full(n, LONGEST)))

    @property
    def names(self) -> torch.Tensor:
        """(T,) the phone of each frame."""
        lengths = np.diff([*self.starts, len(self.frames)])
        return self.phones.repeat_interleave(torch.from_numpy(lengths))


def corpus() -> tuple[list[Heard], int]:
    spoken = [(u, u.reference) for u in synthetic_corpus(VOICES, SPEECH) if u.reference is not None]
    names = sorted({label for _, reference in spoken for label in reference.labels})
    heard = []
    for utterance, reference in spoken:
        frames = frame_recording(utterance.audio, LOG_MEL).features
        frames = (frames - frames.mean(0)) / frames.std(0)
        starts = np.round([phone.start / STEP for phone in reference.phones]).astype(np.int64)
        places = np.arange(len(starts))  # every phone has at least one frame
        starts = np.maximum.accumulate(starts - places) + places
        starts = np.minimum(starts, len(frames) - len(starts) + places)
        phones = torch.tensor([names.index(label) for label in reference.labels])
        heard.append(Heard(torch.tensor(frames, dtype=torch.float32), phones, starts))
    return heard, len(names)


def scores(network: torch.nn.Module, frames: torch.Tensor) -> torch.Tensor:
    """(T, phones)."""
    return network(frames.T[None])[0].T


def train(
    network: torch.nn.Module, goal: str | Objective | None, heard: list[Heard], epochs: int, rate: float
) -> None:
    adam = torch.optim.Adam(network.parameters(), lr=rate)
    torch.manual_seed(0)
    for _ in range(epochs):
        for i in torch.randperm(len(heard)).tolist():
            one = heard[i]
            found = torch.log_softmax(scores(network, one.frames), 1)
            adam.zero_grad()
            if goal is None:
                value = torch.nn.functional.nll_loss(found, one.names)
            else:
                value = structured_loss(
                    one.structure, found[:, one.phones].T, one.starts, objective=goal, loss=TauAlignment(1.0)
                )
            value.backward()
            adam.step()


@torch.no_grad()
def within(network: torch.nn.Module, heard: list[Heard], frames: int) -> float:
    """The share of boundaries at most so many frames off."""
    errors = [
        decode(one.structure, scores(network, one.frames)[:, one.phones].T).starts[1:] - one.starts[1:]
        for one in heard
    ]
    return float((np.abs(np.concatenate(errors)) <= frames).mean())


def run(first: int = 12, then: int = 8) -> dict[str, tuple[float, float]]:
    heard, n_phones = corpus()
    known, development, new = heard[::2], heard[1::4], heard[3::4]
    torch.manual_seed(0)
    begun = torch.nn.Sequential(
        torch.nn.Conv1d(known[0].frames.shape[1], 64, 2 * CONTEXT + 1, padding=CONTEXT),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.2),
        torch.nn.Conv1d(64, n_phones, 1),
    )
    train(begun, None, known, first, 2e-3)

    def gone_on(goal: str | Objective | None) -> torch.nn.Module:
        network = deepcopy(begun).train()
        train(network, goal, known, then, 5e-4)
        return network.eval()

    found = {
        name: gone_on(goal) for name, goal in (("naming frames", None), ("log", "log"), ("margin", "margin"))
    }
    found["direct"] = max(
        (gone_on(goal) for goal in DIRECT), key=lambda network: within(network, development, 1)
    )
    return {name: (within(network, new, 1), within(network, new, 2)) for name, network in found.items()}


def main() -> None:
    table = Table(
        "trained for", "within 10 ms", "within 20 ms", title="boundaries of new sentences, per cent"
    )
    for name, shares in run().items():
        table.add_row(name, *(f"{100 * share:.1f}" for share in shares))
    Console().print(table)


if __name__ == "__main__":
    main()
