"""What a sketch of counts saves where most features are rare: peak memory and time of counting files.

Text by Zipf's law with words that nobody has seen before (``--new``, a share of the tokens), in column files;
``min_count=3``. The vocabulary is counted twice, each in a process of its own: of all features, and without
those that the sketch shows to be too rare (:mod:`trellis.features.count_sketch`). Both must be the same.

    python benchmarks/rare_features.py [--millions 2] [--new 0.2] [--quick]
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from _common import parser

MB = 10**6
PART = 200_000  # tokens of a file


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--millions", type=float, default=2.0, help="of tokens")
    options.add_argument("--new", type=float, default=0.2, help="the share of words that occur once")
    given = options.parse_args()
    if given.quick:
        given.millions = 0.4
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), int(given.millions * MB), given.new)
        found = [measured(folder, sketched) for sketched in (False, True)]
    for one, name in zip(found, ("exact counts", "after a sketch"), strict=True):
        print(
            f"{name:16} {one['counted']:10,d} features counted, {one['kept']:9,d} kept; "
            f"{one['peak_mb']:7.0f} MB at most, {one['cpu']:6.1f} s of processor time"
        )
    if found[0]["names"] != found[1]["names"]:
        raise SystemExit("the vocabularies differ")
    print("the vocabularies are the same")


def write(folder: Path, n: int, new: float) -> None:
    rng = np.random.default_rng(0)
    for part, first in enumerate(range(0, n, PART)):
        words = np.minimum(rng.zipf(1.3, PART), 50_000)
        unseen = rng.random(PART) < new
        lines = [
            f"x{first + i} t{i % 7} L{i % 5}" if unseen[i] else f"w{word} t{word % 7} L{word % 5}"
            for i, word in enumerate(words)
        ]
        text = "\n\n".join("\n".join(lines[i : i + 25]) for i in range(0, PART, 25))
        (folder / f"part-{part}.conll").write_text(text + "\n\n", encoding="utf-8")


def measured(folder: str, sketched: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", folder, str(int(sketched))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def child(folder: str, sketched: bool) -> None:
    from trellis import SequenceLabeler, ShardFiles
    from trellis.core.backends.local_backend import LocalBackend
    from trellis.objectives.sharded_problem import as_it_is
    from trellis.structures.chain.labeler.shards import shard_questions as questions

    began = time.process_time()
    recipe = questions.EncoderRecipe.of(SequenceLabeler(min_count=3))
    sources = [questions.Source(shard, i) for i, shard in enumerate(ShardFiles(folder).shards())]
    placed = LocalBackend(1).place(as_it_is, sources)
    sketch = placed.total(questions.sketch_shard, recipe) if sketched else None
    found = placed.total(questions.count_shard, recipe, sketch)
    peak, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time() - began
    counted = sum(len(one) for layer in found.counts.counts for one in layer)
    assert found.encoder is not None
    found.encoder.learn(found.counts)
    names = hashlib.sha256("\n".join(found.encoder.feature_names()).encode()).hexdigest()
    said = {"counted": counted, "kept": found.encoder.n_features, "names": names}
    print(json.dumps({**said, "peak_mb": peak * 1024 / MB, "cpu": cpu}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3] == "1")
    else:
        main()
