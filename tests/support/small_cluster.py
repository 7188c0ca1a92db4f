"""A scheduler and workers as processes of their own, and a line between them that can be cut."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

SUPPORT = Path(__file__).resolve().parent
SOURCES = SUPPORT.parents[1] / "src"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class SmallCluster:
    """``dask scheduler`` and ``dask worker``, one thread each, as on a cluster of several machines."""

    def __init__(self, n_workers: int = 2, **settings: str) -> None:
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._settings = settings
        self._n_workers = n_workers
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> SmallCluster:
        self.start_scheduler()
        for _ in range(self._n_workers):
            self.start_worker()
        return self

    def start_scheduler(self) -> None:
        self.scheduler = self._started("scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        until = time.monotonic() + 180.0
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise TimeoutError("the scheduler of the test did not start")

    def start_worker(self, memory: str = "1GB", address: str | None = None) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--host", "127.0.0.1", "--memory-limit", memory)
        self.workers.append(self._started("worker", address or self.address, *options))
        return self.workers[-1]

    def kill_worker(self, number: int) -> None:
        """Kill -9 what works; its nanny starts another one."""
        nanny = psutil.Process(self.workers[number].pid)
        for child in sorted(nanny.children(), key=lambda one: -one.memory_info().rss)[:1]:
            child.kill()

    def start_missing(self) -> None:
        """Workers that gave up while there was no scheduler."""
        for worker in [one for one in self.workers if one.poll() is not None]:
            self.workers.remove(worker)
            self.start_worker()

    def kill_scheduler(self) -> None:
        self.scheduler.kill()
        self.scheduler.wait()

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGCONT)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _started(self, *command: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(SOURCES), str(SUPPORT)])
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *command, "--no-dashboard"],
            env={**os.environ, "PYTHONPATH": path, **self._settings},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def small_cluster(n_workers: int = 2, **settings: str) -> Iterator[SmallCluster]:
    cluster = SmallCluster(n_workers, **settings)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


class Line:
    """Passes on what comes to its port, until it is cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_cut = True
        for one in self._open:
            _shut(one)
        self._open.clear()

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        _shut(self._server)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                if self._server.fileno() < 0:
                    return
                near.close()
                continue
            self._open += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=_passed_on, args=(a, b), daemon=True).start()


def _passed_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    _shut(source)
    _shut(target)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def after(seconds: float, *actions: object) -> threading.Thread:
    """Do it beside the test, one after the other; numbers are seconds of waiting."""

    def work() -> None:
        for action in (seconds, *actions):
            time.sleep(action) if isinstance(action, int | float) else action()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
