"""The simulation of clusters: what must hold of it whatever the costs are."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.core.backends.dask_backend import DaskBackend

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKOUT / "benchmarks"))
        return importlib.import_module("_cluster_simulation")


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Any]:
    backend = DaskBackend("processes:2")
    yield backend
    backend.close()


def free(simulation: ModuleType) -> object:
    """Nothing costs anything but work."""
    return simulation.Costs(1e-6, 0.0, 0.0, 0.0, float("inf"), 0.0, 0.0, 0.0)


@settings(deadline=None)
@given(shards=st.integers(1, 300), workers=st.integers(1, 400))
def test_where_only_work_costs_the_fullest_worker_counts(simulation, shards, workers):
    job = simulation.Job(shards * 1000.0, 10, 1000.0)
    found = simulation.iteration(free(simulation), job, workers)
    used = min(workers, shards)
    assert found.seconds == pytest.approx(-(-shards // used) * 1000 * 1e-6)
    assert found.efficiency == pytest.approx(shards / (workers * -(-shards // used)))


NUMBERS = {
    "token": st.floats(1e-8, 1e-5),
    "overhead": st.floats(0, 0.1),
    "spread": st.floats(0, 0.5),
    "latency": st.floats(0, 1e-2),
    "bandwidth": st.floats(1e7, 1e11),
    "add": st.floats(0, 1e-8),
    "task": st.floats(0, 1e-2),
}


@settings(deadline=None)
@given(numbers=st.fixed_dictionaries(NUMBERS), power=st.integers(0, 10))
def test_no_worker_works_more_than_all_its_time_and_costs_only_add(simulation, numbers, power):
    costs, job = simulation.Costs(**numbers, step=1e-9), simulation.Job(1e7, 100_000)
    found = simulation.iteration(costs, job, 2**power)
    assert 0 < found.efficiency <= 1 + 1e-9
    for name in ("latency", "add", "task", "step"):
        dearer = replace(costs, **{name: 2 * getattr(costs, name) + 1e-6})
        assert simulation.iteration(dearer, job, 2**power).seconds >= found.seconds
    for easier in (replace(job, local_steps=4), replace(job, compression=8.0)):
        assert simulation.iteration(costs, easier, 2**power).seconds <= found.seconds + 1e-12


def test_it_stops_paying_where_the_scheduler_is_the_limit(simulation):
    costs = replace(free(simulation), task=1e-3)
    job = simulation.Job(1e8, 1000, 1e5, held=0.0)  # 1,000 shards of 0.1 s, on disk: 2 s of the scheduler
    assert simulation.pays_until(costs, job, 1024) == 64  # at 64 workers 1.6 s of work each; at 128 the 2 s
    assert simulation.pays_until(costs, replace(job, shard_tokens=1e6), 1024) > 64
    held = replace(job, held=1e8)  # in memory, a task for each worker: 0.5 s for 256, 0.4 s of work each
    assert simulation.pays_until(costs, held, 1024) == 256


@pytest.mark.parametrize(("shards", "fits"), [(1, True), (7, True), (40, True), (7, False)])
def test_tasks_are_those_of_a_cluster_of_two(simulation, two_workers, monkeypatch, shards, fits):
    placed = two_workers.place(int, range(shards))
    connection = two_workers._connection
    full = set() if fits else set(connection.workers())
    monkeypatch.setattr(connection, "full_workers", lambda: full)
    submitted = []
    submit = connection.client.submit
    monkeypatch.setattr(connection.client, "submit", lambda *a, **k: submitted.append(a) or submit(*a, **k))
    assert placed.total(int) == sum(range(shards))
    job = simulation.Job(1000.0 * shards, 10, 1000.0, held=1e9 if fits else 0.0)
    assert len(submitted) == simulation.tasks(job, 2)


def test_many_shards_are_as_few_are(simulation):
    """Drawn one by one and by the central limit theorem: the same to a few per cent."""
    costs = replace(free(simulation), spread=0.3)
    few = simulation.iteration(costs, simulation.Job(1e5 * 1000.0, 10, 1000.0), 16).seconds
    many = simulation.iteration(costs, simulation.Job((1e5 + 16) * 1000.0, 10, 1000.0), 16).seconds
    assert many == pytest.approx(few, rel=0.02)
