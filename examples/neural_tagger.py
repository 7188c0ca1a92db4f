"""A tagger with a network of your own, in a plain training loop: a BiLSTM under any structured objective.

The sentences are made up: a word is ambiguous between two labels, and only its neighbours tell which. Prints
the share of wrong labels on new sentences, of the trained network under each objective. Direct loss is
fine-tuned: two epochs of log, then one at a tenth of the rate, with an epsilon that starts at the scale of
the gaps by which held-out sentences are wrong, and falls.

    python examples/neural_tagger.py
"""

from __future__ import annotations

import torch
from torch import nn

from trellis.neural import Chain, EpsilonSchedule, decode, structured_loss, typical_gap

WORDS, LABELS, BATCH, TIME = 40, 8, 32, 20


def sentences(seed: int, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Labels step by +1 or +2 (mod 8); a word shows its label only up to a factor of two."""
    noise = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 3, (n, TIME), generator=noise)
    labels = torch.cumsum(steps, 1) % LABELS
    words = labels // 2 * 10 + torch.randint(0, 10, (n, TIME), generator=noise)
    return words, labels, torch.randint(5, TIME + 1, (n,), generator=noise)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.score = nn.Linear(32, LABELS)
        self.transitions = nn.Parameter(torch.zeros(LABELS, LABELS))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.score(self.lstm(self.embed(words))[0])


def fit(
    model: Tagger, objective: str, epochs: range, rate: float, epsilon: EpsilonSchedule | None = None
) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    words, labels, lengths = sentences(1, 20 * BATCH)
    step = 0
    for epoch in epochs:
        for batch in torch.randperm(len(words), generator=torch.Generator().manual_seed(epoch)).split(BATCH):
            loss = structured_loss(
                Chain(model.transitions),
                model(words[batch]),
                labels[batch],
                lengths=lengths[batch],
                objective=objective,
                epsilon=None if epsilon is None else epsilon(step),
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1


def train(objective: str) -> float:
    torch.manual_seed(0)
    model = Tagger()
    if objective == "direct":
        fit(model, "log", range(2), rate=0.01)
        words, labels, lengths = sentences(3, 200)  # held out: training sentences may all be right by now
        eps0 = typical_gap(Chain(model.transitions), model(words), labels, lengths=lengths)
        if eps0 is not None:  # something is wrong
            fit(model, "direct", range(2, 3), rate=0.001, epsilon=EpsilonSchedule(eps0, steps=20))
    else:
        fit(model, objective, range(3), rate=0.01)
    words, labels, lengths = sentences(2, 200)
    found = decode(Chain(model.transitions), model(words), lengths=lengths)
    counts = found >= 0
    return (found != labels)[counts].float().mean().item()


if __name__ == "__main__":
    for objective in ("perceptron", "margin", "log", "softmax_margin", "direct"):
        print(f"{objective:15} {100 * train(objective):5.1f} % of labels wrong")
