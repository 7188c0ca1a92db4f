"""Training on more data than the memory that it is given, and that memory does not grow with the data.

* A CRF on column files of 1, 5 and 20 million tokens, in 1 GB: sentences of CoNLL-2000's training file, drawn
  with replacement (generated ones where the file is not there), with the built-in template, by L-BFGS.
* EM of an HMM with 4 Gaussian states on 5, 25 and 100 million steps, in 500 MB: sequences of 1,000 numbers.

Each fit is a process of its own. What it may take is limited by the system: RLIMIT_DATA, which on Linux
counts all private memory that can be written to (the heap, arrays, stacks of threads, private mappings of
files), in use or not. A process that asks for more fails. ``max_memory`` of the model is four fifths of it.
A few iterations show the memory; they are not meant to converge. The smallest set of sentences is also read
and encoded in memory, on one thread, which is what preparing a fit on files is compared with: that reads and
encodes in several threads, twice, and arranges the features of all shards for training. Peak RSS also counts
shared libraries and the pages of files that are mapped at the time, which the system takes back when it needs
them.

    python benchmarks/streaming.py [--quick] [--only crf|hmm] [--iterations 2] [--jobs 2] [--hashing N]
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
from typing import Any

MB = 10**6
LIMITS = {"crf": 1000 * MB, "hmm": 500 * MB}
SIZES = {"crf": (1, 5, 20), "hmm": (5, 25, 100)}  # millions of steps
SHARE = 0.8  # of the limit: what the model is told that it may take
PER_FILE = {"crf": 1, "hmm": 5}  # millions


def main() -> None:
    from _common import parser

    options = parser(__doc__)
    options.add_argument("--only", choices=list(SIZES), help="one of the two")
    options.add_argument("--iterations", type=int, default=2)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--hashing", type=int, help="buckets of hashed features")
    options.add_argument("--sizes", help="millions of steps, such as 1,5")
    options.add_argument("--folder", help="where the data are made; else that of temporary files")
    chosen = options.parse_args()
    for kind in [chosen.only] if chosen.only else SIZES:
        sizes = tuple(map(float, chosen.sizes.split(","))) if chosen.sizes else SIZES[kind]
        measure(kind, sizes[:2] if chosen.quick else sizes, chosen)


def measure(kind: str, sizes: tuple[float, ...], chosen: argparse.Namespace) -> None:
    print(
        f"{kind}: RLIMIT_DATA {LIMITS[kind] / MB:.0f} MB, {chosen.iterations} iterations, {chosen.jobs} jobs"
    )
    peaks = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            (make_sentences if kind == "crf" else make_series)(Path(folder), size, chosen.data)
            found = run_child(kind, folder, chosen)
            if kind == "crf" and size == min(sizes):
                found["reading"] = run_child("reading", folder, chosen)["seconds"]
        peaks.append(found["peak_mb"])
        print(
            f"  {found['steps'] / MB:6.1f} M steps, {found['file_mb']:7.1f} MB of files: peak RSS "
            f"{found['peak_mb']:6.1f} MB, data {found['data_mb']:6.1f} MB; {found['seconds']:6.1f} s in all, "
            f"{found['learning']:6.1f} s learning, {found['rate'] / MB:.3f} M steps/s; {found['cpu']:6.1f} s "
            f"of processor time; {found['result']}",
            flush=True,
        )
        if found.get("reading"):
            preparing = found["seconds"] - found["learning"]
            print(
                f"  preparing: {preparing:.1f} s, {preparing / found['reading']:.1f} times the "
                f"{found['reading']:.1f} s of reading and encoding them in memory"
            )
    if len(peaks) > 1:
        slope = (peaks[-1] - peaks[0]) / (sizes[-1] - sizes[0])
        print(f"  growth of the peak: {slope:+.2f} MB for each million steps ({slope:+.2f} bytes a step)")


def run_child(kind: str, folder: str, chosen: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", kind, folder]
    command += [str(chosen.iterations), str(chosen.jobs), str(chosen.hashing or 0)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{kind} failed: {done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def make_sentences(folder: Path, millions: float, data: Path) -> None:
    """Column files of about a million tokens each."""
    import numpy as np

    source = data / "conll2000" / "train.txt"
    text = source.read_bytes() if source.exists() else _generated()
    sentences = [part + b"\n\n" for part in text.strip().split(b"\n\n")]
    lengths = np.array([part.count(b"\n") - 1 for part in sentences])
    rng, left, number = np.random.default_rng(0), int(millions * MB), 0
    while left > 0:
        wanted = min(left, PER_FILE["crf"] * MB)
        drawn = rng.integers(0, len(sentences), int(1.2 * wanted / lengths.mean()) + 100)
        drawn = drawn[: int(np.searchsorted(np.cumsum(lengths[drawn]), wanted)) + 1]
        (folder / f"part-{number}.conll").write_bytes(b"".join(sentences[i] for i in drawn))
        left, number = left - wanted, number + 1


def _generated() -> bytes:
    """Sentences with tags and chunks, of words that follow Zipf's law."""
    import numpy as np

    rng, lines = np.random.default_rng(1), list[str]()
    for _ in range(9000):
        for _ in range(int(rng.integers(5, 45))):
            word = min(int(rng.zipf(1.3)), 19_000)
            tag = word % 44
            lines.append(f"w{word} t{tag} {('B', 'I')[int(rng.integers(2))]}-c{tag % 11}")
        lines.append("")
    return "\n".join(lines).encode()


def make_series(folder: Path, millions: float, data: Path) -> None:
    """Files of five million numbers: states that stay, each with its mean."""
    import numpy as np

    rng, left, number = np.random.default_rng(0), int(millions * MB), 0
    while left > 0:
        n = min(left, PER_FILE["hmm"] * MB)
        states = np.repeat(rng.integers(0, 4, n // 10 + 1), 10)[:n]
        X = (3.0 * states + rng.standard_normal(n)).astype(np.float32)
        lengths = np.full(-(-n // 1000), 1000)
        lengths[-1] -= lengths.sum() - n
        np.savez(folder / f"part-{number}.npz", X=X, lengths=lengths)
        left, number = left - n, number + 1


def read_in_memory(folder: str) -> None:
    """Read and encode all files in one piece; prints the seconds of it."""
    from trellis.data.columns import join_columns, read_columns
    from trellis.features.encoders import encoder_for

    began = time.perf_counter()
    data = join_columns([read_columns(path) for path in sorted(Path(folder).iterdir())])
    inputs = data.select(range(data.n_columns - 1))
    encoder_for(inputs).fit(inputs)
    print(json.dumps({"seconds": time.perf_counter() - began}))


def child(kind: str, folder: str, iterations: int, jobs: int, hashing: int) -> None:
    """One fit under the limit; prints what it took."""
    limit = LIMITS[kind]
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    began = time.perf_counter()
    options: dict[str, Any] = {"max_iter": iterations, "n_jobs": jobs, "max_memory": int(SHARE * limit)}
    if kind == "crf":
        from trellis import SequenceLabeler, ShardFiles

        files = ShardFiles(folder)
        crf = SequenceLabeler(hashing=hashing or None, verbose=False, **options).fit(files, None)
        learning, passes = crf.history_["seconds"][-1], crf.history_["evaluations"][-1]
        result = f"{len(crf.weights_)} weights, objective {crf.history_['objective'][-1]:.6g}"
    else:
        import numpy as np

        from trellis import HMM, ShardFiles
        from trellis.hmm.emissions import Gaussian

        files = ShardFiles(folder)
        start = Gaussian(means=np.array([[-1.0], [2.0], [5.0], [8.0]]), covariances=np.ones((4, 1)))
        hmm = HMM(4, start, tol=0.0, verbose=False, **options)
        at = time.perf_counter()
        hmm.fit(files)
        learning, passes = time.perf_counter() - at, iterations
        result = f"log likelihood {hmm.history_['log_likelihood'][-1]:.6g}"
    steps = sum(shard.n_steps for shard in files.shards())
    size = sum(path.stat().st_size for path in Path(folder).iterdir())
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    status = dict(line.split(":", 1) for line in lines)
    kilobytes = {name: int(status[name].split()[0]) for name in ("VmHWM", "VmData")}
    print(
        json.dumps(
            {
                "steps": steps,
                "file_mb": size / MB,
                "peak_mb": kilobytes["VmHWM"] * 1024 / MB,
                "data_mb": kilobytes["VmData"] * 1024 / MB,
                "seconds": time.perf_counter() - began,
                "cpu": time.process_time(),
                "learning": learning,
                "rate": steps * passes / learning,
                "result": result,
            }
        )
    )


if __name__ == "__main__":
    if sys.argv[1:3] == ["--child", "reading"]:
        read_in_memory(sys.argv[3])
    elif sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
    else:
        main()
