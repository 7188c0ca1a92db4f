"""Chains on the CPU: tensors share their memory with the Numba kernels, and gradients come back as tensors.

:class:`ChainObjective` gives the value of an objective and its gradient, a difference of part indicators or
marginals, in one call of a kernel; its backward pass only weights the sequences. :class:`LogPartition` has
the marginals as its gradient, and :class:`Marginals` the Hessian of log Z times a vector, again a kernel: so
log Z can be differentiated twice.

Kernels compute in double precision whatever they read. Tensors of 16 bits are read as float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError
from trellis.data.labels import EncodedLabels
from trellis.neural.chain.batch_layout import Layout
from trellis.neural.chain.chain_marginal_kernels import covariance_batch, marginals_batch, subtract_gold
from trellis.neural.chain.chain_objective_kernels import dense_batch, path_batch
from trellis.neural.chain.gold_labels import Costs
from trellis.neural.tensor_structure import check_once
from trellis.neural.tensors import apply, check_scores, value_type
from trellis.objectives.records import Log, Objective
from trellis.structures.chain.problem.score_objectives import check_feasible

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Task:
    """What an objective needs besides scores."""

    objective: Objective
    epsilon: float
    gold: EncodedLabels
    costs: Costs


@dataclass(frozen=True, eq=False)
class ChainTensors:
    """The part scores of a batch: ``unary`` [..., K]; ``transitions`` (K, K) or [..., K, K]; ``start``,
    ``end`` (K,)."""

    unary: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    layout: Layout

    @property
    def shared(self) -> bool:
        return self.transitions.ndim == 2

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.unary, self.transitions, self.start, self.end


def objective_values(chain: ChainTensors, task: Task) -> Tensor:
    """(S,) values of an objective; first derivatives."""
    values: Tensor = apply(ChainObjective, *chain.tensors, chain.layout, task)
    return values


def log_partition(chain: ChainTensors) -> Tensor:
    """(S,) log Z; first and second derivatives."""
    values: Tensor = apply(LogPartition, *chain.tensors, chain.layout)
    return values


def marginals(chain: ChainTensors) -> tuple[Tensor, Tensor]:
    """P(y_t = k), and P(y_{t-1} = j, y_t = k) per step or summed over the steps of a sequence (S, K, K);
    first derivatives."""
    unary, pairs = apply(Marginals, *chain.tensors, chain.layout)
    return unary, pairs


def kernel_arrays(
    unary: Tensor, transitions: Tensor, start: Tensor, end: Tensor, layout: Layout
) -> tuple[Array, Array, Array, Array]:
    """What the kernels read: views of the tensors where these are contiguous and have 32 or 64 bits."""
    k = unary.shape[-1]
    kept = value_type(unary)
    rows = _array("unary", unary, kept, layout.counts).reshape(layout.n_rows, k)
    if transitions.ndim == 2:
        pairs = _array("transition", transitions, torch.float64)[None]
    else:
        pairs = _array("transition", transitions, kept, layout.counts).reshape(layout.n_rows, k, k)
    return rows, pairs, _array("start", start, torch.float64), _array("end", end, torch.float64)


def _array(name: str, tensor: Tensor, dtype: torch.dtype, counts: Tensor | None = None) -> Array:
    values = tensor.detach().to(dtype).contiguous()
    check_scores(name, values, None if counts is None else on_axes(counts, values))
    result: Array = values.numpy()
    return result


def on_axes(counts: Tensor, values: Tensor) -> Tensor:
    """[B, T] with as many axes as the values have."""
    return counts.reshape(*counts.shape, *[1] * (values.ndim - 2))


def check_some_labelling(log_z: FloatArray) -> None:
    dead = np.flatnonzero(log_z == -np.inf)
    if dead.size:
        raise InfeasibleError(
            f"sequence {dead[0]} has no allowed labelling: the forbidden labels and transitions (-inf) leave "
            "none; allow more labels there, or drop the sequence"
        )


def _outputs(rows: Array, pairs: Array, layout: Layout, wanted: bool = True) -> tuple[Array, Array]:
    """Zeros for the gradient in the unaries (R, K) and in the transitions of each sequence or step."""
    r, k = rows.shape
    if not wanted:
        return np.zeros((0, k), rows.dtype), np.zeros((0, k, k), pairs.dtype)
    return np.zeros((r, k), rows.dtype), np.zeros(
        (layout.n_sequences if len(pairs) == 1 else r, k, k), pairs.dtype
    )


def _gradients(ctx: Any, weight: Tensor, d_unary: Tensor, d_pairs: Tensor) -> tuple[Tensor | None, ...]:
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


def _with_ends(ctx: Any, unary: Tensor, pairs: Tensor) -> tuple[Tensor | None, ...]:
    _, first, last = ctx.layout.ends_of
    rows = unary.reshape(-1, unary.shape[-1])
    start = rows[torch.from_numpy(first)].sum(0) if ctx.needs_input_grad[2] else None
    end = rows[torch.from_numpy(last)].sum(0) if ctx.needs_input_grad[3] else None
    found = (unary, pairs, start, end)
    return tuple(
        g.to(dtype) if needed and g is not None else None
        for g, dtype, needed in zip(found, ctx.dtypes, ctx.needs_input_grad[:4], strict=True)
    )


def _remember(ctx: Any, tensors: tuple[Tensor, ...], layout: Layout) -> None:
    ctx.layout, ctx.shared = layout, tensors[1].ndim == 2
    ctx.dtypes = tuple(t.dtype for t in tensors)


def _run(
    arrays: tuple[Array, Array, Array, Array], layout: Layout, task: Task, wanted: bool
) -> tuple[FloatArray, Array, Array]:
    """Values and, where ``wanted``, gradients of every sequence."""
    gold, costs, mode = task.gold, task.costs, task.objective.kernel_mode
    values = np.empty(layout.n_sequences)
    if isinstance(task.objective, Log) and gold.allowed is None:  # shares its kernel with the marginals
        d_unary, d_pairs = _outputs(arrays[0], arrays[1], layout)
        marginals_batch(*arrays, layout.begins, layout.lengths, 0, len(values), values, d_unary, d_pairs)
        subtract_gold(*arrays, layout.begins, layout.offsets, gold.codes, values, d_unary, d_pairs)
        return values, d_unary, d_pairs
    d_unary, d_pairs = _outputs(arrays[0], arrays[1], layout, wanted)
    allowed = np.zeros((0, arrays[0].shape[1]), np.bool_) if gold.allowed is None else gold.allowed
    where = layout.begins, layout.offsets, 0, layout.n_sequences
    rest = gold.codes, gold.ambiguous, allowed, costs.table, costs.matrix, values, d_unary, d_pairs
    if task.objective.two_labelings:
        path_batch(mode, costs.kind, task.epsilon, *arrays, *where, *rest)
    else:
        dense_batch(mode, costs.kind, *arrays, *where, *rest)
    return values, d_unary, d_pairs


class ChainObjective(torch.autograd.Function):
    """Values and gradient at once, in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, unary: Tensor, transitions: Tensor, start: Tensor, end: Tensor, layout: Layout, task: Task
    ) -> Tensor:
        wanted = any(ctx.needs_input_grad[:4])
        arrays = kernel_arrays(unary, transitions, start, end, layout)
        values, d_unary, d_pairs = _run(arrays, layout, task, wanted)
        check_feasible(values)
        _remember(ctx, (unary, transitions, start, end), layout)
        ctx.objective = task.objective
        if wanted:
            ctx.save_for_backward(
                torch.from_numpy(d_unary).reshape(unary.shape), _pairs_tensor(d_pairs, transitions)
            )
        return torch.from_numpy(values).to(value_type(unary))

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        check_once(ctx.objective)
        return (*_gradients(ctx, weight, *ctx.saved_tensors), None, None)


class LogPartition(torch.autograd.Function):
    """log Z of each sequence; marginals are computed with it."""

    @staticmethod
    def forward(
        ctx: Any, unary: Tensor, transitions: Tensor, start: Tensor, end: Tensor, layout: Layout
    ) -> Tensor:
        log_z, probabilities, pairs = _marginals(unary, transitions, start, end, layout)
        _remember(ctx, (unary, transitions, start, end), layout)
        ctx.save_for_backward(unary, transitions, start, end, probabilities, pairs)
        return torch.from_numpy(log_z).to(value_type(unary))

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        *scores, probabilities, pairs = ctx.saved_tensors
        if (
            torch.is_grad_enabled()
        ):  # somebody wants second derivatives: marginals that know their own gradient
            probabilities, pairs = apply(Marginals, *scores, ctx.layout)
        return (*_gradients(ctx, weight, probabilities, pairs), None)


class Marginals(torch.autograd.Function):
    """The marginals as functions of the scores."""

    @staticmethod
    def forward(
        ctx: Any, unary: Tensor, transitions: Tensor, start: Tensor, end: Tensor, layout: Layout
    ) -> tuple[Tensor, Tensor]:
        _, probabilities, pairs = _marginals(unary, transitions, start, end, layout)
        _remember(ctx, (unary, transitions, start, end), layout)
        ctx.save_for_backward(unary, transitions, start, end)
        return probabilities, pairs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v_unary: Tensor, v_pairs: Tensor) -> tuple[Tensor | None, ...]:
        unary, transitions, start, end = ctx.saved_tensors
        layout: Layout = ctx.layout
        arrays = kernel_arrays(unary, transitions, start, end, layout)
        d_unary, d_pairs = _outputs(arrays[0], arrays[1], layout)
        costs = _direction(v_unary, d_unary), _direction(v_pairs, d_pairs)
        covariance_batch(
            *arrays, layout.begins, layout.lengths, 0, layout.n_sequences, *costs, d_unary, d_pairs
        )
        by_sequence = _pairs_tensor(d_pairs, transitions)
        pairs = by_sequence.sum(0) if ctx.shared else by_sequence
        return (*_with_ends(ctx, torch.from_numpy(d_unary).reshape(unary.shape), pairs), None)


def _marginals(
    unary: Tensor, transitions: Tensor, start: Tensor, end: Tensor, layout: Layout
) -> tuple[FloatArray, Tensor, Tensor]:
    arrays = kernel_arrays(unary, transitions, start, end, layout)
    probabilities, pairs = _outputs(arrays[0], arrays[1], layout)
    log_z = np.empty(layout.n_sequences)
    marginals_batch(
        *arrays, layout.begins, layout.lengths, 0, layout.n_sequences, log_z, probabilities, pairs
    )
    check_some_labelling(log_z)
    kept = torch.from_numpy(probabilities).reshape(unary.shape)
    return log_z, kept, _pairs_tensor(pairs, transitions)


def _pairs_tensor(pairs: Array, transitions: Tensor) -> Tensor:
    """(S, K, K) for shared transitions, else their shape."""
    tensor = torch.from_numpy(pairs)
    return tensor if transitions.ndim == 2 else tensor.reshape(transitions.shape)


def _direction(v: Tensor, like: Array) -> Array:
    """The vector of a Hessian product, as an array like the marginals."""
    found: Array = v.detach().to(torch.from_numpy(like).dtype).contiguous().numpy().reshape(like.shape)
    return found
