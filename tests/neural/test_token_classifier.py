"""A structured loss over a token classifier: a small transformer, with the habits of Hugging Face."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

import inspect
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip(
    "torch", reason="trellis.neural needs PyTorch: pip install 'trellis-learn[torch]'"
)

from trellis.core.errors import DataError
from trellis.data.constraints import legal_transitions
from trellis.data.labels import LabelSet
from trellis.neural import Chain, StructuredTokenClassifier, structured_loss
from trellis.neural import decode as best_labels

LABELS = ["O", "B-x", "I-x"]
LEGAL = legal_transitions("bio", LabelSet(LABELS))


@dataclass
class TokenClassifierOutput:
    """As Hugging Face's: attributes, with ``loss`` first."""

    loss: Any = None
    logits: Any = None


class SmallTransformer(torch.nn.Module):
    """Randomly initialised; gives an output object, and refuses labels, which are not its business."""

    def __init__(self, n_labels: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(20, 8)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = torch.nn.Linear(8, n_labels)

    def forward(self, input_ids: Any = None, attention_mask: Any = None, inputs_embeds: Any = None) -> Any:
        x = self.embed(input_ids) if inputs_embeds is None else inputs_embeds
        hidden = self.encoder(x, src_key_padding_mask=None if attention_mask is None else attention_mask == 0)
        return TokenClassifierOutput(logits=self.head(hidden))


IDS = torch.tensor([[1, 5, 6, 7, 8, 2], [1, 9, 10, 2, 0, 0]])
ATTENTION = (IDS > 0).long()
GOLD = torch.tensor([[-100, 1, -100, 2, 0, -100], [-100, 0, 1, -100, -100, -100]])


def test_the_loss_is_that_of_the_labelled_tokens() -> None:
    model = StructuredTokenClassifier(SmallTransformer(), 3, objective="margin")
    output = model(input_ids=IDS, attention_mask=ATTENTION, labels=GOLD)
    assert output[0] is output.loss
    values = []
    for row, gold in zip(output.logits, GOLD, strict=True):
        own = gold != -100
        values.append(structured_loss(Chain(torch.zeros(3, 3)), row[own], gold[own], objective="margin"))
    torch.testing.assert_close(output.loss, torch.stack(values).mean())
    assert model(IDS, ATTENTION).loss is None
    torch.testing.assert_close(model(IDS, ATTENTION).logits, output.logits)


def test_the_gradient_in_every_parameter_by_finite_differences() -> None:
    model = StructuredTokenClassifier(SmallTransformer(), 3).double()
    model(IDS, ATTENTION, GOLD).loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    chosen = [*model.model.head.parameters(), model.transitions, model.start, model.end]
    for parameter in chosen:
        flat, slope = parameter.detach().view(-1), parameter.grad.view(-1)
        for i in range(0, len(flat), 5):
            before, found = float(flat[i]), []
            for h in (1e-5, -1e-5):
                flat[i] = before + h
                with torch.no_grad():
                    found.append(float(model(IDS, ATTENTION, GOLD).loss))
            flat[i] = before
            assert float(slope[i]) == pytest.approx((found[0] - found[1]) / 2e-5, abs=1e-7)


def test_it_learns_and_decodes_under_the_constraints() -> None:
    model = StructuredTokenClassifier(SmallTransformer(), 3, constraints=LEGAL)
    first = model.decode(IDS, ATTENTION, mask=GOLD != -100)
    assert ((first == -100) == (GOLD == -100)).all()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(30):
        optimiser.zero_grad()
        model(IDS, ATTENTION, GOLD).loss.backward()
        optimiser.step()
    assert torch.equal(model.decode(IDS, ATTENTION, mask=GOLD != -100), GOLD)
    everywhere = model.decode(IDS, ATTENTION)
    assert (everywhere[ATTENTION == 0] == -100).all()
    for row in everywhere.tolist():
        labels = [y for y in row if y >= 0]
        assert LEGAL.start[labels[0]]
        assert all(LEGAL.pair[a, b] for a, b in pairwise(labels))
    p = model.marginals(IDS, ATTENTION)
    torch.testing.assert_close(p.sum(-1), ATTENTION.float())
    assert set(model.state_dict()) >= {"transitions", "start", "end", "model.head.weight"}


def test_modules_that_return_logits_and_other_inputs() -> None:
    network = torch.nn.Linear(4, 3)
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    model = StructuredTokenClassifier(network, 3)
    assert torch.equal(model.decode(x), network(x).argmax(-1))  # before training, the chain adds nothing
    mask = torch.tensor([[True] * 5, [False, True, True, False, True]])
    expected = best_labels(Chain(torch.zeros(3, 3)), network(x), mask=mask)
    assert torch.equal(model.decode(x, mask=mask), expected.masked_fill(expected < 0, -100))
    embedded = torch.randn(2, 6, 8)
    named = StructuredTokenClassifier(SmallTransformer(), 3)(inputs_embeds=embedded, labels=GOLD)
    assert torch.isfinite(named.loss)
    names = list(
        inspect.signature(model.forward).parameters
    )  # trainers pick the columns of a data set by these
    assert names[:3] == ["input_ids", "attention_mask", "labels"]


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match=r"it must give logits \[batch, time, 4\]"):
        StructuredTokenClassifier(SmallTransformer(), 4)(IDS, ATTENTION)
    with pytest.raises(DataError, match="it must give logits"):
        StructuredTokenClassifier(torch.nn.LSTM(4, 3), 3)(torch.zeros(2, 5, 4))
    with pytest.raises(DataError, match="is not known"):
        StructuredTokenClassifier(SmallTransformer(), 3, objective="nonsense")
    with pytest.raises(DataError, match="n_labels"):
        StructuredTokenClassifier(SmallTransformer(), 0)
