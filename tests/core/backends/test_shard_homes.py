"""Who has which shards, and how the sums of their shares become the sum that threads make."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.backends.shard_homes import evened, first_homes, shares
from trellis.core.backends.shard_sums import fixed_order_sum
from trellis.core.backends.worker_tasks import SHARD, Packed, joined, packed_sum, share_answered

HOMES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=30)
WORKERS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 4), min_size=1)


@given(HOMES, WORKERS)
def test_shards_are_even_again_with_few_moves(homes, workers):
    found = evened(homes, workers)
    load = {address: found.count(address) for address in workers}
    assert sum(load.values()) == len(homes)
    fullest = max(load[one] / workers[one] for one in workers)
    assert fullest <= min((load[one] + 1) / workers[one] for one in workers)
    assert evened(found, workers) == found


@given(HOMES, WORKERS, st.sets(st.sampled_from("abcdef")))
def test_shares_hold_every_shard_once_at_its_home(homes, workers, single):
    found = shares(homes, workers, single)
    assert sorted(i for one in found for i in one.numbers) == list(range(len(homes)))
    assert found == sorted(found, key=lambda one: one.numbers[0])
    for home, numbers in found:
        assert numbers == sorted(numbers)
        assert {homes[i] for i in numbers} == {home}
        assert home not in single or len(numbers) == 1
    for home in set(homes) - single:
        sizes = [len(one.numbers) for one in found if one.home == home]
        assert len(sizes) <= workers.get(home, 1)
        assert max(sizes) - min(sizes) <= 1


def scaled(state: float, factor: float) -> tuple[int, np.ndarray]:
    return 1, np.array([state * factor, factor / state])


@given(
    st.integers(1, 40),
    WORKERS,
    st.randoms(use_true_random=False),
    st.booleans(),
    st.sets(st.sampled_from("abcd")),
)
def test_sums_of_shares_are_those_of_threads_to_the_last_bit(n, workers, order: random.Random, moved, single):
    """Wherever the shards are, whoever is joined with whom."""
    states = [float(10 ** order.uniform(-8, 8)) for _ in range(n)]
    homes = first_homes(n, workers)
    if moved:
        order.shuffle(homes)
    question = Packed.of((scaled, (3.0,)))
    waiting = [
        share_answered([states[i] for i in one.numbers], one.numbers, n, question)
        for one in shares(homes, workers, single)
    ]
    while len(waiting) > 2:
        order.shuffle(waiting)
        before = pickle.dumps(waiting[:2])
        both = joined(n, *waiting[:2])
        assert pickle.dumps(waiting[:2]) == before  # they may be needed again
        waiting = [*waiting[2:], both]
    count, total = packed_sum(n, *waiting).value()
    assert count == n
    np.testing.assert_array_equal(total, fixed_order_sum([scaled(state, 3.0) for state in states])[1])


@pytest.mark.parametrize("n_workers", [1, 2, 4, 8])
@given(n=st.integers(8, 100))
def test_one_sum_leaves_each_of_2_4_8_workers(n_workers, n):
    workers = {f"worker {i}": 1 for i in range(n_workers)}
    assert max(first_homes(n, workers).count(one) for one in workers) == -(-n // n_workers)
    question = Packed.of((scaled, (1.0,)))
    for _, numbers in shares(first_homes(n, workers), workers):
        assert len(share_answered([1.0] * len(numbers), numbers, n, question)) == 1


def test_the_shard_of_an_error_is_known():
    with pytest.raises(ZeroDivisionError) as caught:
        share_answered([1.0, 0.0], [3, 7], 9, Packed.of((divided, ())))
    assert getattr(caught.value, SHARD) == 7


def divided(state: float) -> float:
    return 1.0 / state


@pytest.mark.parametrize("offset", [0, 1, 8, 16])
def test_arrays_lie_where_numbers_may_lie(offset):
    """As they come over the line: somewhere within a message."""
    packed = Packed.of(np.arange(100.0))
    room = np.zeros(packed.buffers[0].nbytes + 64, dtype=np.uint8)
    first = -room.ctypes.data % 16 + offset
    moved = room[first : first + packed.buffers[0].nbytes]
    moved[:] = packed.buffers[0]
    found = Packed(packed.head, [moved]).value()
    assert found.ctypes.data % 16 == 0
    assert found.flags.writeable
    np.testing.assert_array_equal(found, np.arange(100.0))
