"""What PyTorch offers around a loss: the transforms of ``torch.func``, and ``torch.compile``."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip(
    "torch", reason="trellis.neural needs PyTorch: pip install 'trellis-learn[torch]'"
)

from trellis.core.errors import UnsupportedError
from trellis.neural import Chain, decode, log_partition, marginals, structured_loss

MASK = torch.tensor([[True, False, True, True], [True, True, False, False]])


def batch() -> tuple[Any, Any, Any]:
    rng = torch.Generator().manual_seed(0)
    u = torch.randn(2, 4, 3, generator=rng, dtype=torch.float64)
    return u, torch.randn(3, 3, generator=rng, dtype=torch.float64), torch.randint(3, (2, 4), generator=rng)


@pytest.mark.parametrize("objective", ["log", "margin", "risk", "softmax_margin"])
@pytest.mark.parametrize("options", [{}, {"mask": MASK}, {"lengths": torch.tensor([4, 2])}], ids=list)
def test_functional_gradients_are_those_of_autograd(objective: str, options: dict[str, Any]) -> None:
    u, a, gold = batch()

    def value(u: Any, a: Any) -> Any:
        return structured_loss(Chain(a), u, gold, objective=objective, **options)

    ours = torch.func.grad(value, argnums=(0, 1))(u, a)
    leaves = u.clone().requires_grad_(), a.clone().requires_grad_()
    torch.testing.assert_close(ours, torch.autograd.grad(value(*leaves), leaves))


def test_second_derivatives_and_forward_mode() -> None:
    u, a, _ = batch()

    def total(u: Any) -> Any:
        return log_partition(Chain(a), u, lengths=[4, 2]).sum()

    torch.testing.assert_close(torch.func.hessian(total)(u), torch.autograd.functional.hessian(total, u))
    _, slope = torch.func.jvp(total, (u,), (u,))
    expected = (marginals(Chain(a), u, lengths=[4, 2]) * u).sum()
    torch.testing.assert_close(slope, expected)


def test_what_the_transforms_cannot_do_is_said() -> None:
    u, a, gold = batch()
    one = torch.func.grad(lambda x, y: structured_loss(Chain(a), x, y))
    for call in (
        lambda: torch.func.vmap(one)(u, gold),
        lambda: torch.func.vmap(lambda x: decode(Chain(a), x))(u),
    ):
        with pytest.raises(UnsupportedError, match="give the whole batch at once"):
            call()
    with pytest.raises(UnsupportedError, match=r"torch\.func"):
        torch.func.grad(lambda x: structured_loss(Chain(a), x, gold, backend="kernels"))(u)


def test_a_compiled_step_has_the_same_value_and_gradient() -> None:
    _, a, gold = batch()
    network = torch.nn.Linear(5, 3, dtype=torch.float64)
    x = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def step(x: Any) -> Any:
        return structured_loss(Chain(a), network(x).tanh(), gold, mask=MASK)

    compiled = torch.compile(step, backend="eager")
    ours, theirs = compiled(x), step(x)
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        *(torch.autograd.grad(value, network.parameters()) for value in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(one, other)
