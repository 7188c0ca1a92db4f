"""Chains on the CPU: tensors share their memory with the Numba kernels, and gradients come back as tensors.

:class:`ChainObjective` gives the value of an objective and its gradient, a difference of part indicators or
marginals, in one call of a kernel; its backward pass only weights the sequences. :class:`ChainMarginals`
gives log Z, whose gradient are the marginals, and the marginals, whose derivative is the Hessian of log Z
times a vector, again a kernel: so log Z can be differentiated twice.

Kernels compute in double precision whatever they read. Tensors of 16 bits are read as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.core.arrays import AnyArray, FloatArray
from trellis.core.errors import UnsupportedError
from trellis.neural.chain.batch_layout import Layout
from trellis.neural.chain.chain_marginal_kernels import covariance_batch, marginals_batch, subtract_gold
from trellis.neural.chain.chain_objective_kernels import dense_batch, path_batch
from trellis.neural.chain.gold_labels import ChainTask
from trellis.neural.tensor_structure import check_once
from trellis.neural.tensors import check_scores, value_type
from trellis.structures.chain.oracle.chain_oracle import feasible
from trellis.structures.chain.problem.chain_task import check_feasible

Arrays = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
Gradients = tuple[Tensor | None, ...]


class ChainObjective(torch.autograd.Function):
    """Values (S,) of an objective of the four part scores; first derivatives. The other two outputs are the
    gradient of each value, which the backward pass weights; without rows where it is not ``wanted``."""

    @staticmethod
    def forward(
        layout: Layout, task: ChainTask, wanted: bool, *scores: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        values, d_unary, d_pairs = _objective(kernel_arrays(layout, *scores), layout, task, wanted)
        check_feasible(values)
        found = torch.from_numpy(values).to(value_type(scores[0]))
        if not wanted:
            return found, torch.from_numpy(d_unary), torch.from_numpy(d_pairs)
        return found, *_as_tensors(d_unary, d_pairs, scores)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        layout, task, _, *scores = inputs
        _remember(ctx, layout, scores)
        ctx.objective = task.objective
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output[1:])

    @staticmethod
    def backward(ctx: Any, weight: Any, *_: Any) -> Gradients:
        check_once(ctx.objective)
        found = (None,) * 4 if weight is None else _weighted(ctx, weight, *ctx.saved_tensors)
        return None, None, None, *found


class ChainMarginals(torch.autograd.Function):
    """log Z (S,), P(y_t = k), and P(y_{t-1} = j, y_t = k) per step, or summed over the steps of a sequence
    (S, K, K) where they share their transitions."""

    @staticmethod
    def forward(layout: Layout, *scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_z, p_unary, p_pairs = _marginals(kernel_arrays(layout, *scores), layout)
        feasible(log_z)
        return torch.from_numpy(log_z).to(value_type(scores[0])), *_as_tensors(p_unary, p_pairs, scores)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        layout, *scores = inputs
        _remember(ctx, layout, scores)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*scores, *output[1:])

    @staticmethod
    def backward(ctx: Any, weight: Any, v_unary: Any, v_pairs: Any) -> Gradients:
        *scores, unary, pairs = ctx.saved_tensors  # the marginals still depend on the scores here
        found: list[Any] = [(None,) * 4]
        if weight is not None:
            found.append(_weighted(ctx, weight, unary, pairs))
        if v_unary is not None or v_pairs is not None:
            if torch.is_grad_enabled():
                raise UnsupportedError(
                    "the kernels differentiate marginals and entropies once, and create_graph=True (or "
                    "torch.func) asks for more; use backend='torch'"
                )
            found.append(_hessian_product(ctx, scores, v_unary, v_pairs))
        return None, *(None if terms[-1] is None else sum(terms[1:]) for terms in zip(*found, strict=True))


def _objective(
    arrays: Arrays, layout: Layout, task: ChainTask, wanted: bool
) -> tuple[FloatArray, AnyArray, AnyArray]:
    """Values and, where ``wanted``, gradients of every sequence."""
    gold, objective = task.gold, task.objective
    if objective.log_likelihood and gold.allowed is None:  # shares its kernel with the marginals
        values, d_unary, d_pairs = _marginals(arrays, layout)
        subtract_gold(*arrays, layout.begins, layout.offsets, gold.codes, values, d_unary, d_pairs)
        return values, d_unary, d_pairs
    values = np.empty(layout.n_sequences)
    d_unary, d_pairs = _zeros(arrays, layout, wanted)
    allowed = np.zeros((0, arrays[0].shape[1]), np.bool_) if gold.allowed is None else gold.allowed
    where = layout.begins, layout.offsets, 0, layout.n_sequences
    rest = gold.codes, gold.ambiguous, allowed, task.cost, task.matrix, values, d_unary, d_pairs
    if objective.two_labelings:
        path_batch(objective.formula, task.loss_kind, task.epsilon, *arrays, *where, *rest)
    else:
        dense_batch(objective.formula, task.loss_kind, *arrays, *where, *rest)
    return values, d_unary, d_pairs


def chain_values(arrays: Arrays, layout: Layout, task: ChainTask) -> FloatArray:
    """(S,) the objective of each sequence, infinite where its gold labels are forbidden."""
    return _objective(arrays, layout, task, wanted=False)[0]


def _marginals(arrays: Arrays, layout: Layout) -> tuple[FloatArray, AnyArray, AnyArray]:
    log_z = np.empty(layout.n_sequences)
    unary, pairs = _zeros(arrays, layout)
    marginals_batch(*arrays, layout.begins, layout.offsets, 0, len(log_z), log_z, unary, pairs)
    return log_z, unary, pairs


def _hessian_product(
    ctx: Any, scores: list[Tensor], v_unary: Tensor | None, v_pairs: Tensor | None
) -> Gradients:
    layout: Layout = ctx.layout
    arrays = kernel_arrays(layout, *scores)
    d_unary, d_pairs = _zeros(arrays, layout)
    v = _direction(v_unary, d_unary), _direction(v_pairs, d_pairs)
    covariance_batch(*arrays, layout.begins, layout.offsets, 0, layout.n_sequences, *v, d_unary, d_pairs)
    unary, pairs = _as_tensors(d_unary, d_pairs, scores)
    return _with_ends(ctx, unary, pairs.sum(0) if ctx.shared else pairs)


def _direction(v: Tensor | None, like: AnyArray) -> AnyArray:
    """The vector of a Hessian product, as an array like the marginals."""
    if v is None:
        return np.zeros_like(like)
    found: AnyArray = v.detach().to(torch.from_numpy(like).dtype).contiguous().numpy().reshape(like.shape)
    return found


def kernel_arrays(layout: Layout, unary: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Arrays:
    """What the kernels read: views of the tensors where these are contiguous and have 32 or 64 bits."""
    k = unary.shape[-1]
    kept = value_type(unary)
    rows = _array("unary", unary, kept, layout.mask).reshape(layout.n_rows, k)
    if transitions.ndim == 2:
        pairs = _array("transition", transitions, torch.float64)[None]
    else:
        pairs = _array("transition", transitions, kept, layout.mask).reshape(layout.n_rows, k, k)
    return rows, pairs, _array("start", start, torch.float64), _array("end", end, torch.float64)


def _array(name: str, tensor: Tensor, dtype: torch.dtype, mask: Tensor | None = None) -> AnyArray:
    values = tensor.detach().to(dtype).contiguous()
    check_scores(name, values, None if mask is None else on_axes(mask, values))
    result: AnyArray = values.numpy()
    return result


def on_axes(mask: Tensor, values: Tensor) -> Tensor:
    """[B, T] with as many axes as the values have."""
    return mask.reshape(*mask.shape, *[1] * (values.ndim - 2))


def _zeros(arrays: Arrays, layout: Layout, wanted: bool = True) -> tuple[AnyArray, AnyArray]:
    """For the gradient in the unaries (R, K) and in the transitions of each sequence or step."""
    rows, pairs = arrays[:2]
    n, k = rows.shape
    n_pairs = layout.n_sequences if len(pairs) == 1 else n
    return np.zeros((n * wanted, k), rows.dtype), np.zeros((n_pairs * wanted, k, k), pairs.dtype)


def _as_tensors(unary: AnyArray, pairs: AnyArray, scores: Any) -> tuple[Tensor, Tensor]:
    """Of the shape of the scores; (S, K, K) for shared transitions."""
    tensor = torch.from_numpy(pairs)
    shaped = tensor if scores[1].ndim == 2 else tensor.reshape(scores[1].shape)
    return torch.from_numpy(unary).reshape(scores[0].shape), shaped


def _remember(ctx: Any, layout: Layout, scores: Sequence[Tensor]) -> None:
    ctx.layout, ctx.shared = layout, scores[1].ndim == 2
    ctx.dtypes = tuple(t.dtype for t in scores)


def _weighted(ctx: Any, weight: Tensor, d_unary: Tensor, d_pairs: Tensor) -> Gradients:
    """Gradients of sum_i weight_i f_i in all four scores, from those of each f_i. Differentiable."""
    layout: Layout = ctx.layout
    if len(layout.shape) == 2:
        by_row = weight.reshape(-1, 1, 1)
    else:
        by_row = weight[torch.from_numpy(layout.owners)].reshape(-1, 1)
    unary = d_unary * by_row.to(d_unary.dtype)
    if ctx.shared:
        pairs = torch.tensordot(weight.to(d_pairs.dtype), d_pairs, 1)
    else:
        pairs = d_pairs * by_row.unsqueeze(-1).to(d_pairs.dtype)
    return _with_ends(ctx, unary, pairs)


def _with_ends(ctx: Any, unary: Tensor, pairs: Tensor) -> Gradients:
    """All four gradients, in the precision of the scores; start and end are unaries of two steps."""
    needed = ctx.needs_input_grad[-4:]
    _, first, last = ctx.layout.first_and_last
    rows = unary.reshape(-1, unary.shape[-1])
    start = rows[torch.from_numpy(first)].sum(0) if needed[2] else None
    end = rows[torch.from_numpy(last)].sum(0) if needed[3] else None
    found = (unary, pairs, start, end)
    return tuple(
        g.to(dtype) if is_needed and g is not None else None
        for g, dtype, is_needed in zip(found, ctx.dtypes, needed, strict=True)
    )
