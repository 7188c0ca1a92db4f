"""Shards on a real cluster of two processes: the numbers of threads, to the last bit, and faults in words.

Faults that take longer to happen are in test_cluster_faults.py (make test-cluster).
"""

from __future__ import annotations

import copy
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import distributed
import numpy as np
import pytest

import shard_questions as sq
import trellis
from small_cluster import free_port
from trellis.core.backends import as_backend, config_context, dask_backend, worker_preload
from trellis.core.backends.dask_backend import DaskBackend
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.backends.worker_tasks import Packed
from trellis.core.errors import ClusterError, DataError


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskBackend]:
    backend = DaskBackend("processes:2")
    yield backend
    backend.close()


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12])
def test_sums_and_answers_are_those_of_threads_to_the_last_bit(cluster, n):
    factor = np.random.default_rng(n).normal(size=sq.SIZE)
    here, there = LocalBackend(1).place(sq.make, range(n)), cluster.place(sq.make, range(n))
    for a, b in ((here, there), (here.change(sq.doubled), there.change(sq.doubled))):
        expected, found = a.total(sq.weighted, factor), b.total(sq.weighted, factor)
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])
        for (i, x), (j, y) in zip(a.ask(sq.weighted, 3.0), b.ask(sq.weighted, 3.0), strict=True):
            assert i == j
            np.testing.assert_array_equal(x, y)
    own = [np.random.default_rng(i).normal(size=10 + i) for i in range(n)]
    assert here.ask_each(sq.with_own, own, 2.0) == there.ask_each(sq.with_own, own, 2.0)
    a, b = (p.change_each(sq.shifted, range(n), 5.0).total(sq.weighted, 1.0)[1] for p in (here, there))
    np.testing.assert_array_equal(a, b)
    there.release()


def test_shards_are_spread_in_runs_and_stay_where_they_are(cluster):
    placed = cluster.place(sq.make, range(6))
    where = placed.ask(sq.process)
    assert all(writeable for _, writeable in where)
    processes = [process for process, _ in where]
    assert len(set(processes)) == 2
    assert processes == sorted(processes, key=processes.index)
    assert processes.count(processes[0]) == 3
    assert [process for process, _ in placed.change(sq.doubled).ask(sq.process)] == processes


def test_data_travel_once_and_only_sums_come_back(cluster):
    data = [np.random.default_rng(i).normal(size=100_000) for i in range(4)]
    before = cluster.traffic.bytes_out
    placed = cluster.place(sq.make_from_data, data)
    sent = cluster.traffic.bytes_out - before
    assert 4 * 800_000 < sent < 4 * 801_000
    assert all(writeable for _, writeable in placed.ask(sq.process))
    for _ in range(2):
        out, back = cluster.traffic.bytes_out, cluster.traffic.bytes_back
        placed.total(sq.weighted, 1.0)
        assert cluster.traffic.bytes_out - out < 1000
        assert 800_000 < cluster.traffic.bytes_back - back < 801_000
    assert "questions in" in str(cluster.traffic)


def test_worker_processes_are_not_profiled(cluster):
    names = cluster._connection.client.run(lambda dask_worker: sorted(dask_worker.periodic_callbacks))
    assert len(names) == 2
    for callbacks in names.values():
        assert "heartbeat" in callbacks
        assert not set(worker_preload.LOOKS) & set(callbacks)


def test_progress_is_told(cluster):
    told = []
    placed = cluster.place(sq.make, range(5))
    placed.total(sq.slowly_weighted, 1.0, 0.01, told=lambda done, n: told.append((done, n)))
    assert told[-1] == (5, 5)
    assert told == sorted(told)
    told.clear()
    placed.ask(sq.weighted, 1.0, told=lambda done, n: told.append((done, n)))
    assert told[-1] == (5, 5)


def test_nothing_is_left_on_workers(cluster):
    client = cluster._connection.client
    placed = cluster.place(sq.make, range(5))
    placed.total(sq.weighted, np.ones(sq.SIZE))
    changed = placed.change(sq.doubled)
    placed.release()
    changed.ask(sq.weighted, np.ones(sq.SIZE))
    changed.release()
    del placed, changed
    for _ in range(50):
        if not any(client.has_what().values()):
            break
        time.sleep(0.1)
    assert not any(client.has_what().values())


def test_errors_of_data_name_their_shard(cluster, tmp_path):
    good, bad, missing = (str(tmp_path / name) for name in ("good", "bad", "missing"))
    Path(good).write_text("fine")
    Path(bad).write_text("damaged")
    with pytest.raises(DataError, match=r"bad \(shard 2 of 3\): line 3 is damaged"):
        cluster.place(sq.read_text, [good, bad, good])
    with pytest.raises(DataError, match=r"missing \(shard 3 of 3\): .*No such file .* same path"):
        cluster.place(sq.read_text, [good, good, missing])
    placed = cluster.place(sq.make, range(3))
    with pytest.raises(DataError, match=r"shard [1-3] of 3: .*No space left on device.* free space"):
        placed.change(sq.no_room)


def test_other_errors_come_with_the_traceback_of_the_worker(cluster):
    placed = cluster.place(sq.make, range(3))
    with pytest.raises(ZeroDivisionError) as caught:
        placed.total(sq.divides, 0)
    assert re.match(r"in shard [1-3] of 3, on a worker of tcp", caught.value.__notes__[0])
    frames = [entry.name for entry in caught.traceback]
    assert frames[-1] == "divides"
    assert placed.total(sq.divides, 1) == 3  # nothing is broken by it


def test_a_worker_killed_in_the_middle_of_a_question_costs_nothing_but_time(cluster, tmp_path):
    data = [np.random.default_rng(i).normal(size=20_000) for i in range(6)]
    expected = LocalBackend(1).place(sq.make_from_data, data).change(sq.doubled).total(sq.weighted, 3.0)
    placed = cluster.place(sq.make_from_data, data).change(sq.doubled)
    victim = placed.ask(sq.weighted, 1.0)[4][0]
    found = placed.total(sq.dies_once, 3.0, str(tmp_path / "flag"), victim)
    assert (tmp_path / "flag").exists()
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])
    assert cluster.traffic.remade > 0  # their sources were data
    cluster._connection.client.wait_for_workers(2, timeout=20)
    np.testing.assert_array_equal(placed.total(sq.weighted, 3.0)[1], expected[1])
    processes = [process for process, _ in placed.ask(sq.process)]
    assert sorted(processes.count(one) for one in set(processes)) == [3, 3]  # the new worker has its share


def test_clients_and_clusters_are_taken_as_they_are(cluster):
    client = cluster._connection.client
    for place in (client, cluster._cluster, client.scheduler.address):
        backend = as_backend(place)
        assert backend.n_workers == 2
        assert backend.place(sq.make, range(2)).total(sq.weighted, 1.0)[0] == 1
        backend.close()
        assert client.status == "running"
    with config_context(backend=cluster):
        assert as_backend(None) is cluster
    assert copy.deepcopy(cluster) is cluster  # estimators are cloned with their backend
    address = client.scheduler.address
    again = as_backend(address)
    assert as_backend(address) is again  # opened once
    again.close()


def test_versions_must_agree(cluster, monkeypatch):
    there = trellis.__version__
    monkeypatch.setattr(trellis, "__version__", "9.9")
    with pytest.raises(
        ClusterError, match=rf"worker tcp://\S+ runs Trellis {there}, this process 9.9; .* same"
    ):
        DaskBackend(cluster._connection.client)


def test_an_address_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setattr(dask_backend, "ANSWER", 0.5)
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(ClusterError, match=rf"no Dask scheduler answers at {address} within"):
        as_backend(address)
    for wrong in ("processes:0", "processes:many", "processesX"):
        with pytest.raises(DataError, match="backend is"):
            DaskBackend(wrong)


def test_without_dask_the_extra_is_named():
    code = (
        "import sys; sys.modules['distributed'] = None; from trellis.core.backends import as_backend; "
        "as_backend('processes')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtraError" in done.stderr
    assert "pip install 'trellis-learn[cluster]'" in done.stderr


def test_packed_values_know_their_size():
    packed = Packed.of((np.ones(1000), "x"))
    assert 8000 < packed.nbytes < 8300
    np.testing.assert_array_equal(packed.value()[0], np.ones(1000))


def test_scheduler_without_workers_is_said_so():
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50) as empty,
        pytest.raises(ClusterError, match=r"has no worker; start some with: dask worker .*waited 1 s"),
    ):
        DaskBackend(empty, patience=1.0)
