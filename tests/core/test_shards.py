"""Work shared out over threads: order, nesting, errors, and a forked process."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.shards import over_shards, shard_bounds
from trellis.data.sequences import offsets_from_lengths

OFFSETS = np.arange(0, 101, 5)


def runs(n_jobs: int) -> list[tuple[int, int]]:
    return over_shards(lambda first, last: (first, last), OFFSETS, n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7, 50])
def test_runs_come_back_in_order_and_cover_everything(n_jobs: int) -> None:
    bounds = runs(n_jobs)
    assert [first for first, _ in bounds] == [0] + [last for _, last in bounds[:-1]]
    assert bounds[-1][1] == 20
    assert len(bounds) == min(n_jobs, 20)


def test_shards_run_at_the_same_time() -> None:
    meet = threading.Barrier(3, timeout=60)
    over_shards(lambda first, last: meet.wait(), OFFSETS, 3)  # a shard that waited its turn would time out


def test_nested_work_runs_on_its_own_thread() -> None:
    def inner(first: int, last: int) -> str:
        return threading.current_thread().name

    def outer(first: int, last: int) -> tuple[str, set[str]]:
        return threading.current_thread().name, set(over_shards(inner, OFFSETS, 2))

    (_, _), (name, inside) = over_shards(outer, OFFSETS, 2)
    assert inside == {name}


def test_an_error_in_any_shard_is_raised_and_the_pool_lives_on() -> None:
    def fails(at: int) -> None:
        def work(first: int, last: int) -> None:
            if first <= at < last:
                raise ValueError(f"at {at}")

        with pytest.raises(ValueError, match=f"at {at}"):
            over_shards(work, OFFSETS, 4)

    fails(0)
    fails(19)
    assert len(runs(4)) == 4


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    expected = runs(2)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(runs, (2,)).get(timeout=120) == expected


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(1, 6))
def test_shards_cover_every_sequence_once(sizes: list[int], n_shards: int) -> None:
    bounds = shard_bounds(offsets_from_lengths(sizes), n_shards)
    assert len(bounds) <= n_shards
    assert [i for first, last in bounds for i in range(first, last)] == list(range(len(sizes)))
    assert all(first < last for first, last in bounds)


def test_shards_balance_steps_not_sequences() -> None:
    offsets = offsets_from_lengths([100] + [1] * 100)
    assert shard_bounds(offsets, 2) == [(0, 1), (1, 101)]
