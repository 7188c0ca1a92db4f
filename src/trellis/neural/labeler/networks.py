"""Small networks that score the labels of every step: [batch, time, columns] in, [batch, time, labels] out.

    "embedding"         the embeddings of the step itself
    "cnn"               then layers of convolutions over three steps each
    "bilstm"            then layers of LSTMs in both directions
    "char_cnn_bilstm"   the same, with a convolution over the characters of each word, largest value taken

A linear map follows. None of them lets padding reach a real step, so scores do not depend on the batch that a
sentence is in.

An LSTM runs backwards over sentences that are reversed within their own length, rather than over packed
sequences: the padding is last in both directions, and on CPUs this takes half the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.core.arrays import AnyArray
from trellis.core.errors import UnsupportedError
from trellis.neural.labeler.network_inputs import InputShape

ENCODERS = ("bilstm", "cnn", "embedding", "char_cnn_bilstm")


@dataclass(frozen=True)
class EncoderOptions:
    """Sizes: of word embeddings, of other attributes, of characters, of hidden layers (per direction)."""

    embedding_dim: int = 50
    attribute_dim: int = 16
    char_dim: int = 16
    hidden: int = 64
    layers: int = 1
    dropout: float = 0.3


class StepInputs(nn.Module):
    """The vector of each step: embeddings side by side, or a row of the user's numbers."""

    def __init__(self, shape: InputShape, options: EncoderOptions) -> None:
        super().__init__()
        dims = [options.embedding_dim, *[options.attribute_dim] * (len(shape.sizes) - 1)]
        self.tables = nn.ModuleList(
            nn.Embedding(size, dim, padding_idx=0) for size, dim in zip(shape.sizes, dims, strict=False)
        )
        for table in self.tables:
            _begin_small(table)
        self.letters: CharacterCNN | None = None
        self.width = shape.width or sum(dims)
        if shape.characters:
            self.letters = CharacterCNN(shape.characters, options.char_dim)
            self.width += self.letters.width

    def forward(self, inputs: Tensor) -> Tensor:
        if not len(self.tables):
            return inputs
        parts = [table(inputs[..., i]) for i, table in enumerate(self.tables)]
        if self.letters is not None:
            parts.append(self.letters(inputs[..., len(parts) :]))
        return torch.cat(parts, -1)


@torch.no_grad()
def _begin_small(table: Any) -> None:
    """Embeddings of length about 1; 0 for padding and for strings that training may never show."""
    table.weight.normal_(std=table.embedding_dim**-0.5)
    table.weight[:2] = 0.0


class CharacterCNN(nn.Module):
    """A convolution over three characters, and the largest value of each filter over the word."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.width = 2 * dim
        self.table = nn.Embedding(size, dim, padding_idx=0)
        self.filters = nn.Conv1d(dim, self.width, 3, padding=1)

    def forward(self, characters: Tensor) -> Tensor:
        batch, time, longest = characters.shape
        flat = self.table(characters.reshape(-1, longest)).transpose(1, 2)
        found = torch.relu(self.filters(flat)).amax(2)
        return found.reshape(batch, time, self.width)


class BiLSTM(nn.Module):
    def __init__(self, width: int, options: EncoderOptions) -> None:
        super().__init__()
        self.width = 2 * options.hidden
        sizes = [width, *[self.width] * (options.layers - 1)]
        self.onward = nn.ModuleList(nn.LSTM(size, options.hidden, batch_first=True) for size in sizes)
        self.backward_ = nn.ModuleList(nn.LSTM(size, options.hidden, batch_first=True) for size in sizes)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, steps: Tensor, lengths: Tensor) -> Tensor:
        places = torch.arange(steps.shape[1], device=steps.device)
        mirrored = lengths[:, None] - 1 - places
        mirrored = torch.where(mirrored >= 0, mirrored, places)[:, :, None]
        for layer, (onward, backward) in enumerate(zip(self.onward, self.backward_, strict=True)):
            steps = self.dropout(steps) if layer else steps
            left = onward(steps)[0]
            right = backward(steps.gather(1, mirrored.expand_as(steps)))[0]
            steps = torch.cat([left, right.gather(1, mirrored.expand_as(right))], -1)
        return steps


class CNN(nn.Module):
    def __init__(self, width: int, options: EncoderOptions) -> None:
        super().__init__()
        self.width = options.hidden
        sizes = [width, *[self.width] * (options.layers - 1)]
        self.filters = nn.ModuleList(nn.Conv1d(size, self.width, 3, padding=1) for size in sizes)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, steps: Tensor, lengths: Tensor) -> Tensor:
        real = (torch.arange(steps.shape[1], device=steps.device) < lengths[:, None])[:, :, None]
        for layer, filters in enumerate(self.filters):
            steps = self.dropout(steps) if layer else steps
            steps = torch.relu(filters((steps * real).transpose(1, 2))).transpose(1, 2)
        return steps


class Encoder(nn.Module):
    """Inputs, a body that looks at the neighbours (or none), and a linear map to scores."""

    def __init__(self, name: str, shape: InputShape, n_labels: int, options: EncoderOptions) -> None:
        super().__init__()
        self.inputs = StepInputs(shape, options)
        self.body: BiLSTM | CNN | None = None
        if name.endswith("bilstm"):
            self.body = BiLSTM(self.inputs.width, options)
        elif name == "cnn":
            self.body = CNN(self.inputs.width, options)
        self.dropout = nn.Dropout(options.dropout)
        self.scores = nn.Linear(self.inputs.width if self.body is None else self.body.width, n_labels)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        steps = self.dropout(self.inputs(inputs))
        if self.body is not None:
            steps = self.dropout(self.body(steps, lengths))
        scores: Tensor = self.scores(steps)
        return scores


class ChainNetwork(nn.Module):
    """An encoder with the scores of transitions and of the first and the last label, all 0 at first."""

    def __init__(self, encoder: nn.Module, n_labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.transitions = nn.Parameter(torch.zeros(n_labels, n_labels))
        self.start = nn.Parameter(torch.zeros(n_labels))
        self.end = nn.Parameter(torch.zeros(n_labels))

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        scores = self.encoder(inputs, lengths)
        wanted = (*inputs.shape[:2], len(self.start))
        if not isinstance(scores, Tensor) or tuple(scores.shape) != wanted:
            given = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise UnsupportedError(
                f"the encoder gave {given} for {wanted[0]} sequences of at most {wanted[1]} steps; "
                f"it must return scores of shape {wanted} [batch, time, labels]"
            )
        return scores

    @property
    def weights(self) -> dict[str, AnyArray]:
        """Parameters and buffers by name, as arrays that share their memory where NumPy has their type."""
        state = self.state_dict().items()
        return {name: (t.float() if t.dtype == torch.bfloat16 else t).numpy() for name, t in state}

    def load_weights(self, weights: Mapping[str, AnyArray]) -> None:
        """Copy ``weights`` into the network; a ``RuntimeError`` says what does not fit."""
        self.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})


def new_network(encoder: Any, shape: InputShape, n_labels: int, options: EncoderOptions) -> ChainNetwork:
    """The network of a labeller: by name, a copy of the user's module, or what the user's function makes."""
    if isinstance(encoder, nn.Module):
        return ChainNetwork(deepcopy(encoder), n_labels)
    if isinstance(encoder, str) and encoder in ENCODERS:
        return ChainNetwork(Encoder(encoder, shape, n_labels, options), n_labels)
    if isinstance(encoder, str) or not isinstance(encoder, Callable):  # type: ignore[arg-type]
        raise UnsupportedError(
            f"encoder={encoder!r}: give one of {', '.join(ENCODERS)}, a torch module, or a function of "
            "(input shape, number of labels) that makes one"
        )
    made = encoder(shape, n_labels)
    if not isinstance(made, nn.Module):
        raise UnsupportedError(
            f"the encoder function gave a {type(made).__name__}; it must give a torch module"
        )
    return ChainNetwork(made, n_labels)
