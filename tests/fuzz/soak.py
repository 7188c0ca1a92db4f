"""Kill processes at random moments, in the middle of saving and of training: no file may be lost or damaged.

python tests/fuzz/soak.py              100 kills of each kind, some minutes
python tests/fuzz/soak.py --kills 10   fewer

A child saves over one path again and again, either two models by turns or what it trains; at times there are
two such children. They are killed (kill -9) at a random moment. Then the path must hold one whole model of
those that were saved, and the next save must leave no temporary file of the dead.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trellis import SequenceLabeler, load
from trellis.core import storage

WORDS = [[f"w{i % 7}" for i in range(n, n + 8)] for n in range(60)]
TAGS = [[f"t{int(w[1:]) % 3}" for w in sentence] for sentence in WORDS]
LONGEST = 0.15  # seconds that a child lives


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
        finally:
            os._exit(1)
    return child


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = random.Random(given.seed)
    SequenceLabeler("perceptron", max_iter=1).fit(WORDS, TAGS)  # compiles what the children need
    for work, whole in ((save_two, one_of_two), (train, is_trained)):
        print(f"{work.__name__}: {soak(work, whole, given.kills, rng)}", flush=True)


if __name__ == "__main__":
    main()
