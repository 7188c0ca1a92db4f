"""An aligner's training, stopped again and again: the same arrays at the end, for every classifier."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tone_speech
from codec_copy import through_codec
from stopped_fits import Killed, learned, stopped_again_and_again, storing
from trellis.core.errors import DataError
from trellis.speech.acoustics.convolutional import listening_heads
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.acoustics.feed_forward import NetworkOptions
from trellis.speech.acoustics.frame_classifiers import (
    FrameExamples,
    NetworkClassifier,
    PassiveAggressiveClassifier,
)
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.learning import weight_training
from trellis.speech.align.search import topology
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.formats.alignment import Alignment
from trellis.training import checkpoints, driver

SMALL = ConvolutionalOptions(units=8, passes=3, fewest_steps=3, end_to_end_passes=2)
TINY = NetworkOptions(hidden=(8,), epochs=3)
WAYS: dict[str, dict[str, Any]] = {
    "convolutional": {"classifier": ConvolutionalOptions(**{**vars(SMALL), "networks": 2})},
    "cross-fitted": {"classifier": SMALL, "cross_fit": 2, "objective": "log"},
    "scikit-learn": {"classifier": NetworkClassifier(network=TINY), "n_jobs": 2},
    "kernels": {"classifier": PassiveAggressiveClassifier(passes=2), "features": "paper"},
}


@pytest.fixture(autouse=True)
def _short_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As each iteration is stored here."""
    monkeypatch.setattr(topology, "ITERATIONS", 4)
    monkeypatch.setattr(weight_training, "BATCH_ITERATIONS", 4)
    monkeypatch.setattr(listening_heads, "FEWEST_STEPS", 4)
    monkeypatch.setattr(listening_heads, "PASSES", 4)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return tone_speech.corpus(tmp_path_factory.mktemp("tones"), 12)


def fit(corpus: Corpus, folder: Path | None = None, **options: Any) -> Aligner:
    return Aligner(**{"max_iter": 2, **options}, checkpoint=folder).fit(corpus)


def assert_stops_change_nothing(work: Callable[[Path | None], Aligner], folder: Path, stops: int) -> None:
    """Stopped about so many times, at iterations of equal distance."""
    append, steps = driver._append, 0

    def count(history: Any, measured: Any) -> None:
        nonlocal steps
        steps += "seconds" in measured
        append(history, measured)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_append", count)
        whole = learned(work(None))
    again, times = stopped_again_and_again(work, folder, max(1, steps // (stops + 1)))
    assert times >= stops
    assert learned(again) == whole


@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_fit_ends_in_the_same_model(way: str, corpus: Corpus, tmp_path: Path) -> None:
    stops = 5 if way == "convolutional" else 2
    assert_stops_change_nothing(lambda at: fit(corpus, at, **WAYS[way]), tmp_path / "run", stops)


def test_pytorch_goes_on_with_its_random_numbers() -> None:
    """One thread of the processor: the same bits. What the caller draws is left alone."""
    torch = pytest.importorskip("torch")
    examples = FrameExamples(
        [np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32)], [np.arange(90) % 3], 3, 10.0
    )
    classifier = NetworkClassifier(network=NetworkOptions(hidden=(8,), epochs=6, torch=True))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    whole = classifier.fit(examples, 0)
    assert torch.equal(torch.get_rng_state(), before)
    stored = None
    for _ in range(6):
        run = classifier.training(examples, 0)
        if stored is not None:
            run.restore(stored)
        run.step()
        stored = through_codec(run.snapshot())
        run.step()  # lost
        torch.manual_seed(time.perf_counter_ns() % 2**31)
    run = classifier.training(examples, 0)
    run.restore(stored)
    for one, other in zip(run.weights.network.weights, whole.network.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_stopped_adaptation_ends_in_the_same_model(corpus: Corpus, tmp_path: Path) -> None:
    aligner, corrected = fit(corpus, classifier=SMALL), Corpus(tuple(corpus)[:4])
    assert_stops_change_nothing(lambda at: aligner.adapt(corrected, checkpoint=at), tmp_path / "run", 4)


@pytest.mark.parametrize("seed", range(2))
def test_ctrl_c_at_any_moment_stores_what_is_whole(
    seed: int, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between passes, in the middle of one, and between stages: nothing is stored but by the interrupts."""
    monkeypatch.setattr(checkpoints, "SHARE", 0.0)
    options = {"classifier": SMALL, "objective": "log"}
    whole, rng = learned(fit(corpus, **options)), np.random.default_rng(seed)
    moments = sys.modules["trellis.speech.acoustics.convolutional.convolutional_training"]
    step, left = moments.AdamW.step, 0

    def interrupted(self: Any, *given: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        step(self, *given)

    monkeypatch.setattr(moments.AdamW, "step", interrupted)
    stops = 0
    while True:
        left = int(rng.integers(2, 9))
        try:
            found = fit(corpus, tmp_path / "run", **options)
            break
        except KeyboardInterrupt:
            stops += 1
            assert (tmp_path / "run" / "checkpoint.0").exists()
    assert stops >= 1
    assert learned(found) == whole


def test_what_it_learns_from_must_be_the_same(corpus: Corpus, tmp_path: Path) -> None:
    def stopped(given: Corpus, **options: Any) -> None:
        with storing() as patch:
            patch.setattr(driver, "_append", _kill)
            fit(given, tmp_path / "run", **{"classifier": SMALL, **options})

    def _kill(*_: Any) -> None:
        raise Killed

    with storing(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_ran_out", _kill)  # the end of the first network
        with pytest.raises(Killed):
            fit(corpus, tmp_path / "run", classifier=SMALL)
    with pytest.raises(Killed):
        stopped(corpus)
    with pytest.raises(DataError, match=r"other options \(tau_ms was 10.0, now 20.0\)"):
        stopped(corpus, tau_ms=20.0)
    was = corpus[-1].reference
    assert was is not None
    moved = Alignment.from_starts([0.0, *(was.starts[1:] + 0.001)], was.labels, was.duration)
    with pytest.raises(DataError, match="the checksum of the labels differs"):
        stopped(Corpus((*tuple(corpus)[:-1], replace(corpus[-1], reference=moved))))
    sound = corpus[0].audio.read_bytes()
    corpus[0].audio.write_bytes(sound[:-4] + b"\0\0\0\0")
    try:
        with pytest.raises(DataError, match="the checksum of the recordings differs"):
            stopped(corpus)
    finally:
        corpus[0].audio.write_bytes(sound)


SCRIPT = """
import sys
from pathlib import Path
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align.aligner import Aligner
from trellis.speech.corpus.corpus import Corpus
from trellis.training import checkpoints

checkpoints.SHARE = 10.0
rate = float(sys.argv[2])
options = ConvolutionalOptions(units=8, passes=12, fewest_steps=3, end_to_end_passes=0)
corpus = Corpus.textgrids(sys.argv[1])
folder = Path(sys.argv[1], "run") if rate else None
aligner = Aligner("log", classifier=options, checkpoint=folder).fit(corpus)
aligner.save(Path(sys.argv[1], f"model-{rate:g}.trellis"))
"""


def test_kill_9_loses_nothing(tmp_path: Path) -> None:
    """Killed while it writes, twice; the third process ends in the model of one that was never killed."""
    from trellis import load

    _write_corpus(tmp_path)

    def start(rate: int) -> subprocess.Popen[str]:
        return _start("-c", SCRIPT, str(tmp_path), str(rate))

    for _ in range(2):
        process, seen = start(1), _newest(tmp_path / "run")
        _wait(lambda seen=seen: _newest(tmp_path / "run") > seen)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    processes = [start(1), start(0)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert learned(load(tmp_path / "model-1.trellis")) == learned(load(tmp_path / "model-0.trellis"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_the_command_with_a_checkpoint(number: int, code: int, tmp_path: Path) -> None:
    _write_corpus(tmp_path)
    model, run = tmp_path / "model.trellis", tmp_path / "run"
    program = "from trellis.cli import main; main()"
    given = ("align", "train", str(tmp_path), "-o", str(model), "--checkpoint", str(run))
    process = _start("-c", program, *given)
    _wait(lambda: run.exists() or process.poll() is not None)
    time.sleep(0.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.splitlines()[-1] == (
        f"training was stopped before its end; the same command resumes from the checkpoint in {run}"
    )
    assert _newest(run) > 0
    assert not model.exists()


def _write_corpus(folder: Path) -> None:
    for utterance in tone_speech.corpus(folder, 12):
        assert utterance.reference is not None
        utterance.reference.to_textgrid(utterance.audio.with_suffix(".TextGrid"))


def _start(*arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, *arguments], env=env, stderr=subprocess.PIPE, text=True)


def _newest(folder: Path) -> int:
    return max((path.stat().st_mtime_ns for path in folder.glob("checkpoint.*")), default=0)


def _wait(met: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not met():
        assert time.monotonic() < end
        time.sleep(0.002)
