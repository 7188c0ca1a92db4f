"""What every structure over tensors shares: the two reductions, gradients, precision, checks of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._C import _DisableFuncTorch
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor

from trellis.core.errors import DataError, UnsupportedError

P = ParamSpec("P")
T = TypeVar("T")
Reduce = Callable[[Tensor, int], Tensor]


def log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """log sum exp whose gradient is 0, not NaN, where everything is -inf."""
    top = x.detach().amax(dim, keepdim=True)
    top = torch.where(top > -torch.inf, top, torch.zeros_like(top))
    total = torch.exp(x - top).sum(dim)
    some = total > 0
    log_total = torch.log(torch.where(some, total, torch.ones_like(total))) + top.squeeze(dim)
    return torch.where(some, log_total, torch.full_like(log_total, -torch.inf))


def maximum(x: Tensor, dim: int) -> Tensor:
    """The gradient goes to the first of equal maxima: the tie rule of Viterbi."""
    return x.max(dim).values


def differentiate(total: Callable[..., Tensor], *tables: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """``total(*tables)``, and the gradient of its sum in the tables: marginals if it is a log-sum-exp,
    indicators of the best output if it is a maximum. Both can be differentiated where gradients are enabled.
    """
    if not tables:
        return total(), ()
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        moved = [table + torch.zeros_like(table, requires_grad=True) for table in tables]
        values = total(*moved)
        parts = torch.autograd.grad(values.sum(), moved, create_graph=create_graph, materialize_grads=True)
    return values if create_graph else values.detach(), parts


def entropy(log_partition: Callable[..., Tensor], tables: Sequence[Tensor]) -> Tensor:
    """(B,) log Z - E s, where ``tables`` [B, ...] hold all part scores of each example."""
    values, parts = differentiate(log_partition, *tables)
    for table, p in zip(tables, parts, strict=True):
        values = values - finite_product(p, table).unsqueeze(-1).flatten(1).sum(1)
    return values


def finite_product(parts: Tensor, scores: Tensor) -> Tensor:
    """parts * scores, 0 where a score is not finite: such a part is forbidden, or in the padding."""
    return parts * scores.masked_fill(~torch.isfinite(scores), 0.0)


def value_type(scores: Tensor) -> torch.dtype:
    """float64 for float64, else float32: a log-likelihood needs more digits than 16 bits have."""
    return torch.float64 if scores.dtype == torch.float64 else torch.float32


def apply(function: Any, *inputs: Any) -> Any:
    """``Function.apply``, which PyTorch leaves untyped."""
    return function.apply(*inputs)


def never_compiled(function: Callable[P, T]) -> Callable[P, T]:
    """For what calls compiled kernels: ``torch.compile`` ends its graph here, and begins another after."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            leave: Callable[[Callable[P, T]], Callable[P, T]] = torch.compiler.disable
            return leave(function)(*args, **options)
        return function(*args, **options)

    return call


def check_floating(name: str, given: Any) -> None:
    """Scores are tensors of floating-point numbers."""
    if not isinstance(given, Tensor) or not given.is_floating_point():
        kind = given.dtype if isinstance(given, Tensor) else f"of type {type(given).__name__}"
        raise DataError(f"{name} scores are {kind}; give a tensor of floating-point numbers")


def constant_array(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor that no gradient goes through: labels, masks, lengths, costs."""
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    with _DisableFuncTorch():
        array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def is_transformed(*given: Any) -> bool:
    """Whether a function of ``torch.func`` watches one of these; ``vmap`` is refused, as there a tensor
    stands for a batch whose numbers cannot be looked at."""
    found = [one for one in given if isinstance(one, Tensor) and is_functorch_wrapped_tensor(one)]
    for tensor in found:
        while is_functorch_wrapped_tensor(tensor):
            if is_batchedtensor(tensor):
                raise UnsupportedError(
                    "torch.func.vmap cannot look inside a structured loss; give the whole batch at once, "
                    "with reduction='none' for one value per example"
                )
            tensor = get_unwrapped(tensor)
    return bool(found)


def check_scores(name: str, given: Tensor, counts: Tensor | None = None) -> None:
    """Scores are finite or -inf, wherever they count (booleans that broadcast; default: everywhere)."""
    values = given.detach()
    if not values.numel() or float(values.max()) < torch.inf:  # the maximum of a NaN and anything is NaN
        return
    bad = ~(values < torch.inf) if counts is None else ~(values < torch.inf) & counts
    if bool(bad.any()):
        where = tuple(torch.nonzero(bad)[0].tolist())
        raise DataError(
            f"{name} scores contain {float(values[where])} at {where}; scores must be finite or -inf "
            "(forbidden)"
        )
