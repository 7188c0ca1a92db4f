"""Shards on threads: the same numbers in memory and on disk, in any order of arrival."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_disk import small_disk
from trellis.core.backends import as_backend, config_context
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.backends.memory_sizes import memory_limit
from trellis.core.backends.shard_sums import FixedOrderSum, add, fixed_order_sum, split
from trellis.core.errors import DataError


def tree(answers):
    """The sum by its definition: the first half, with the one in the middle, and the second half."""
    if len(answers) == 1:
        return answers[0]
    middle = len(answers) // 2 + len(answers) % 2
    return tree(answers[:middle]) + tree(answers[middle:])


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_order_of_a_sum_does_not_depend_on_who_comes_first(n, order: random.Random):
    values = [float(10 ** order.uniform(-8, 8)) for _ in range(n)]
    arrival = list(range(n))
    order.shuffle(arrival)
    adding = FixedOrderSum(n)
    for i in arrival:
        adding.put(i, values[i])
    assert adding.total() == tree(values) == fixed_order_sum(values)


def test_split_is_half_and_the_one_in_the_middle():
    assert [split(n) for n in range(2, 10)] == [1, 2, 2, 3, 3, 4, 4, 5]


def test_sums_go_into_tuples_mappings_and_missing_parts():
    a, b = (1.0, {"x": np.ones(2)}, None), (2.0, {"y": np.ones(1)}, 3)
    value, table, last = add(a, b)
    assert value == 3.0
    assert set(table) == {"x", "y"}
    assert last == 3


def make(seed):
    return {"values": np.random.default_rng(seed).normal(size=1000), "seed": seed}


def weighted(state, factor):
    return state["seed"], factor * state["values"]


def doubled(state):
    return {**state, "values": 2.0 * state["values"]}


def shifted(state, own, factor):
    return {**state, "values": factor * state["values"] + own}


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("max_memory", [1, None])  # all states on disk; all in memory
def test_states_answer_the_same_from_memory_and_from_disk(n_jobs, max_memory, tmp_path):
    backend = LocalBackend(n_jobs, max_memory, tmp_path)
    placed = backend.place(make, range(7))
    expected = fixed_order_sum([weighted(make(seed), 3.0) for seed in range(7)])
    n, total = placed.total(weighted, 3.0)
    assert n == expected[0]
    np.testing.assert_array_equal(total, expected[1])
    assert [seed for seed, _ in placed.ask(weighted, 1.0)] == list(range(7))
    changed = placed.change(doubled).change_each(shifted, np.arange(7.0), 5.0)
    np.testing.assert_array_equal(changed.ask(weighted, 1.0)[4][1], 10.0 * make(4)["values"] + 4.0)
    assert bool(list(tmp_path.iterdir())) == (max_memory == 1)
    placed.release()
    changed.release()
    del changed
    assert not list(tmp_path.iterdir())


def test_arrays_from_disk_can_be_written_without_changing_the_file(tmp_path):
    placed = LocalBackend(1, 1, tmp_path).place(make, [0])
    first = placed.ask(doubling_in_place)[0]
    np.testing.assert_array_equal(first, placed.ask(doubling_in_place)[0])


def doubling_in_place(state):
    state["values"] *= 2.0
    return state["values"].copy()


def fails(seed):
    if seed == 3:
        raise DataError("shard 3 cannot be read")
    return make(seed)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_of_one_shard_ends_the_work_and_leaves_no_files(n_jobs, tmp_path):
    with pytest.raises(DataError, match="shard 3"):
        LocalBackend(n_jobs, 1, tmp_path).place(fails, range(6))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_full_disk_is_one_sentence_and_leaves_room_again(n_jobs, tmp_path):
    """Seven states of 8 kB, and a disk for three."""
    with small_disk(tmp_path / "disk", 7 * 4096) as disk:
        with pytest.raises(
            DataError, match=r"cannot be stored there: .*No space left on device; free some space"
        ):
            LocalBackend(n_jobs, 1, disk).place(make, range(7))
        assert not list(disk.iterdir())
        placed = LocalBackend(n_jobs, 1, disk).place(make, range(2))
        np.testing.assert_array_equal(placed.ask(weighted, 1.0)[1][1], make(1)["values"])


def test_backends_by_name_and_by_context():
    assert as_backend(None) is None
    with config_context(backend="threads"):
        assert as_backend(None, 2).name == "2 threads"
    own = LocalBackend(1)
    assert as_backend(own) is own
    with pytest.raises(DataError, match="backend is 'hreads'"):
        as_backend("hreads")


@pytest.mark.parametrize(
    ("given", "bytes_"), [("500MB", 5e8), ("2 GiB", 2**31), (1000, 1000), ("1.5g", 1.5e9)]
)
def test_sizes_of_memory(given, bytes_):
    assert memory_limit(given) == bytes_


@pytest.mark.parametrize("given", ["much", "-1GB", 0, True, "1.2.3MB"])
def test_sizes_that_are_none(given):
    with pytest.raises(DataError, match="max_memory"):
        memory_limit(given)
