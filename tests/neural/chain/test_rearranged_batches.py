"""Padding anywhere, labels of -100, and time before batch: against the sequences written out without them."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip(
    "torch", reason="trellis.neural needs PyTorch: pip install 'trellis-learn[torch]'"
)

from trellis.core.errors import DataError, UnsupportedError
from trellis.neural import (
    Chain,
    Factors,
    decode,
    entropy,
    k_best,
    log_partition,
    marginals,
    relative_gaps,
    sample,
    structured_loss,
)

BACKENDS: list[Any] = ["kernels", "torch"]
OBJECTIVES = ["log", "margin", "risk", "perceptron", "softmax_margin", "direct"]
TRANSITIONS = ["shared", "by position", "by step"]


class Gapped:
    """A padded batch with NaN wherever the mask is false."""

    def __init__(self, seed: int, mask: list[list[bool]], transitions: str = "shared") -> None:
        rng = torch.Generator().manual_seed(seed)
        self.mask = torch.tensor(mask)
        (b, t), k = self.mask.shape, 3

        def draw(*shape: int) -> Any:
            return torch.randn(*shape, generator=rng, dtype=torch.float64)

        u = draw(b, t, k).masked_fill(~self.mask[..., None], torch.nan)
        shape = {"shared": (k, k), "by position": (t, k, k), "by step": (b, t, k, k)}[transitions]
        self.u, self.a = u.requires_grad_(), draw(*shape).requires_grad_()
        self.s, self.e = draw(k).requires_grad_(), draw(k).requires_grad_()
        self.gold = torch.randint(k, (b, t), generator=rng)
        self.costs = draw(b, t, k).abs()

    @property
    def chain(self) -> Chain:
        return Chain(self.a, self.s, self.e)

    @property
    def leaves(self) -> tuple[Any, ...]:
        return self.u, self.a, self.s, self.e

    def alone(self, i: int) -> tuple[Chain, Any, Any, Any]:
        """Sequence i without its gaps: its chain, scores (1, n, K), gold labels and costs."""
        own, (b, t) = self.mask[i], self.mask.shape
        a = self.a
        if a.ndim > 2:
            a = a.expand(b, t, 3, 3)[i, own][None]
        return (
            Chain(a, self.s, self.e),
            self.u[i, own][None],
            self.gold[i, own][None],
            self.costs[i, own][None],
        )


masks = st.integers(1, 5).flatmap(
    lambda t: st.lists(st.lists(st.booleans(), min_size=t, max_size=t), min_size=1, max_size=3)
)
batches = st.builds(Gapped, st.integers(0, 10_000), masks, st.sampled_from(TRANSITIONS))


def same_gradients(batch: Gapped, ours: Any, theirs: Any) -> None:
    pairs = (torch.autograd.grad(value, batch.leaves, allow_unused=True) for value in (ours, theirs))
    for a, b in zip(*pairs, strict=True):
        a, b = (torch.zeros(()) if g is None else g for g in (a, b))
        assert torch.isfinite(a).all()
        torch.testing.assert_close(a, b.expand_as(a) if b.ndim == 0 else b, check_dtype=False)


@settings(max_examples=40)
@given(batches, st.sampled_from(OBJECTIVES), st.sampled_from(BACKENDS), st.booleans(), st.booleans())
def test_objectives_are_those_of_the_sequences_without_gaps(
    batch: Gapped, objective: str, backend: Any, by_labels: bool, costs: bool
) -> None:
    how: dict[str, Any] = {"objective": objective, "backend": backend, "epsilon": 0.7, "reduction": "none"}
    gold = batch.gold.masked_fill(~batch.mask, -100) if by_labels else batch.gold
    where = {} if by_labels else {"mask": batch.mask}
    loss = batch.costs if costs else "hamming"
    ours = structured_loss(batch.chain, batch.u, gold, loss=loss, **where, **how)
    one_by_one = []
    for i in range(len(batch.mask)):
        chain, u, y, c = batch.alone(i)
        one_by_one.append(structured_loss(chain, u, y, loss=c if costs else "hamming", **how))
    theirs = torch.cat(one_by_one)
    torch.testing.assert_close(ours, theirs)
    weight = torch.linspace(0.5, 2.0, len(ours), dtype=torch.float64)
    same_gradients(batch, (weight * ours).sum(), (weight * theirs).sum())


@settings(max_examples=25)
@given(batches, st.sampled_from(BACKENDS))
def test_answers_stand_where_the_steps_were(batch: Gapped, backend: Any) -> None:
    where: dict[str, Any] = {"mask": batch.mask, "backend": backend}
    best, p = decode(batch.chain, batch.u, **where), marginals(batch.chain, batch.u, **where)
    ranked, tops = k_best(batch.chain, batch.u, 2, **where)
    drawn = sample(batch.chain, batch.u, 3, seed=5, **where)
    log_z, h = log_partition(batch.chain, batch.u, **where), entropy(batch.chain, batch.u, **where)
    outside = ~batch.mask
    assert (best[outside] == -1).all()
    assert (p[outside] == 0).all()
    assert (ranked[:, outside] == -1).all()
    assert (drawn[:, outside] == -1).all()
    assert (drawn[:, batch.mask] >= 0).all()
    for i, own in enumerate(batch.mask):
        chain, u, _, _ = batch.alone(i)
        assert torch.equal(best[i, own], decode(chain, u, backend=backend)[0])
        torch.testing.assert_close(p[i, own], marginals(chain, u, backend=backend)[0])
        labels, scores = k_best(chain, u, 2, backend=backend)
        torch.testing.assert_close(tops[i], scores[0])
        assert torch.equal(
            ranked[:, i, own][torch.isfinite(tops[i])], labels[:, 0][torch.isfinite(scores[0])]
        )
        torch.testing.assert_close(log_z[i], log_partition(chain, u, backend=backend)[0])
        torch.testing.assert_close(h[i], entropy(chain, u, backend=backend)[0])


@settings(max_examples=20)
@given(batches, st.sampled_from(BACKENDS))
def test_time_first_is_the_transpose(batch: Gapped, backend: Any) -> None:
    a = batch.a.transpose(0, 1) if batch.a.ndim == 4 else batch.a
    turned, u = Chain(a, batch.s, batch.e), batch.u.transpose(0, 1)
    where: dict[str, Any] = {"backend": backend, "mask": batch.mask}
    there: dict[str, Any] = {"backend": backend, "mask": batch.mask.T, "batch_first": False}
    for loss, flat in (("hamming", "hamming"), (batch.costs, batch.costs.transpose(0, 1))):
        ours = structured_loss(turned, u, batch.gold.T, objective="softmax_margin", loss=flat, **there)
        theirs = structured_loss(
            batch.chain, batch.u, batch.gold, objective="softmax_margin", loss=loss, **where
        )
        torch.testing.assert_close(ours, theirs)
        same_gradients(batch, ours, theirs)
    assert torch.equal(decode(turned, u, **there), decode(batch.chain, batch.u, **where).T)
    torch.testing.assert_close(
        marginals(turned, u, **there), marginals(batch.chain, batch.u, **where).transpose(0, 1)
    )
    drawn = sample(turned, u, 2, **there)
    assert torch.equal(drawn, sample(batch.chain, batch.u, 2, **where).transpose(1, 2))
    labels, _ = k_best(turned, u, 2, **there)
    assert torch.equal(labels, k_best(batch.chain, batch.u, 2, **where)[0].transpose(1, 2))


def test_labels_of_minus_100_in_packed_batches_and_beside_lengths() -> None:
    batch = Gapped(1, [[True] * 4, [True] * 4])
    gold = batch.gold.clone()
    gold[0, 1] = gold[1, 3] = -100
    lengths = [4, 3]  # the second -100 stands in the padding
    ours = structured_loss(batch.chain, batch.u, gold, lengths=lengths, reduction="none")
    kept = torch.tensor([[True, False, True, True], [True, True, True, False]])
    torch.testing.assert_close(ours, structured_loss(batch.chain, batch.u, gold, mask=kept, reduction="none"))
    rows = torch.cat([batch.u[0], batch.u[1, :3]])
    packed = structured_loss(
        batch.chain, rows, torch.cat([gold[0], gold[1, :3]]), offsets=[0, 4, 7], reduction="none"
    )
    torch.testing.assert_close(ours, packed)
    gaps = relative_gaps(batch.chain, batch.u, gold, lengths=lengths)
    np.testing.assert_allclose(gaps, relative_gaps(batch.chain, batch.u, gold, mask=kept))
    unknown = gold.masked_fill(gold == -100, -1)  # an unknown label is summed over: another value
    assert not torch.allclose(
        ours, structured_loss(batch.chain, batch.u, unknown, lengths=lengths, reduction="none")
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_through_gaps_by_finite_differences(backend: Any) -> None:
    batch = Gapped(3, [[False, True, False, True], [True, True, False, False]], "by step")
    u = torch.nan_to_num(batch.u.detach()).requires_grad_()

    def values(u: Any, a: Any, s: Any, e: Any) -> Any:
        return structured_loss(
            Chain(a, s, e), u, batch.gold, mask=batch.mask, reduction="none", backend=backend
        )

    assert torch.autograd.gradcheck(values, (u, *batch.leaves[1:]))


def test_mistakes_are_named() -> None:
    chain, u, gold = Chain(torch.zeros(3, 3)), torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.int64)
    gaps = torch.tensor([[1, 0, 1, 1]] * 2)
    with pytest.raises(DataError, match="must begin with"):
        structured_loss(chain, u, gold[:, :2], mask=gaps)
    with pytest.raises(DataError, match="must begin with"):
        structured_loss(Chain(torch.zeros(3, 3, 3)), u, gold, mask=gaps)
    with pytest.raises(DataError, match="the mask has shape"):
        decode(chain, u, mask=gaps[:, :2])
    with pytest.raises(DataError, match="batch_first=False give"):
        decode(chain, u[0], batch_first=False)
    with pytest.raises(DataError, match="only one of"):
        structured_loss(chain, u, gold.fill_(-100), mask=gaps, lengths=[2, 2])
    with pytest.raises(DataError, match="no lengths, mask, offsets or batch_first"):
        decode(Factors([2], [[0]]), [torch.zeros(1, 2)], batch_first=False)
    with pytest.raises(UnsupportedError, match="meta device"):
        decode(chain, torch.zeros(2, 4, 3, device="meta"))
