"""What users see when something breaks under a job on a cluster: each fault happens (make test-cluster)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import distributed
import numpy as np
import psutil
import pytest

import shard_questions as sq
from small_cluster import SOURCES, SUPPORT, Line, SmallCluster, after, free_port, small_cluster
from small_disk import small_disk
from trellis.core.backends import dask_connection
from trellis.core.backends.dask_backend import DaskBackend
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import ClusterError, DataError

pytestmark = pytest.mark.cluster
N = 6
FACTOR = np.random.default_rng(0).normal(size=sq.SIZE)


@pytest.fixture
def cluster() -> Iterator[SmallCluster]:
    with small_cluster() as found:
        yield found


def opened(address: str, workers: int = 2, **options: float) -> DaskBackend:
    backend = DaskBackend(address, **options)
    backend._connection.client.wait_for_workers(workers, timeout=30)
    return backend


def expected() -> np.ndarray:
    return LocalBackend(1).place(sq.make, range(N)).change(sq.doubled).total(sq.weighted, FACTOR)[1]


def worker_process(nanny: subprocess.Popen[bytes]) -> psutil.Process:
    """The process that works; its nanny starts it again when it dies."""
    return max(psutil.Process(nanny.pid).children(), key=lambda child: child.memory_info().rss)


def test_killed_workers_are_replaced_and_no_number_changes(cluster):
    backend = opened(cluster.address)
    placed = backend.place(sq.make, range(N)).change(sq.doubled)
    for nanny in cluster.workers:
        killing = after(0.5, worker_process(nanny).kill)
        found = placed.total(sq.slowly_weighted, FACTOR, 0.5)
        killing.join()
        np.testing.assert_array_equal(found[1], expected())
    backend.close()


def test_all_workers_killed_at_once_are_waited_for(cluster):
    backend = opened(cluster.address)
    placed = backend.place(sq.make, range(N)).change(sq.doubled)
    killing = after(0.5, *(worker_process(nanny).kill for nanny in cluster.workers))
    found = placed.total(sq.slowly_weighted, FACTOR, 0.5)
    killing.join()
    np.testing.assert_array_equal(found[1], expected())
    backend.close()


def test_a_slow_worker_is_waited_for_and_nothing_is_done_twice(cluster, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(dask_connection, "TELL", 2.0)
    backend = opened(cluster.address)
    placed = backend.place(sq.make, range(2))
    worker = worker_process(cluster.workers[0])
    worker.suspend()
    waking = after(6.0, worker.resume)
    started = time.monotonic()
    assert placed.total(sq.counted, str(tmp_path), 0.1) == 2
    waking.join()
    assert time.monotonic() - started > 5.0
    assert len(list(tmp_path.iterdir())) == 2
    assert backend.traffic.repeats == 0
    assert "at work on" in caplog.text or "still waiting" in caplog.text
    backend.close()


def test_a_worker_cut_off_is_given_up_by_the_scheduler():
    with small_cluster(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="4s") as cluster:
        backend = opened(cluster.address)
        placed = backend.place(sq.make, range(N)).change(sq.doubled)
        worker = worker_process(cluster.workers[0])
        worker.suspend()
        found = placed.total(sq.weighted, FACTOR)
        np.testing.assert_array_equal(found[1], expected())
        backend.close()


def test_a_cut_line_between_worker_and_scheduler_is_survived():
    with small_cluster(1) as cluster:
        line = Line(cluster.port)
        cluster.start_worker(address=line.address)
        backend = opened(cluster.address)
        placed = backend.place(sq.make, range(N)).change(sq.doubled)
        cutting = after(0.5, line.cut, 2.0, line.mend)
        found = placed.total(sq.slowly_weighted, FACTOR, 0.5)
        cutting.join()
        np.testing.assert_array_equal(found[1], expected())
        backend.close()
        line.close()


def test_a_scheduler_started_again_goes_on_with_the_question(cluster, caplog):
    backend = opened(cluster.address, patience=60.0)
    placed = backend.place(sq.make, range(N)).change(sq.doubled)

    def workers_again() -> None:
        for nanny in list(cluster.workers):
            if nanny.poll() is not None:
                cluster.start_worker()

    restarting = after(0.5, cluster.kill_scheduler, 2.0, cluster.start_scheduler, 3.0, workers_again)
    found = placed.total(sq.slowly_weighted, FACTOR, 0.5)
    restarting.join()
    np.testing.assert_array_equal(found[1], expected())
    assert "lost the connection to the scheduler at" in caplog.text
    assert "; waiting up to 60 s" in caplog.text
    assert "answers again; placing the shards again" in caplog.text
    assert backend.traffic.repeats >= 1
    assert backend.traffic.remade >= N
    backend.close()


def test_a_scheduler_that_stays_away_is_one_sentence(cluster):
    backend = opened(cluster.address)
    backend._connection.patience = 3.0
    placed = backend.place(sq.make, range(N))
    after(0.5, cluster.kill_scheduler)
    with pytest.raises(ClusterError, match="disconnected and did not come back within 3 s; start it again"):
        placed.total(sq.slowly_weighted, FACTOR, 1.0)
    backend.close()


@pytest.mark.parametrize("users", [False, True])
def test_a_cut_line_to_the_scheduler_is_mended(cluster, users):
    line = Line(cluster.port)
    given = distributed.Client(line.address, timeout=20) if users else line.address
    backend = opened(given, patience=60.0)
    placed = backend.place(sq.make, range(N)).change(sq.doubled)
    cutting = after(0.5, line.cut, 2.0, line.mend)
    found = placed.total(sq.slowly_weighted, FACTOR, 0.5)
    cutting.join()
    np.testing.assert_array_equal(found[1], expected())
    backend.close()
    if users:
        assert given.status == "running"
        given.close()
    line.close()


def test_a_scheduler_that_hangs_is_said_so_and_waited_for(cluster, caplog, monkeypatch):
    monkeypatch.setattr(dask_connection, "TELL", 1.0)
    backend = opened(cluster.address)
    placed = backend.place(sq.make, range(N)).change(sq.doubled)
    cluster.scheduler.send_signal(signal.SIGSTOP)
    waking = after(5.0, lambda: cluster.scheduler.send_signal(signal.SIGCONT))
    found = placed.total(sq.weighted, FACTOR)
    waking.join()
    np.testing.assert_array_equal(found[1], expected())
    assert f"still waiting for the scheduler at {cluster.address}" in caplog.text
    backend.close()


def test_a_shard_too_large_for_its_worker_is_named():
    with small_cluster(0) as cluster:
        for _ in range(2):
            cluster.start_worker(memory="600MB")
        backend = opened(cluster.address)
        with pytest.raises(
            ClusterError, match=r"shard 4 of 6.*: 4 workers died .* had 0.6 GB .* smaller shards"
        ):
            backend.place(sq.fills_memory, range(6))
        backend.close()


SPILLED = {"DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "0.2"}  # of workers that may have 1 GB


def test_a_worker_whose_disk_is_full_is_named(tmp_path):
    """States of 320 MB for each of two workers that keep 200 MB in memory and find 40 MB on their disk."""
    settings = {"DASK_TEMPORARY_DIRECTORY": str(tmp_path), **SPILLED}
    with small_disk(tmp_path, 40_000_000), small_cluster(2, **settings) as cluster:
        backend = opened(cluster.address)
        with pytest.raises(DataError, match=r"shard \d+ of 20: .*No space left .* on a worker of"):
            backend.place(sq.big, range(20)).ask(sq.mean)
        backend.close()


@pytest.mark.parametrize("room", ["enough", "no folder"])
def test_states_go_to_the_disk_of_workers_or_stay(room, tmp_path, monkeypatch):
    """States of 320 MB for each of two workers that keep 200 MB; where nothing can be written, they stay.
    Sums over states on disk need one of them in memory at a time."""
    monkeypatch.setattr(dask_connection, "SIZED", 0.0)
    settings = {"DASK_TEMPORARY_DIRECTORY": str(tmp_path), **SPILLED}
    with small_cluster(2, **settings) as cluster:
        backend = opened(cluster.address)
        if room == "no folder":
            for one in tmp_path.rglob("storage"):
                one.rmdir()
                one.write_text("no folder")
        placed = backend.place(sq.big, range(20))
        written = sum(one.stat().st_size for one in tmp_path.rglob("*") if one.is_file())
        assert (written > 100_000_000) == (room == "enough")
        for _ in range(2):
            assert placed.ask(sq.mean) == [float(i) for i in range(20)]
        until = time.monotonic() + 20.0
        while room == "enough" and len(backend._connection.full_workers()) < 2 and time.monotonic() < until:
            time.sleep(0.2)
        told: list[int] = []
        assert placed.total(sq.mean, told=lambda done, _: told.append(done)) == 190.0
        assert (len(told) > 2) == (room == "enough")
        backend.close()


def test_workers_without_memory_are_named(caplog, monkeypatch):
    monkeypatch.setattr(dask_connection, "TELL", 1.0)
    with small_cluster(2, DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE="0.05") as cluster:
        backend = DaskBackend(cluster.address, patience=30.0)
        backend._connection.patience = 4.0
        with pytest.raises(ClusterError, match=r"are paused, because their memory is full; .*waited 4 s"):
            backend.place(sq.make, range(2)).total(sq.weighted, FACTOR)
        assert "are paused" in caplog.text
        backend.close()


SCRIPT = """
import os, sys, time
import numpy as np
import shard_questions as sq
from trellis.core.backends import as_backend
from trellis.training.driver import drive

class Run:
    def __init__(self, shards): self.shards, self.point = shards, 0
    def step(self):
        self.shards.total(sq.slowly_weighted, 1.0, 0.3)
        self.point += 1
        print("iteration", self.point, flush=True)
        return {"value": float(self.point)}
    def status(self): return None

if __name__ == "__main__":
    backend = as_backend(sys.argv[1])
    run = Run(backend.place(sq.make, range(4)))
    trace = drive(run, 100, None, lambda: run.point, keep_interrupted=True)
    print("kept", run.point, trace.n_iter, trace.status.reason, flush=True)
"""


@pytest.mark.parametrize("place", ["processes:2", "address"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_client_leaves_no_work_and_no_process(cluster, place, number, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    job = subprocess.Popen(
        [sys.executable, str(script), cluster.address if place == "address" else place],
        env={**os.environ, "PYTHONPATH": f"{SOURCES}{os.pathsep}{SUPPORT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while job.stdout.readline() != "iteration 2\n":
        assert job.poll() is None, job.stderr.read()
    time.sleep(0.1)
    children = psutil.Process(job.pid).children(recursive=True)
    started = time.monotonic()
    os.killpg(job.pid, number)  # as a terminal does: to the workers here as well
    out, err = job.communicate(timeout=20)
    assert time.monotonic() - started < 10.0
    assert "Traceback" not in err, err
    if number == signal.SIGINT:
        assert "kept 2 2 interrupted" in out, (out, err)
        assert job.returncode == 0, err
    else:
        assert job.returncode == -signal.SIGTERM, err
    _, left = psutil.wait_procs(children, timeout=10)
    assert not left
    if place == "address":
        with distributed.Client(cluster.address, timeout=10) as client:
            for _ in range(100):
                if not any(client.has_what().values()) and not any(client.processing().values()):
                    break
                time.sleep(0.1)
            assert not any(client.has_what().values())
            assert not any(client.processing().values())


def test_an_address_that_does_not_answer_takes_ten_seconds():
    started = time.monotonic()
    with pytest.raises(ClusterError, match="no Dask scheduler answers"):
        DaskBackend(f"tcp://127.0.0.1:{free_port()}")
    assert time.monotonic() - started < 13.0


def test_scripts_without_a_guard_are_told(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text("from trellis.core.backends import as_backend\nas_backend('processes:1')\n")
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    assert "put its work under if __name__ == '__main__'" in done.stderr
