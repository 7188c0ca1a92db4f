"""Chains of tensors: against the objectives on given scores, enumeration, finite differences, and each
other."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

import inspect
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip(
    "torch", reason="trellis.neural needs PyTorch: pip install 'trellis-learn[torch]'"
)

from objective_references import EVERY, OWN, name_of
from scored_chains import value_and_gradient
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.data.constraints import legal_transitions
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.losses.labelings import WeightedHamming
from trellis.neural import (
    Chain,
    decode,
    entropy,
    k_best,
    log_partition,
    marginals,
    sample,
    structured_loss,
)
from trellis.neural.tensor_structure import BatchOptions
from trellis.objectives import Direct, Risk, get_objective
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.scores.chain_scores import ChainScores

OBJECTIVES: list[Any] = [
    *(o.name if get_objective(o.name) == o else o for o in EVERY if o not in OWN),
    *OWN,
]
LOSSES = ["hamming", "zero_one"]
BACKENDS: list[Any] = ["kernels", "torch"]


class Batch:
    """A random batch: padded tensors, and the same packed for NumPy. ``holes``: some parts forbidden."""

    def __init__(
        self,
        seed: int,
        lengths: tuple[int, ...] = (4, 1, 3),
        n_labels: int = 3,
        *,
        per_step: bool = False,
        holes: bool = False,
        unknown: bool = False,
        ties: bool = False,
        dtype: Any = torch.float64,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.ties = ties
        self.lengths, k = torch.tensor(lengths), n_labels
        batch, time = len(lengths), max(lengths)
        self.mask = torch.arange(time) < self.lengths[:, None]

        def draw(*shape: int) -> Any:
            values = rng.integers(-1, 2, shape).astype(float) if ties else rng.normal(size=shape)
            return torch.from_numpy(values)

        self.gold = torch.from_numpy(rng.integers(0, k, (batch, time)))
        self.unary, self.start, self.end = draw(batch, time, k), draw(k), draw(k)
        self.pairs = draw(batch, time, k, k) if per_step else draw(k, k)
        if holes:  # the labelling 0, 0, ... and the gold one stay allowed
            kept = torch.from_numpy(rng.random((batch, time, k)) < 0.7)
            kept[:, :, 0] = True
            kept.scatter_(2, self.gold.unsqueeze(-1), True)
            self.unary[~kept] = -torch.inf
            self.end[k - 1] = -torch.inf
            last = (self.lengths - 1).clamp(min=0)
            self.gold[torch.arange(batch), last] = 0
        if unknown:
            hidden = torch.from_numpy(rng.random((batch, time)) < 0.4)
            self.gold[hidden] = -1
        self.scores = tuple(
            t.to(dtype).requires_grad_() for t in (self.unary, self.pairs, self.start, self.end)
        )

    @property
    def chain(self) -> Chain:
        return Chain(*self.scores[1:])

    @property
    def packed(self) -> ChainScores:
        u, a, s, e = (t.detach().double() for t in self.scores)
        a = a if a.ndim == 2 else a[self.mask]
        return ChainScores.of(
            u[self.mask].numpy(), a.numpy(), s.numpy(), e.numpy(), lengths=self.lengths.numpy()
        )

    @property
    def encoded(self) -> EncodedLabels:
        codes = self.gold[self.mask].numpy().astype(np.int32)
        k = self.scores[0].shape[-1]
        allowed = (codes[:, None] == np.arange(k)) | (codes[:, None] < 0)
        return EncodedLabels(codes, allowed if (codes < 0).any() else None, self.packed.offsets)

    def loss(self, objective: Any, loss: Any = "hamming", **options: Any) -> Any:
        return structured_loss(
            self.chain,
            self.scores[0],
            self.gold,
            lengths=self.lengths,
            objective=objective,
            loss=loss,
            **options,
        )

    def gradients(self, value: Any) -> list[Any]:
        found = torch.autograd.grad(value, self.scores, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g for g, t in zip(found, self.scores, strict=True)]


batches = st.builds(
    Batch,
    st.integers(0, 10_000),
    st.lists(st.integers(0, 4), min_size=1, max_size=3).map(lambda n: (*n, 2)),
    st.integers(2, 4),
    per_step=st.booleans(),
    holes=st.booleans(),
    unknown=st.booleans(),
    ties=st.booleans(),
)


@given(batches, st.sampled_from(OBJECTIVES), st.sampled_from(LOSSES))
def test_equal_to_the_objectives_on_given_scores(batch: Batch, objective: Any, loss: str) -> None:
    labels = LabelSet(range(batch.scores[0].shape[-1]))
    values, parts = value_and_gradient(objective, batch.packed, batch.encoded, loss, labels)
    ours = batch.loss(objective, loss, reduction="none")
    np.testing.assert_allclose(ours.detach(), values, atol=1e-9)
    unary, pairs, start, end = batch.gradients(ours.sum())
    np.testing.assert_allclose(unary[batch.mask], parts.unary, atol=1e-9)
    assert (unary[~batch.mask] == 0).all()
    np.testing.assert_allclose(
        pairs if pairs.ndim == 2 else pairs[batch.mask], parts.transitions.squeeze(), atol=1e-9
    )
    np.testing.assert_allclose(start, parts.start, atol=1e-9)
    np.testing.assert_allclose(end, parts.end, atol=1e-9)


@given(batches, st.sampled_from(OBJECTIVES), st.sampled_from(LOSSES))
def test_plain_pytorch_agrees_with_the_kernels(batch: Batch, objective: Any, loss: str) -> None:
    if objective == "slack" and loss == "hamming":
        with pytest.raises(UnsupportedError, match="on the CPU only"):
            batch.loss(objective, loss, backend="torch")
        return
    weight = torch.linspace(-1.0, 2.0, len(batch.lengths), dtype=torch.float64)
    found = []
    for backend in BACKENDS:
        values = batch.loss(objective, loss, backend=backend, reduction="none")
        found.append([values.detach(), *batch.gradients((weight * values).sum())])
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-9, rtol=0)
    assert all(torch.isfinite(g).all() for gradients in found for g in gradients)
    if batch.ties and loss == "zero_one":  # equal maximisers: each is a subgradient, and they may differ
        return
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-9, rtol=0)


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if not isinstance(o, Direct)], ids=name_of)
def test_gradcheck_of_every_objective(objective: Any, loss: str, per_step: bool) -> None:
    for unknown in (False, True):
        batch = Batch(5, per_step=per_step, unknown=unknown)

        def values(u: Any, a: Any, s: Any, e: Any, batch: Batch = batch) -> Any:
            return structured_loss(
                Chain(a, s, e),
                u,
                batch.gold,
                lengths=batch.lengths,
                objective=objective,
                loss=loss,
                reduction="none",
            )

        assert torch.autograd.gradcheck(values, batch.scores)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("objective", [Direct(0.4, "better"), Direct(0.4, "worse")], ids=name_of)
def test_the_direct_gradient_by_enumeration(objective: Direct, loss: str) -> None:
    batch = Batch(3, (4, 2))
    for i in range(2):
        n = int(batch.lengths[i])
        every = Enumeration.of(batch.packed, i)
        gold = batch.gold[i, :n].numpy()
        wrong = (every.labellings != gold).sum(axis=1)
        costs = wrong if loss == "hamming" else np.minimum(wrong, 1)
        sign = -1.0 if objective.sign == "better" else 1.0
        best = every.labellings[np.argmax(every.scores)]
        direct = every.labellings[np.argmax(every.scores + sign * 0.4 * costs)]
        value = batch.loss(objective, loss, reduction="none")[i]
        assert value.item() == costs[np.argmax(every.scores)]
        unary, pairs, _, _ = batch.gradients(value)
        expected, steps = np.zeros((n, 3)), np.zeros((3, 3))
        for y, c in ((direct, sign / 0.4), (best, -sign / 0.4)):
            expected[np.arange(n), y] += c
            for j, k in pairwise(y):
                steps[j, k] += c
        np.testing.assert_allclose(unary[i, :n], expected)
        np.testing.assert_allclose(pairs, steps)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("per_step", [False, True])
def test_second_derivatives(per_step: bool, backend: Any) -> None:
    batch = Batch(7, (3, 1, 2), per_step=per_step)
    where: dict[str, Any] = {"lengths": batch.lengths, "backend": backend}

    def total(u: Any, a: Any, s: Any, e: Any) -> Any:
        return log_partition(Chain(a, s, e), u, **where)

    assert torch.autograd.gradcheck(total, batch.scores)
    assert torch.autograd.gradgradcheck(total, batch.scores)
    for question in (marginals, entropy):
        assert torch.autograd.gradcheck(
            lambda u, a, s, e, q=question: q(Chain(a, s, e), u, **where), batch.scores
        )


@settings(max_examples=25)
@given(batches)
def test_answers_by_enumeration(batch: Batch) -> None:
    found = []
    for backend in BACKENDS:
        where: dict[str, Any] = {"lengths": batch.lengths, "backend": backend}
        chain, u = batch.chain, batch.scores[0]
        h = entropy(chain, u, **where)
        grads = batch.gradients(h.sum())
        assert all(torch.isfinite(g).all() for g in grads)
        found.append(
            (
                log_partition(chain, u, **where).detach(),
                marginals(chain, u, **where).detach(),
                h.detach(),
                decode(chain, u, **where),
                *k_best(chain, u, 3, **where),
                *grads,
            )
        )
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-9, rtol=0)
    log_z, mu, h, best, ranked, tops = found[0][:6]
    for i, n in enumerate(batch.lengths.tolist()):
        every = Enumeration.of(batch.packed, i)
        np.testing.assert_allclose(log_z[i], every.log_partition(), atol=1e-9)
        np.testing.assert_allclose(h[i], every.entropy(), atol=1e-9)
        np.testing.assert_allclose(mu[i, :n], every.marginals().unary, atol=1e-9)
        assert (mu[i, n:] == 0).all()
        assert best[i, :n].tolist() == every.best()[0].tolist()
        assert (best[i, n:] == -1).all()
        labellings, scores = every.k_best(3)
        np.testing.assert_allclose(tops[i, : len(scores)], scores, atol=1e-9)
        assert (tops[i, len(scores) :] == -torch.inf).all()
        assert ranked[: len(scores), i, :n].tolist() == labellings.tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_samples_follow_the_marginals_and_the_seed(backend: Any) -> None:
    batch = Batch(11, (4, 1, 2), holes=True)
    where: dict[str, Any] = {"lengths": batch.lengths, "backend": backend}
    drawn = sample(batch.chain, batch.scores[0], 4000, seed=3, **where)
    again = sample(batch.chain, batch.scores[0], 4000, seed=3, **where)
    assert torch.equal(drawn, again)
    shares = torch.nn.functional.one_hot(drawn.clamp(min=0), 3).double().mean(0)
    expected = marginals(batch.chain, batch.scores[0], **where).detach()
    assert (shares - expected)[batch.mask].abs().max() < 0.03
    assert (drawn[:, ~batch.mask] == -1).all()
    assert sample(batch.chain, batch.scores[0], 0, **where).shape == (0, 3, 4)


@settings(max_examples=25)
@given(batches, st.sampled_from(BACKENDS))
def test_packed_batches_and_masks_are_the_same_batch(batch: Batch, backend: Any) -> None:
    u, a, s, e = batch.scores
    offsets = torch.from_numpy(batch.packed.offsets)
    packed = Chain(a if a.ndim == 2 else a[batch.mask], s, e)
    options: dict[str, Any] = {"objective": "log", "reduction": "none", "backend": backend}
    padded = batch.loss(**options)
    by_mask = structured_loss(batch.chain, u, batch.gold, mask=batch.mask, **options)
    by_offsets = structured_loss(packed, u[batch.mask], batch.gold[batch.mask], offsets=offsets, **options)
    torch.testing.assert_close(padded, by_mask)
    torch.testing.assert_close(padded, by_offsets)
    for ours, theirs in zip(batch.gradients(padded.sum()), batch.gradients(by_offsets.sum()), strict=True):
        torch.testing.assert_close(ours, theirs)
    best = decode(batch.chain, u, lengths=batch.lengths, backend=backend)
    assert torch.equal(decode(packed, u[batch.mask], offsets=offsets, backend=backend), best[batch.mask])


def test_one_sequence_without_a_batch() -> None:
    batch = Batch(2, (4,))
    u, a, s, e = batch.scores
    alone = structured_loss(Chain(a, s, e), u[0], batch.gold[0])
    torch.testing.assert_close(alone, batch.loss("log"))


def test_transitions_by_position() -> None:
    batch = Batch(4, (3, 2))
    steps = torch.randn(3, 3, 3, dtype=torch.float64)
    ours = structured_loss(Chain(steps), batch.scores[0], batch.gold, lengths=batch.lengths)
    theirs = structured_loss(
        Chain(steps.expand(2, 3, 3, 3).clone()), batch.scores[0], batch.gold, lengths=batch.lengths
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=name_of)
def test_precisions(objective: Any, dtype: Any, backend: Any) -> None:
    loss = "zero_one" if objective == "slack" else "hamming"
    low = Batch(9, dtype=dtype)
    high = Batch(9)
    high.scores = tuple(t.detach().double().requires_grad_() for t in low.scores)
    value, exact = (b.loss(objective, loss, reduction="sum", backend=backend) for b in (low, high))
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), exact, atol=1e-4, rtol=1e-5)
    for t, g, h in zip(low.scores, low.gradients(value), high.gradients(exact), strict=True):
        assert g.dtype == t.dtype
        torch.testing.assert_close(g.double(), h, atol=1e-5 if dtype == torch.float32 else 2e-2, rtol=1e-2)
    assert marginals(low.chain, low.scores[0], lengths=low.lengths, backend=backend).dtype == dtype


def test_single_precision_is_read_in_place() -> None:
    """The kernel's array is the tensor's memory."""
    from trellis.neural.chain.chain_functions import kernel_arrays

    for dtype in (torch.float32, torch.float64):
        u = torch.randn(2, 3, 4, dtype=dtype)
        chain = Chain(torch.randn(2, 3, 4, 4, dtype=dtype)).tensors(u)
        rows, pairs, _, _ = kernel_arrays(chain.layout, *chain.tensors)
        assert rows.ctypes.data == u.data_ptr()
        assert pairs.ctypes.data == chain.transitions.data_ptr()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=name_of)
def test_constraints_have_finite_gradients(objective: Any, backend: Any) -> None:
    loss = "zero_one" if objective == "slack" else "hamming"
    labels = LabelSet(["B-x", "I-x", "O"])
    legal = legal_transitions("bio", labels)
    torch.manual_seed(0)
    u = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    a, s = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True), torch.zeros(3, requires_grad=True)
    gold = torch.tensor([[0, 1, 1, 2], [2, 0, 1, 9]])
    chain = Chain(a, s, allowed=legal)
    value = structured_loss(chain, u, gold, lengths=[4, 3], objective=objective, loss=loss, backend=backend)
    value.backward()
    assert all(torch.isfinite(t.grad).all() for t in (u, a, s))
    assert a.grad[2, 1] == 0  # O to I
    assert s.grad[1] == 0
    best = decode(chain, u, lengths=[4, 3], backend=backend).tolist()
    assert all(legal.pair[j, k] for row in best for j, k in pairwise(row) if k >= 0)
    pairs = torch.as_tensor(legal.pair)
    assert torch.isfinite(structured_loss(Chain(a, allowed=pairs), u, gold, lengths=[4, 3], backend=backend))


def test_sets_of_labels_are_the_latent_form() -> None:
    batch = Batch(13, (3, 2))
    allowed = torch.zeros(2, 3, 3, dtype=torch.bool)
    allowed.scatter_(2, batch.gold.unsqueeze(-1), True)
    torch.testing.assert_close(
        structured_loss(batch.chain, batch.scores[0], allowed, lengths=batch.lengths), batch.loss("log")
    )
    allowed[0, 1] = torch.tensor([True, False, True])
    for backend in BACKENDS:
        for objective in OBJECTIVES:
            if objective == "slack":
                continue
            value = structured_loss(
                batch.chain, batch.scores[0], allowed, lengths=batch.lengths, objective=objective,
                backend=backend, reduction="none",
            )  # fmt: skip
            every = Enumeration.of(batch.packed, 0)
            inside = np.array([all(allowed[0, t, y] for t, y in enumerate(row)) for row in every.labellings])
            if objective == "log":
                expected = every.log_partition() - np.log(np.exp(every.scores[inside]).sum())
                assert value[0].item() == pytest.approx(expected)
            elif objective == "perceptron":
                assert value[0].item() == pytest.approx(every.scores.max() - every.scores[inside].max())


def test_losses_as_objects_and_tensors() -> None:
    batch = Batch(17)
    matrix = np.array([[0, 2, 1], [1, 0, 3], [0.5, 1, 0]])
    costs = torch.from_numpy(matrix)[batch.gold]
    for objective in ("margin", "risk", "softmax_margin", Direct(1.0)):
        for backend in BACKENDS:
            by_loss = batch.loss(objective, WeightedHamming(matrix), backend=backend)
            torch.testing.assert_close(by_loss, batch.loss(objective, costs, backend=backend))
    assert not torch.allclose(batch.loss("margin"), batch.loss("margin", costs))


def test_reductions_and_epsilon() -> None:
    batch = Batch(19)
    each = batch.loss("margin", reduction="none")
    torch.testing.assert_close(batch.loss("margin"), each.mean())
    torch.testing.assert_close(batch.loss("margin", reduction="sum"), each.sum())
    by_option = batch.gradients(batch.loss("direct", epsilon=0.3))
    by_object = batch.gradients(batch.loss(Direct(0.3)))
    assert all(torch.equal(a, b) for a, b in zip(by_option, by_object, strict=True))


def test_gradients_reach_what_wants_them() -> None:
    batch = Batch(23)
    u, a, s, e = (t.detach() for t in batch.scores)
    a.requires_grad_()
    for backend in BACKENDS:
        for objective in ("log", "margin", Risk()):
            value = structured_loss(
                Chain(a, s, e), u, batch.gold, lengths=batch.lengths, objective=objective, backend=backend
            )
            (found,) = torch.autograd.grad(value, a)
            torch.testing.assert_close(found, batch.gradients(batch.loss(objective))[1])
        with torch.no_grad():
            assert not structured_loss(Chain(a), u, batch.gold, backend=backend).requires_grad


def test_the_same_numbers_every_time() -> None:
    runs = [Batch(29, (5, 3, 4), n_labels=4) for _ in range(2)]
    for objective in OBJECTIVES:
        values = [b.loss(objective) for b in runs]
        assert torch.equal(*values)
        assert all(
            torch.equal(x, y)
            for x, y in zip(*(b.gradients(v) for b, v in zip(runs, values, strict=True)), strict=True)
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [5, 1]}, "numbers from 0 to 3"),
        ({"lengths": [1.5, 1.0]}, "whole numbers"),
        ({"lengths": [3, 2], "mask": torch.ones(2, 3)}, "only one"),
        ({"offsets": [0, 3]}, "offsets are for packed"),
        ({"mask": torch.ones(2, 4)}, "the mask has shape"),
        ({"gold": torch.full((2, 3), 7)}, "step 0 of sequence 0 is 7"),
        ({"gold": torch.zeros(2, 2, dtype=torch.int64)}, "must be \\(2, 3\\)"),
        ({"gold": torch.zeros(2, 3)}, "whole numbers"),
        ({"gold": torch.zeros(2, 3, 3, dtype=torch.bool)}, "allows no label"),
        ({"scores": torch.full((2, 3, 3), torch.nan)}, "contain nan at"),
        ({"scores": torch.zeros(3)}, "batch, time, labels"),
        ({"structure": Chain(torch.zeros(2, 2))}, "transition scores have shape"),
        ({"structure": Chain(torch.zeros(3, 3), torch.zeros(2))}, "start and end"),
        ({"structure": Chain(torch.zeros(3, 3), allowed=torch.ones(3))}, "allowed must be booleans"),
        ({"objective": "nonsense"}, "is not known"),
        ({"objective": "direct", "epsilon": -1.0}, "must be positive"),
        ({"objective": "margin", "loss": "span_f1"}, "not a sum over steps"),
        ({"reduction": "median"}, "reduction="),
        ({"backend": "cuda"}, "backend="),
    ],
)  # fmt: skip
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {
        "structure": Chain(torch.zeros(3, 3)), "scores": torch.zeros(2, 3, 3),
        "gold": torch.zeros(2, 3, dtype=torch.int64), **change,
    }  # fmt: skip
    with pytest.raises((DataError, UnsupportedError), match=message):
        structured_loss(call.pop("structure"), call.pop("scores"), call.pop("gold"), **call)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_allowed_labelling(backend: Any) -> None:
    u = torch.zeros(2, 3, 2)
    u[1, 1] = -torch.inf
    gold = torch.zeros(2, 3, dtype=torch.int64)
    for objective in OBJECTIVES:
        with pytest.raises(InfeasibleError, match="1 has no allowed"):
            structured_loss(
                Chain(torch.zeros(2, 2)), u, gold, objective=objective, loss="zero_one", backend=backend
            )
    for question in (decode, log_partition, marginals, entropy, sample):
        with pytest.raises(InfeasibleError, match="1 has no allowed"):
            question(Chain(torch.zeros(2, 2)), u, backend=backend)
    with pytest.raises(InfeasibleError, match="1 has no allowed"):
        k_best(Chain(torch.zeros(2, 2)), u, 2, backend=backend)


def test_without_pytorch_the_message_names_the_extra() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport trellis.neural"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError" in done.stderr
    assert "pip install 'trellis-learn[torch]'" in done.stderr


# -- odd batches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_stands_in_the_padding_does_not_matter(backend: Any) -> None:
    """Attention over nothing gives NaN there: neither values nor gradients see it."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    transitions = torch.randn(2, 4, 3, 3, generator=generator, dtype=torch.float64)
    lengths, gold = torch.tensor([4, 2]), torch.zeros(2, 4, dtype=torch.int64)

    def answers(padding: float) -> list[torch.Tensor]:
        found = []
        for by_step in (False, True):
            x = scores.clone()
            x[1, 2:] = padding
            a = transitions.clone() if by_step else transitions[0, 0].clone()
            if by_step:
                a[1, 2:] = padding
            chain = Chain(a.requires_grad_())
            x.requires_grad_()
            where = {"lengths": lengths, "backend": backend}
            for objective in ("margin", "log", "risk"):
                value = structured_loss(chain, x, gold, objective=objective, **where)
                found += [value, *torch.autograd.grad(value, (x, a))]
            total = entropy(chain, x, **where).sum() + log_partition(chain, x, **where).sum()
            found += [total, *torch.autograd.grad(total, (x, a)), marginals(chain, x, **where)]
        return found

    for plain, strange in zip(answers(0.0), answers(torch.nan), strict=True):
        torch.testing.assert_close(plain, strange, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("unit", [2.0**996, 2.0**-1022, 2.0**-1074])
@pytest.mark.parametrize("length", [1, 4])
def test_scores_at_the_ends_of_the_range(unit: float, length: int, backend: Any) -> None:
    """Multiples of 7e299, of the smallest normal number and of a subnormal one: their sums are exact."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        u, a, start, end = (unit * rng.integers(-2, 3, shape) for shape in ((length, 3), (3, 3), (3,), (3,)))
        u[rng.random(u.shape) < 0.2] = -np.inf
        u[:, 0] = unit
        every = Enumeration.of(ChainScores.of(u, a, start, end))
        tensors = [torch.from_numpy(part).requires_grad_() for part in (u[None], a, start, end)]
        chain, gold = Chain(*tensors[1:]), torch.zeros((1, length), dtype=torch.int64)
        assert decode(chain, tensors[0], backend=backend)[0].tolist() == every.best()[0].tolist()
        _, values = k_best(chain, tensors[0], 3, backend=backend)
        np.testing.assert_allclose(
            values[0].numpy()[: len(every.k_best(3)[1])], every.k_best(3)[1], rtol=1e-12
        )
        p = marginals(chain, tensors[0], backend=backend)[0].detach().numpy()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        if unit < 1 or np.sum(every.scores == every.scores.max()) == 1:
            np.testing.assert_allclose(p, every.marginals().unary, atol=1e-9)
        for objective in ("perceptron", "margin", "log", "ramp", "risk"):
            value = structured_loss(chain, tensors[0], gold, objective=objective, backend=backend)
            gradients = torch.autograd.grad(value, tensors, allow_unused=True)
            assert torch.isfinite(value)
            assert all(g is None or torch.isfinite(g).all() for g in gradients)
        log_loss = structured_loss(chain, tensors[0], gold, backend=backend).item()
        expected = every.log_partition() - every.scores[0]
        np.testing.assert_allclose(log_loss, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_of_no_examples_has_no_mean(backend: Any) -> None:
    scores, gold = torch.zeros(0, 4, 3, requires_grad=True), torch.zeros(0, 4, dtype=torch.int64)
    chain = Chain(torch.zeros(3, 3))
    with pytest.raises(DataError, match="no examples"):
        structured_loss(chain, scores, gold, backend=backend)
    assert structured_loss(chain, scores, gold, reduction="sum", backend=backend).item() == 0.0
    assert structured_loss(chain, scores, gold, reduction="none", backend=backend).shape == (0,)
    assert decode(chain, scores, backend=backend).shape == (0, 4)
    assert marginals(chain, scores, backend=backend).shape == (0, 4, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_without_steps(backend: Any) -> None:
    scores, empty = torch.zeros(0, 3, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    chain = Chain(torch.zeros(3, 3, requires_grad=True))
    where = {"offsets": [0, 0, 0], "backend": backend}
    for objective in ("perceptron", "margin", "log", "ramp", Direct(0.5)):
        for loss in LOSSES:
            value = structured_loss(chain, scores, empty, objective=objective, loss=loss, **where)
            value.backward()
            assert value.item() == 0.0
    assert entropy(chain, scores, **where).tolist() == [0.0, 0.0]
    assert marginals(chain, scores, **where).shape == (0, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_step_and_an_empty_sequence_with_a_transition_for_each_step(backend: Any) -> None:
    scores = torch.tensor([[0.0, 1.0]], requires_grad=True)
    pairs = torch.zeros(1, 2, 2, requires_grad=True)
    where = {"lengths": [0, 1], "backend": backend}
    value = structured_loss(Chain(pairs), scores, torch.tensor([0]), reduction="sum", **where)
    value.backward()
    assert value.item() == pytest.approx(np.log(1 + np.e), abs=1e-6)
    assert pairs.grad is not None
    assert not pairs.grad.any()
    assert decode(Chain(pairs), scores, **where).tolist() == [1]
    assert marginals(Chain(pairs), scores, **where).tolist()[0][1] == pytest.approx(np.e / (1 + np.e))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sequence_without_labellings_has_no_risk(backend: Any) -> None:
    scores = torch.zeros(2, 1, 2)
    scores[1] = -torch.inf
    with pytest.raises(InfeasibleError):
        structured_loss(
            Chain(torch.zeros(2, 2)), scores, torch.zeros(2, 1, dtype=torch.int64), objective="risk",
            backend=backend,
        )  # fmt: skip


def test_second_derivatives_of_an_objective() -> None:
    """Right, or refused: the gradient of a gradient is never silently 0."""
    scores = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    chain, gold = Chain(torch.zeros(2, 2, dtype=torch.float64)), torch.tensor([[0, 1, 0]])
    for objective in ("log", "softmax_margin", "risk"):
        value = structured_loss(chain, scores, gold, objective=objective)
        with pytest.raises(UnsupportedError, match="backend='torch'"):
            torch.autograd.grad(value, scores, create_graph=True)
        assert torch.autograd.gradgradcheck(
            lambda s, objective=objective: structured_loss(
                chain, s, gold, objective=objective, backend="torch"
            ),
            scores,
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_without_gradients_keep_no_graph(backend: Any) -> None:
    scores = torch.randn(1, 3, 2, requires_grad=True)
    with torch.no_grad():
        assert not marginals(Chain(torch.zeros(2, 2)), scores, backend=backend).requires_grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda x, a, b: decode(Chain(a), x.to(torch.int64), backend=b), "unary scores are torch.int64"),
        (lambda x, a, b: decode(Chain(a), x.tolist(), backend=b), "unary scores are of type list"),
        (lambda x, a, b: decode(Chain(a.numpy()), x, backend=b), "transition scores are of type ndarray"),
        (
            lambda x, a, b: decode(Chain(a), x * torch.nan, backend=b),
            r"unary scores contain nan at \(0, 0, 0\)",
        ),
        (lambda x, a, b: marginals(Chain(a + torch.inf), x, backend=b), "transition scores contain inf"),
        (lambda x, a, b: sample(Chain(a), x, 1, seed=-1, backend=b), "seed is -1"),
        (lambda x, a, b: decode([Chain(a)], x, backend=b), "structure is of type list"),
        (lambda x, a, b: structured_loss("chain", x, x, backend=b), "structure is of type str"),
    ],
)
def test_what_is_no_score_is_refused(ask: Any, words: str, backend: Any) -> None:
    with pytest.raises(DataError, match=words):
        ask(torch.zeros(1, 3, 2), torch.zeros(2, 2), backend)


def test_kernels_differentiate_marginals_once() -> None:
    scores = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    for ask in (marginals, entropy):
        value = ask(Chain(torch.zeros(2, 2)), scores).square().sum()
        with pytest.raises(UnsupportedError, match="backend='torch'"):
            torch.autograd.grad(value, scores, create_graph=True)


def test_the_options_of_a_batch_are_documented() -> None:
    parameters = inspect.signature(Chain._bound).parameters.values()
    names = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert names == set(BatchOptions.__annotations__)
    assert all(f"\n    {name} : " in str(BatchOptions.__doc__) for name in names)


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(TypeError, match="'length'"):
        decode(Chain(torch.zeros(2, 2)), torch.zeros(1, 3, 2), length=[1])
