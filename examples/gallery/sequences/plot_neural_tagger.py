"""
A network under structured objectives
=====================================

This example trains a small BiLSTM in a plain PyTorch loop; only the loss function comes from Trellis. A
word is ambiguous between two labels, and labels step by one or two, so neighbours decide. The curves show
how each objective learns from the same batches. A chain uses the neighbours from its first pass on; a
softmax for each word depends on what the BiLSTM learns about them, and is as good in the end.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from trellis.neural import Chain, EpsilonSchedule, decode, structured_loss, typical_gap

WORDS, LABELS, BATCH, TIME = 40, 8, 32, 20
ALONE = "softmax, word by word"
torch.set_num_threads(1)


def sentences(seed: int, n: int) -> list[torch.Tensor]:
    """Labels step by +1 or +2 (mod 8); a word shows its label only up to a factor of two."""
    noise = torch.Generator().manual_seed(seed)
    labels = torch.cumsum(torch.randint(1, 3, (n, TIME), generator=noise), 1) % LABELS
    words = labels // 2 * 10 + torch.randint(0, 10, (n, TIME), generator=noise)
    return [words, labels, torch.randint(5, TIME + 1, (n,), generator=noise)]


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(WORDS, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.score = nn.Linear(32, LABELS)
        self.transitions = nn.Parameter(torch.zeros(LABELS, LABELS))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.score(self.lstm(self.embed(words))[0])


training, held_out, new = sentences(1, 10 * BATCH), sentences(3, 100), sentences(2, 300)

# %%
# A training loop
# ---------------
# ``structured_loss`` differentiates through the chain. Any optimiser, any network, any schedule will do.


def wrong(model: Tagger) -> float:
    """The share of wrong labels in new sentences, in percent."""
    words, labels, lengths = new
    with torch.no_grad():
        found = decode(Chain(model.transitions), model(words), lengths=lengths)
    return 100 * (found != labels)[found >= 0].float().mean().item()


def train(model: Tagger, objective: str, passes: int, rate: float, gap: float | None = None) -> list[float]:
    """``wrong`` before the first and after every pass."""
    optimiser, errors = torch.optim.Adam(model.parameters(), lr=rate), [wrong(model)]
    for step in range(passes * 10):
        words, labels, lengths = (part[BATCH * (step % 10) : BATCH * (step % 10 + 1)] for part in training)
        scores, eps = model(words), EpsilonSchedule(gap, steps=10 * passes)(step) if gap else None
        if objective == ALONE:
            real = torch.arange(TIME) < lengths[:, None]
            loss = nn.functional.cross_entropy(scores[real], labels[real])
        else:
            chain = Chain(model.transitions)
            loss = structured_loss(chain, scores, labels, lengths=lengths, objective=objective, epsilon=eps)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 10 == 9:
            errors.append(wrong(model))
    return errors


curves = {name: train(Tagger(), name, 6, rate=0.01) for name in (ALONE, "perceptron", "margin", "log")}

# %%
# Fine-tuning by direct loss
# --------------------------
# Epsilon starts at the scale of the gaps by which held-out sentences are wrong, and then falls.

model = Tagger()
train(model, "log", 3, rate=0.01)
gap = typical_gap(Chain(model.transitions), model(held_out[0]), held_out[1], lengths=held_out[2])
curves["direct, after 3 passes of log"] = train(model, "direct", 3, rate=0.001, gap=gap)
for name, values in curves.items():
    print(f"{name:30} {values[-1]:5.1f} % of the labels of new sentences are wrong")

figure, axes = plt.subplots()
for k, (name, values) in enumerate(curves.items()):
    line = "--" if name.startswith("direct") else "-"
    axes.plot(range(7 - len(values), 7), values, marker="osD^v"[k], linestyle=line, label=name)
axes.set(title="A chain is ahead while the network learns", ylabel="labels of new sentences wrong (%)")
axes.set(xlabel="passes over 320 sentences", ylim=(0, None))
axes.legend()
plt.show()
