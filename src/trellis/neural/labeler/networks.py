"""Small networks that score the labels of every step: [batch, time, columns] in, [batch, time, labels] out.

    "embedding"         the embeddings of the step itself
    "cnn"               then layers of convolutions over three steps each
    "bilstm"            then layers of LSTMs in both directions
    "char_cnn_bilstm"   the same, with a max-pooled convolution over the characters of each word

A linear map follows. None of them lets padding reach a real step, so scores do not depend on the batch that a
sentence is in.

The backward LSTM reads sentences reversed within their own length, rather than packed sequences: the padding
comes last in both directions, and on CPUs this takes half the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.core.arrays import AnyArray
from trellis.core.errors import DataError
from trellis.neural.labeler.network_inputs import InputShape


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
    """The vector of each step: concatenated embeddings, or a row of the user's numbers."""

    def __init__(self, shape: InputShape, options: EncoderOptions) -> None:
        super().__init__()
        dims = [options.embedding_dim, *[options.attribute_dim] * (len(shape.sizes) - 1)]
        self.tables = nn.ModuleList(
            nn.Embedding(size, dim, padding_idx=0) for size, dim in zip(shape.sizes, dims, strict=False)
        )
        for table in self.tables:
            _initialise(table)
        self.characters: CharacterCNN | None = None
        self.width = shape.width or sum(dims)
        if shape.characters:
            self.characters = CharacterCNN(shape.characters, options.char_dim)
            self.width += self.characters.width

    def forward(self, inputs: Tensor) -> Tensor:
        if not len(self.tables):
            return inputs
        parts = [table(inputs[..., i]) for i, table in enumerate(self.tables)]
        if self.characters is not None:
            parts.append(self.characters(inputs[..., len(parts) :]))
        return torch.cat(parts, -1)


@torch.no_grad()
def _initialise(table: Any) -> None:
    """Embeddings of norm about 1; 0 for padding and for unknown strings, which training may never show."""
    table.weight.normal_(std=table.embedding_dim**-0.5)
    table.weight[:2] = 0.0


class CharacterCNN(nn.Module):
    """A convolution over three characters, max-pooled over the word."""

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
        self.forward_lstms = nn.ModuleList(nn.LSTM(size, options.hidden, batch_first=True) for size in sizes)
        self.backward_lstms = nn.ModuleList(nn.LSTM(size, options.hidden, batch_first=True) for size in sizes)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, steps: Tensor, lengths: Tensor) -> Tensor:
        positions = torch.arange(steps.shape[1], device=steps.device)
        reverse = lengths[:, None] - 1 - positions
        reverse = torch.where(reverse >= 0, reverse, positions)[:, :, None]
        for layer, (forward, backward) in enumerate(
            zip(self.forward_lstms, self.backward_lstms, strict=True)
        ):
            steps = self.dropout(steps) if layer else steps
            left = forward(steps)[0]
            right = backward(steps.gather(1, reverse.expand_as(steps)))[0]
            steps = torch.cat([left, right.gather(1, reverse.expand_as(right))], -1)
        return steps


class CNN(nn.Module):
    def __init__(self, width: int, options: EncoderOptions) -> None:
        super().__init__()
        self.width = options.hidden
        sizes = [width, *[self.width] * (options.layers - 1)]
        self.filters = nn.ModuleList(nn.Conv1d(size, self.width, 3, padding=1) for size in sizes)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, steps: Tensor, lengths: Tensor) -> Tensor:
        mask = (torch.arange(steps.shape[1], device=steps.device) < lengths[:, None])[:, :, None]
        for layer, filters in enumerate(self.filters):
            steps = self.dropout(steps) if layer else steps
            steps = torch.relu(filters((steps * mask).transpose(1, 2))).transpose(1, 2)
        return steps


BODIES: dict[str, type[BiLSTM | CNN] | None] = {
    "bilstm": BiLSTM,
    "cnn": CNN,
    "embedding": None,
    "char_cnn_bilstm": BiLSTM,
}


class Encoder(nn.Module):
    """Inputs, a body that looks at the neighbours (or none), and a linear map to scores."""

    def __init__(self, name: str, shape: InputShape, n_labels: int, options: EncoderOptions) -> None:
        super().__init__()
        self.inputs = StepInputs(shape, options)
        body = BODIES[name]
        self.body = None if body is None else body(self.inputs.width, options)
        self.dropout = nn.Dropout(options.dropout)
        self.scores = nn.Linear(self.inputs.width if self.body is None else self.body.width, n_labels)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        steps = self.dropout(self.inputs(inputs))
        if self.body is not None:
            steps = self.dropout(self.body(steps, lengths))
        scores: Tensor = self.scores(steps)
        return scores


class ChainNetwork(nn.Module):
    """An encoder with scores of transitions and of the first and the last label, initially 0."""

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
            raise DataError(
                f"the encoder returned {given} for {wanted[0]} sequences of at most {wanted[1]} steps; "
                f"it must return scores of shape {wanted} [batch, time, labels]"
            )
        return scores

    @property
    def weights(self) -> dict[str, AnyArray]:
        """Parameters and buffers by name, as arrays that share their memory where NumPy has their type."""
        state = self.state_dict().items()
        return {name: (t.float() if t.dtype == torch.bfloat16 else t).numpy() for name, t in state}

    def load_weights(self, weights: Mapping[str, AnyArray]) -> None:
        """Copy ``weights`` into the network; raises ``RuntimeError`` if they do not fit."""
        self.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})


def new_network(encoder: Any, shape: InputShape, n_labels: int, options: EncoderOptions) -> ChainNetwork:
    """The network of a labeller: by name, a copy of the user's module, or what the user's function makes."""
    if isinstance(encoder, str):
        return ChainNetwork(Encoder(encoder, shape, n_labels, options), n_labels)
    is_function = callable(encoder) and not isinstance(encoder, nn.Module)
    module = encoder(shape, n_labels) if is_function else deepcopy(encoder)
    if not isinstance(module, nn.Module):
        raise DataError(
            f"encoder {'returned' if is_function else 'is'} a {type(module).__name__}; give one of "
            f"{', '.join(BODIES)}, a torch module, or a function of (input shape, number of labels) that "
            "returns one"
        )
    return ChainNetwork(module, n_labels)
