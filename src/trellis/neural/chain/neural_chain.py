"""``Chain``: labels in a row, with scores from a network.

    s(y) = start[y_1] + sum_t scores[t, y_t] + sum_{t>1} transitions[t, y_{t-1}, y_t] + end[y_n]

``transitions`` are (K, K), shared by all steps; (T, K, K), the same for all sequences of a padded batch; or
given by a network for every step, [batch, time, K, K] or packed (N, K, K), where row t leads *into* step t
(that of a first step is not used). ``-inf`` forbids, and gets gradient 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor

from trellis.core.errors import DataError
from trellis.data.constraints import LegalTransitions
from trellis.neural.chain.batch_layout import ChainTensors, Layout
from trellis.neural.chain.kernel_chain import KernelChain
from trellis.neural.chain.padded_chain import PaddedChain
from trellis.neural.chain.rearranged_batch import KeptSteps, RearrangedBatch, TimeFirst, kept_steps
from trellis.neural.chain.torch_chain import TorchChain
from trellis.neural.tensor_structure import (
    Backend,
    BatchOptions,
    ScoredBatch,
    TensorStructure,
    uses_kernels,
)
from trellis.neural.tensors import check_floating, is_transformed


@dataclass(frozen=True, eq=False)
class Chain(TensorStructure):
    """``allowed``: a boolean (K, K), rows the previous label, or the start, pair and end marks that
    :func:`trellis.data.constraints.legal_transitions` gives ("bio", "bioes" or pairs).

    Examples
    --------
    >>> import torch
    >>> from trellis.neural import Chain, decode
    >>> chain = Chain(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> decode(chain, torch.tensor([[[0.0, 1.0], [0.5, 0.0]]])).tolist()
    [[1, 1]]
    """

    transitions: Tensor
    start: Tensor | None = None
    end: Tensor | None = None
    allowed: Any = None

    def bind(self, scores: Tensor, **batch: Unpack[BatchOptions]) -> ScoredBatch:
        return self._bound(scores, None, **batch)

    def bind_to_gold(self, scores: Tensor, gold: Any, **batch: Unpack[BatchOptions]) -> ScoredBatch:
        """Steps whose gold label is -100 are left out, as if the mask did."""
        return self._bound(scores, gold, **batch)

    def _bound(
        self,
        scores: Tensor,
        gold: Any,
        *,
        lengths: Any = None,
        mask: Any = None,
        offsets: Any = None,
        backend: Backend = None,
        batch_first: bool = True,
    ) -> ScoredBatch:
        check_floating("unary", scores)
        check_floating("transition", self.transitions)
        if is_transformed(scores, self.transitions, self.start, self.end, gold, mask) and backend is None:
            backend = "torch"  # torch.func differentiates as often as it likes
        if not batch_first:
            given = lengths, mask, offsets, backend
            return self._time_first(scores, gold, *given)
        steps = kept_steps(scores, gold, lengths, mask, offsets)
        if steps is not None:
            inner = replace(self, transitions=self._kept(steps)).bind(
                steps.take(scores), offsets=steps.offsets, backend=backend
            )
            return RearrangedBatch(inner, steps)
        kernels = uses_kernels(scores, backend)
        chain = self.tensors(scores, lengths, mask, offsets)
        if kernels:
            return KernelChain(chain)
        return TorchChain(PaddedChain.of(chain), chain.layout, scores.dtype)

    def _time_first(
        self, scores: Tensor, gold: Any, lengths: Any, mask: Any, offsets: Any, backend: Backend
    ) -> ScoredBatch:
        if scores.ndim != 3:
            raise DataError(
                f"scores have shape {tuple(scores.shape)}; with batch_first=False give [time, batch, labels]"
            )
        order = TimeFirst()
        per_step = self.transitions.ndim == 4
        chain = replace(self, transitions=order.take(self.transitions)) if per_step else self
        inner = chain._bound(
            order.take(scores),
            None if gold is None else order.take(torch.as_tensor(gold)),
            lengths=lengths,
            mask=None if mask is None else order.take(torch.as_tensor(mask)),
            offsets=offsets,
            backend=backend,
        )
        return RearrangedBatch(inner, order)

    def _kept(self, steps: KeptSteps) -> Tensor:
        """The transitions into the steps that are kept."""
        shape = tuple(self.transitions.shape)
        if len(shape) == 2:
            return self.transitions
        by_position = len(shape) == 3 and steps.shape[1:] == shape[:1]
        return steps.take(
            self.transitions.expand(*steps.shape, *shape[1:]) if by_position else self.transitions
        )

    def tensors(
        self, scores: Tensor, lengths: Any = None, mask: Any = None, offsets: Any = None
    ) -> ChainTensors:
        """All part scores of a batch, checked, with what is not allowed at -inf."""
        layout = Layout.of(scores, lengths, mask, offsets)
        k = scores.shape[-1]
        zero = scores.new_zeros(k)
        start = zero if self.start is None else self.start
        end = zero if self.end is None else self.end
        check_floating("start", start)
        check_floating("end", end)
        if tuple(start.shape) != (k,) or tuple(end.shape) != (k,):
            raise DataError(
                f"start and end scores have shapes {tuple(start.shape)} and {tuple(end.shape)}; for {k} "
                f"labels they must be ({k},)"
            )
        transitions = self._shaped(layout, k)
        if self.allowed is not None:
            legal = self._legal(k, scores.device)
            start, transitions, end = (
                t.masked_fill(~ok, -torch.inf) for t, ok in zip((start, transitions, end), legal, strict=True)
            )
        return ChainTensors(scores, transitions, start, end, layout)

    def _shaped(self, layout: Layout, k: int) -> Tensor:
        given = tuple(self.transitions.shape)
        if given == (k, k):
            return self.transitions
        by_position = len(layout.shape) == 2 and given == (layout.shape[1], k, k)
        if by_position or given == (*layout.shape, k, k):
            if layout.n_rows == 1:  # one matrix, that of a first step, which is not used
                return self.transitions.reshape(k, k)
            return self.transitions.expand(*layout.shape, k, k)
        raise DataError(
            f"transition scores have shape {given}; for {k} labels they must be {(k, k)}, or "
            f"{(*layout.shape, k, k)} for one matrix per step"
        )

    def _legal(self, k: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        if isinstance(self.allowed, LegalTransitions):
            start, pair, end = (torch.as_tensor(mark) for mark in self.allowed)
        else:
            pair = torch.as_tensor(self.allowed)
            start = end = torch.ones(k, dtype=torch.bool)
        if pair.dtype != torch.bool or tuple(pair.shape) != (k, k):
            raise DataError(
                f"allowed must be booleans of shape {(k, k)}, got {pair.dtype} {tuple(pair.shape)}"
            )
        return start.to(device), pair.to(device), end.to(device)
