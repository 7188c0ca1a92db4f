"""EM of a hidden Markov model on files that are larger than the memory it may take.

    python benchmarks/streaming_hmm.py [--steps 10 30 100] [--memory 500] [--keep 250] [--folder /tmp]

Millions of symbols (one byte each) of 8 states go into .npz files in a temporary folder. For each size, a
process of its own, with its data segment limited to ``--memory`` MB by the system (RLIMIT_DATA), runs three
iterations of EM on two threads, with ``max_memory`` set to ``--keep`` MB. Printed are the largest resident
memory, steps per second of EM, and how the memory grows with the data.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_STATES, N_SYMBOLS, ITERATIONS = 8, 16, 3
PER_FILE, LENGTH = 1_000_000, 1000


def true_model(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    transitions = 0.8 * np.eye(N_STATES) + 0.2 * rng.dirichlet(np.ones(N_STATES), N_STATES)
    return transitions, rng.dirichlet(np.full(N_SYMBOLS, 0.4), N_STATES)


def generate(folder: Path, steps: int) -> None:
    from trellis import HMM
    from trellis.hmm.emissions import Categorical

    transitions, symbols = true_model(np.random.default_rng(0))
    start = np.full(N_STATES, 1 / N_STATES)
    model = HMM(N_STATES, Categorical(N_SYMBOLS, symbols), initial=start, transitions=transitions)
    for i in range(steps // PER_FILE):
        path = folder / f"{i}.npz"
        if not path.exists():
            lengths = [LENGTH] * (PER_FILE // LENGTH)
            x, _ = model.sample(lengths, random_state=i)
            np.savez(path, X=np.concatenate(x).astype(np.uint8), lengths=np.array(lengths))


def work(folder: str, files: int, memory: int, keep: int) -> None:
    """In a process of its own."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory * 10**6, memory * 10**6))
    from trellis import HMM, ShardFiles
    from trellis.hmm.emissions import Categorical

    imported = peak()
    data = ShardFiles([f"{folder}/{i}.npz" for i in range(files)])
    emission = Categorical(N_SYMBOLS)
    began = time.perf_counter()
    model = HMM(
        N_STATES,
        emission,
        max_iter=ITERATIONS,
        tol=0.0,
        random_state=0,
        n_jobs=2,
        max_memory=f"{keep}MB",
        verbose=False,
    ).fit(data)
    seconds = time.perf_counter() - began
    print(
        json.dumps(
            {
                "imported": imported,
                "peak": peak(),
                "seconds": seconds,
                "iterations": model.history_["seconds"],
                "log_likelihood": model.history_["log_likelihood"],
            }
        )
    )


def peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 30, 100], help="millions")
    parser.add_argument("--memory", type=int, default=500, help="MB")
    parser.add_argument("--keep", type=int, default=250, help="MB of max_memory")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--work", nargs=2, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        work(given.work[0], int(given.work[1]), given.memory, given.keep)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        peaks = []
        for millions in given.steps:
            generate(Path(folder), millions * 10**6)
            limits = ["--memory", str(given.memory), "--keep", str(given.keep)]
            command = [sys.executable, __file__, *limits, "--work", folder]
            done = subprocess.run(
                [*command, str(millions * 10**6 // PER_FILE)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(done.stderr)
                raise SystemExit(f"{millions} M steps did not fit into {given.memory} MB")
            found = json.loads(done.stdout)
            peaks.append(found["peak"])
            rate = millions * 1e6 * ITERATIONS / found["iterations"][-1]
            print(
                f"{millions:4d} M steps: peak {found['peak']:.0f} MB (imports {found['imported']:.0f} MB), "
                f"{found['seconds']:.1f} s in all, EM {rate / 1e6:.1f} M steps/s, "
                f"log-likelihood {found['log_likelihood'][0]:.8g} -> {found['log_likelihood'][-1]:.8g}"
            )
        if len(peaks) > 1:
            slope = np.polyfit(np.array(given.steps, float), peaks, 1)[0]
            print(f"memory grows by {slope:.3f} MB for each million steps (their symbols are 1 MB)")


if __name__ == "__main__":
    main()
