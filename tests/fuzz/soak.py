"""Kill processes at random moments, in the middle of saving and of training: no file may be lost or damaged,
and a fit that keeps checkpoints must come to the same end as one that was never killed.

python tests/fuzz/soak.py                 100 kills of each kind, some minutes
python tests/fuzz/soak.py --kills 10      fewer
python tests/fuzz/soak.py --minutes 3     for about so long instead: checkpointed fits, jobs on a small
                                          cluster (a CRF, EM), many recordings aligned (a thousand from
                                          half an hour on), a third of it each; 60 for an hour
python tests/fuzz/soak.py --cluster 5     jobs on a small cluster instead, five runs of each (soak_cluster.py)

A child saves over one path again and again, either two models by turns or what it trains; at times there are
two such children. They are killed (kill -9) at a random moment. Then the path must hold one whole model of
those that were saved, and the next save must leave no temporary file of the dead.

Checkpointed fits (a CRF, a structural SVM, fine-tuning for direct loss with all its stages, a perceptron, EM
with several starts, a Kalman filter, a network with missing data) are killed wherever they are, and started
again until they end; at times one of their files is cut short or their disk is full for a while. What was
learned must equal, to the last bit, what an undisturbed fit learns.

With --minutes, faults end when the time is over, and what runs then may come to its end in peace, so that a
slow machine takes longer and fails no sooner. The last line is ``N faults, nothing lost, same numbers``;
anything else ends with the exit code 1, a hang included, after four times as long and fifteen minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trellis import HMM, BayesianNetwork, LinearGaussian, SequenceLabeler, load
from trellis.core import storage
from trellis.core.errors import ModelFileError
from trellis.hmm.emissions import Gaussian
from trellis.training import checkpoints

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import soak_alignment
from soak_cluster import JOBS, soak_cluster

from stopped_fits import learned

WORDS = [[f"w{i % 7}" for i in range(n, n + 8)] for n in range(60)]
TAGS = [[f"t{int(w[1:]) % 3}" for w in sentence] for sentence in WORDS]
NOISY = [[f"t{(int(w[1:]) + i * n % 5 // 4) % 3}" for i, w in enumerate(s)] for n, s in enumerate(WORDS)]
LONGEST = 0.15  # seconds that a child lives
SHORT = 30.0  # minutes below which there are fewer recordings, and fewer kills of one fit


def save_two(path: Path) -> None:
    """Two models by turns, each of which says which one it is."""
    for turn in range(sys.maxsize):
        storage.save(path, "Turn", {"turn": turn % 2}, {"w": np.full(100_000, float(turn % 2))})


def one_of_two(path: Path) -> bool:
    _, meta, arrays = storage.read(path)
    return bool((arrays["w"] == meta["turn"]).all())


def train(path: Path) -> None:
    for seed in range(sys.maxsize):
        SequenceLabeler("perceptron", max_iter=3, random_state=seed).fit(WORDS, TAGS).save(path)


def is_trained(path: Path) -> bool:
    return len(load(path).predict(WORDS[:2])) == 2


def soak(work: Callable[[Path], None], whole: Callable[[Path], bool], kills: int, rng: random.Random) -> str:
    """What was found, or an ``AssertionError``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        most = 0
        for kill in range(kills):
            children = [_fork(work, path) for _ in range(1 + (kill % 4 == 3))]  # at times two at once
            time.sleep(rng.uniform(0.0, LONGEST))
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            left = [p for p in Path(folder).iterdir() if p != path]
            most = max(most, len(left))
            assert all(p.name.endswith(".partial") for p in left), left
            assert not path.exists() or whole(path), f"kill {kill}: the file is damaged"
            assert len(left) <= 2, f"kill {kill}: {len(left)} temporary files"
        storage.save(path, "Turn", {"turn": 0}, {})
        assert [p.name for p in Path(folder).iterdir()] == ["model"], "the next save leaves temporary files"
    return (
        f"{kills} kills, no damaged file, at most {most} temporary files at a time, none after the next save"
    )


def _fork(work: Callable[[Path], None], path: Path) -> int:
    child = os.fork()
    if child == 0:
        try:
            work(path)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(1)
    return child


# -- checkpointed fits --------------------------------------------------------------------------------------


def _chain(objective: str, folder: Path | None, **options: Any) -> Any:
    given = {"max_iter": 60, "random_state": 0, "verbose": False, **options}
    return SequenceLabeler(objective, checkpoint=folder, **given).fit(WORDS, NOISY)


def _em(folder: Path | None) -> HMM:
    values = np.repeat(np.random.default_rng(1).normal(size=(300, 2)), 3, axis=0)
    model = HMM(4, Gaussian("full"), n_init=3, max_iter=40, tol=0.0, random_state=0, verbose=False)
    return model.set_params(checkpoint=folder).fit(values)


def _kalman(folder: Path | None) -> LinearGaussian:
    values = np.cumsum(np.random.default_rng(2).normal(size=(400, 2)), axis=0)
    return LinearGaussian(2, max_iter=60, tol=0.0, random_state=0, checkpoint=folder).fit(values)


def _network(folder: Path | None) -> BayesianNetwork:
    rng = np.random.default_rng(3)
    net = BayesianNetwork(
        {n: ["no", "yes"] for n in "ABCD"}, {"B": ["A"], "C": ["A"], "D": ["B", "C"]}, "uniform"
    )
    rows = np.array(["no", "yes", None], dtype=object)[rng.integers(0, 3, (200, 4))]
    frame = {name: rows[:, i].tolist() for i, name in enumerate("ABCD")}
    options: dict[str, Any] = {"start": "random", "n_init": 3, "max_iter": 60, "tol": 0.0, "random_state": 0}
    return net.fit(frame, checkpoint=folder, **options)


FITS: dict[str, Callable[[Path | None], Any]] = {
    "CRF": lambda folder: _chain("log", folder, tol=1e-14),
    "HMM by EM": _em,
    "structural SVM": lambda folder: _chain("margin", folder, tol=1e-14),
    "direct loss, all stages": lambda folder: _chain("direct", folder, max_iter=10),
    "perceptron": lambda folder: _chain("perceptron", folder),
    "Kalman": _kalman,
    "network": _network,
}
FIRST = ("CRF", "HMM by EM")  # these are there however short the time is


def faulty_fit(
    fit: Callable[[Path | None], Any], whole: Any, growth: float, rng: random.Random
) -> dict[str, int]:
    """Kill one fit until it ends; the faults by kind, or an ``AssertionError``. ``growth``: of the longest
    life of a child, from one to the next."""
    faults = {"kills": 0, "cut files": 0, "full disks": 0}
    longest = 0.01
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        while True:
            full = rng.random() < 0.1
            faults["full disks"] += full
            child = _fork(partial(_store_and_fit, fit, full), folder)
            time.sleep(rng.uniform(0.0, longest))
            ended, code = os.waitpid(child, os.WNOHANG)
            if not ended:
                os.kill(child, signal.SIGKILL)
                _, code = os.waitpid(child, 0)
            if os.WIFEXITED(code):
                assert os.WEXITSTATUS(code) == 0, "a fit failed"
                break
            faults["kills"] += 1
            files = sorted(folder.glob("checkpoint.*")) if folder.exists() else []
            assert len(files) <= 2, files
            if len(files) == 2 and rng.random() < 0.1 and all(map(_is_whole, files)):
                hurt = rng.choice(files)
                hurt.write_bytes(hurt.read_bytes()[: rng.randrange(hurt.stat().st_size)])
                faults["cut files"] += 1
            longest = min(longest * growth, 2.0)  # so that it ends
        assert learned(fit(folder)) == learned(whole), "the models differ"
        assert len(list(folder.iterdir())) <= 2, list(folder.iterdir())
    return faults


def _is_whole(path: Path) -> bool:
    try:
        return storage.read(path)[0] == "Checkpoint"
    except ModelFileError:
        return False


def _store_and_fit(fit: Callable[[Path | None], Any], full: bool, folder: Path) -> None:
    if full:
        fsync = os.fsync

        def no_room(descriptor: int) -> None:
            if random.random() < 0.5:
                raise OSError(28, "No space left on device")
            fsync(descriptor)

        os.fsync = no_room
    checkpoints.SHARE = math.inf  # after every iteration
    fit(folder)
    os._exit(0)


def soak_fits(fits: int, minutes: float | None, growth: float, rng: random.Random) -> int:
    """How many faults there were."""
    whole: dict[str, Any] = {}
    total: Counter[str] = Counter()
    done, until = Counter[str](), time.monotonic() + 60.0 * (minutes or 0.0)
    while (
        time.monotonic() < until or not all(done[name] for name in FIRST)
        if minutes
        else min(done[name] for name in FITS) < fits
    ):
        name = min(FITS, key=lambda one: done[one])
        if name not in whole:
            whole[name] = FITS[name](None)
        total.update(faulty_fit(FITS[name], whole[name], growth, rng))
        done[name] += 1
    said = ", ".join(f"{count} {kind}" for kind, count in total.items())
    print(
        f"checkpointed fits: {sum(done.values())} fits, {said}; nothing lost, the same bits at the end",
        flush=True,
    )
    return sum(total.values())


def soak_for(minutes: float, seed: int, rng: random.Random) -> None:
    """Fits, jobs on a cluster and alignments, a third of the time each."""

    def hangs(*_: object) -> None:
        raise AssertionError("it hangs: nothing came to its end in four times as long and fifteen minutes")

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(int(60 * (4 * minutes + 15)))
    short = minutes < SHORT
    faults = soak_fits(0, minutes / 3, 1.3 if short else 1.05, rng)
    jobs = ("CRF", "EM") if short else tuple(JOBS)
    faults += soak_cluster(1, rng, minutes / 3, jobs)
    said, kills = soak_alignment.run(minutes / 3, seed, 100 if short else soak_alignment.RECORDINGS)
    print(said)
    signal.alarm(0)
    print(f"{faults + kills} faults, nothing lost, same numbers")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100, help="of each kind")
    parser.add_argument("--minutes", type=float, help="of fits, jobs on a cluster and alignments, in thirds")
    parser.add_argument("--cluster", type=int, help="runs of jobs on a cluster alone")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = random.Random(given.seed)
    if given.cluster is not None:
        soak_cluster(given.cluster, rng)
        return
    if given.minutes is not None:
        soak_for(given.minutes, given.seed, rng)
        return
    SequenceLabeler("perceptron", max_iter=1).fit(WORDS, TAGS)  # compiles what the children need
    soak_fits(max(1, given.kills // 20), None, 1.05 if given.kills > 20 else 1.5, rng)
    for work, whole in ((save_two, one_of_two), (train, is_trained)):
        print(f"{work.__name__}: {soak(work, whole, given.kills, rng)}", flush=True)
    if given.kills > 20:
        soak_cluster(3, rng)


if __name__ == "__main__":
    main()
