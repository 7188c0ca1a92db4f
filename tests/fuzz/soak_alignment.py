"""A thousand short recordings, aligned on a cluster whose workers are killed, by a command that is killed.

    python tests/fuzz/soak_alignment.py --minutes 3

Recordings are tones and noises (``tone_speech``), in two folders by turns. ``trellis align run --resume``
aligns them in the worker processes of ``--local-cluster``; at random moments a worker, or the command itself,
gets kill -9, and the command is started again until it ends by itself. Then there must be one whole TextGrid
for each recording, equal to what undisturbed processes wrote, and nothing else.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
SOURCES = HERE.parents[1] / "src"
RECORDINGS = 1000
ATTEMPTS = 8  # of which the last is left alone
PROGRAM = "from trellis.cli import main; main()"


def run(minutes: float = 3.0, seed: int = 0, recordings: int = RECORDINGS) -> tuple[str, int]:
    """Rounds until the time is over, at least one; a sentence about them, and the number of kills. Raises
    ``AssertionError`` where anything is lost or differs."""
    rng = random.Random(seed)
    kills = rounds = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = _prepare(folder, recordings, seed)
        _command(model, folder / "speech", folder / "expected", "-j", "2").wait()
        expected = _texts(folder / "expected")
        assert len(expected) == recordings, f"{len(expected)} of {recordings} are aligned without any kill"
        end = time.monotonic() + 60 * minutes
        while rounds == 0 or time.monotonic() < end:
            kills += _disturbed(model, folder, rng, end)
            found = _texts(folder / "found")
            assert found == expected, _difference(found, expected)
            shutil.rmtree(folder / "found")
            rounds += 1
    said = f"{rounds} rounds over {recordings} recordings, {kills} kills: nothing lost, the same alignments"
    return said, kills


def _disturbed(model: Path, folder: Path, rng: random.Random, end: float) -> int:
    """One run of the command that comes to its end; how many processes were killed."""
    kills = 0
    for attempt in range(ATTEMPTS):
        process = _command(model, folder / "speech", folder / "found", "--local-cluster", "2", "--resume")
        while process.poll() is None:
            calm = attempt == ATTEMPTS - 1 or time.monotonic() > end
            if not calm and rng.random() < 0.05:
                victims = [process.pid, *_workers(process.pid)]
                kills += _kill(rng.choice(victims))
            time.sleep(0.2)
        _end_orphans(process.pid)
        if process.returncode == 0:
            return kills
        assert process.returncode in (-signal.SIGKILL, 1, 2), f"exit code {process.returncode}"
    raise AssertionError(f"the command did not come to its end in {ATTEMPTS} attempts")


def _prepare(folder: Path, recordings: int, seed: int) -> Path:
    """Recordings with their phones beside them, and a model that was trained on some others."""
    import soundfile

    import tone_speech
    from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
    from trellis.speech.align.aligner import Aligner

    (folder / "train").mkdir()
    small = ConvolutionalOptions(units=16, passes=4, fewest_steps=40, end_to_end_passes=0)
    Aligner("log", classifier=small).fit(tone_speech.corpus(folder / "train", 30)).save(folder / "m.trellis")
    rng = np.random.default_rng(seed)
    for i in range(recordings):
        place = folder / "speech" / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        phones = tone_speech.phones_of(rng, 4)
        soundfile.write(place / f"r{i:04d}.wav", tone_speech.utterance(phones, rng)[0], tone_speech.RATE)
        (place / f"r{i:04d}.phones").write_text(" ".join(phones), encoding="utf-8")
    return folder / "m.trellis"


def _command(model: Path, speech: Path, output: Path, *options: str) -> subprocess.Popen[bytes]:
    given = ("align", "run", str(model), str(speech), "-o", str(output), "-q", *options)
    env = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *given], env=env, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _texts(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _difference(found: dict[str, bytes], expected: dict[str, bytes]) -> str:
    lost, more = sorted({*expected} - {*found}), sorted({*found} - {*expected})
    other = sorted(name for name in {*expected} & {*found} if expected[name] != found[name])
    return f"lost: {lost[:5]}, not asked for: {more[:5]}, different: {other[:5]}"


def _session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(fields[3]) == leader:
                found.append(int(entry.name))
    return found


def _workers(leader: int) -> list[int]:
    return [pid for pid in _session(leader) if pid != leader]


def _kill(pid: int) -> int:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def _end_orphans(leader: int) -> None:
    """Workers of a command that was killed; they would end by themselves, some seconds later."""
    for pid in _workers(leader):
        _kill(pid)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=3.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--recordings", type=int, default=RECORDINGS)
    given = options.parse_args()
    print(run(given.minutes, given.seed, given.recordings)[0])
