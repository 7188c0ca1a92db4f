"""Checkpoints: what is refused, what is damaged, what a full disk does, how many files, and how often."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from small_disk import small_disk
from stopped_fits import Killed, learned, stopped_again_and_again, storing
from trellis import HMM, SequenceLabeler, load
from trellis.core import stop_requests, storage
from trellis.core.errors import DataError, ModelFileError, NumericalError, StepError
from trellis.core.status import Status
from trellis.hmm.emissions import Gaussian
from trellis.solvers.run import Run
from trellis.training import checkpoints
from trellis.training.checkpoint_folder import VERSION, CheckpointFolder, CheckpointWarning
from trellis.training.checkpoints import Checkpoints
from trellis.training.driver import minimise

X = [["a", "b", "c"], ["b", "a"], ["c", "a", "b", "b"], ["c"], ["b", "c", "a"]] * 3
Y = [["O", "B", "I"], ["B", "O"], ["I", "O", "B", "B"], ["O"], ["B", "I", "O"]] * 3


def labeler(folder: Path | None = None, **options: Any) -> SequenceLabeler:
    given = {"max_iter": 6, "random_state": 0, "verbose": False, "tol": 1e-12, **options}
    return SequenceLabeler(checkpoint=folder, **given)


def stopped(folder: Path, after: int = 3, **options: Any) -> None:
    """Leave what a process leaves that is killed in the iteration after these."""
    steps = 0

    def stop(*_: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == after:
            raise Killed

    with storing() as patch:
        patch.setattr(SequenceLabeler, "_check_parameters", lambda self: None)  # a callback is no flag
        with pytest.raises(Killed):
            labeler(folder, **{**options, "verbose": stop}).fit(X, Y)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- other runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"l2": 2.0}, r"other options \(l2 was 1.0, now 2.0\)"),
        ({"objective": "softmax_margin"}, r"other options \(objective was 'log', now 'softmax_margin'\)"),
        ({"max_iter": 9}, r"other options \(max_iter was 6, now 9\)"),
        ({"random_state": 7}, r"other options \(random_state was 0, now 7\)"),
        ({"holdout": (X[:2], Y[:2])}, r"other options \(holdout was 'auto', now not there\)"),
    ],
)
def test_other_options_are_refused_in_words(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    stopped(tmp_path)
    for model in (labeler(tmp_path, **changed), labeler(tmp_path).set_params(**changed)):
        with pytest.raises(DataError, match=said) as error:
            model.fit(X, Y)
        assert str(error.value).startswith(f"the checkpoint in {tmp_path} is from a run with")
        assert str(error.value).endswith("; remove it, or give another folder")


def test_other_data_are_refused_in_words(tmp_path: Path) -> None:
    stopped(tmp_path)
    others = [
        ([["c", *X[0][1:]], *X[1:]], Y, {}, "X"),
        (X, [["B", *Y[0][1:]], *Y[1:]], {}, "y"),
        (X, Y, {"sample_weight": np.arange(1.0, 16.0)}, "sample_weight"),
    ]
    for x, y, options, name in others:
        with pytest.raises(DataError, match=rf"other data \(the checksum of {name} differs\); remove it, or"):
            labeler(tmp_path).fit(x, y, **options)
    with pytest.raises(DataError, match="of SequenceLabeler, not of HMM"):
        HMM(2, Gaussian(), checkpoint=tmp_path).fit(np.zeros((5, 1)))
    warm = labeler(tmp_path, warm_start=True)
    with pytest.raises(DataError, match="warm_start was False, now True"):
        warm.fit(X, Y)
    held = {"holdout": (X[:3], Y[:3])}
    stopped(tmp_path / "held", **held)
    with pytest.raises(DataError, match="the checksum of holdout differs"):
        labeler(tmp_path / "held", holdout=(X[:3], Y[1:4])).fit(X, Y)


def test_threads_progress_and_the_place_may_change(tmp_path: Path) -> None:
    stopped(tmp_path / "a")
    os.rename(tmp_path / "a", tmp_path / "b")
    model = labeler(tmp_path / "b", n_jobs=2, verbose=None).fit(X, Y)
    np.testing.assert_allclose(model.weights_, labeler().fit(X, Y).weights_, rtol=1e-9, atol=1e-12)


def test_the_folder_is_a_folder(tmp_path: Path) -> None:
    for bad in (3, "", ["a"]):
        with pytest.raises(DataError, match="give the path of a folder, or None"):
            SequenceLabeler(checkpoint=bad).fit(X, Y)
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFileError, match="is a file; give a folder"):
        labeler(tmp_path / "file").fit(X, Y)
    storage.save(tmp_path / "checkpoint.0", "HMM", {}, {})
    with pytest.raises(ModelFileError, match="this is a HMM, not a checkpoint; give another folder"):
        labeler(tmp_path).fit(X, Y)


# -- what a model knows of it -------------------------------------------------------------------------------


def test_clones_have_the_folder_and_model_files_do_not(tmp_path: Path) -> None:
    with storing():
        model = labeler(tmp_path / "run").fit(X, Y)
    assert model.get_params()["checkpoint"] == tmp_path / "run"
    assert clone(model).checkpoint == tmp_path / "run"
    model.save(tmp_path / "model")
    assert b"run" not in (tmp_path / "model").read_bytes()
    assert load(tmp_path / "model").checkpoint is None
    with pytest.raises(ModelFileError, match="'Checkpoint'"):
        load(tmp_path / "run" / files(tmp_path / "run")[0])


def test_a_seed_that_was_drawn_is_kept(tmp_path: Path) -> None:
    options: dict[str, Any] = {"solver": "sgd", "random_state": None, "tol": None}
    np.random.seed(1)
    whole = labeler(**options).fit(X, Y)
    np.random.seed(1)
    stopped(tmp_path, **options)
    np.random.seed(2)  # another process draws another one
    resumed = labeler(tmp_path, **options).fit(X, Y)
    assert learned(resumed) == learned(whole)
    assert learned(resumed) != learned(labeler(**options).fit(X, Y))


# -- files --------------------------------------------------------------------------------------------------


def test_there_are_two_files_and_at_the_end_one(tmp_path: Path) -> None:
    for after in (1, 2, 3):
        stopped(tmp_path, after, solver="sgd", max_iter=50, tol=None)
        assert files(tmp_path) == (["checkpoint.0"] if after == 1 else ["checkpoint.0", "checkpoint.1"])
    with storing():
        labeler(tmp_path, solver="sgd", max_iter=50, tol=None).fit(X, Y)
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_one_damaged_file_loses_nothing(damage: str, tmp_path: Path) -> None:
    whole = labeler().fit(X, Y)
    for name in ("checkpoint.0", "checkpoint.1"):
        folder = tmp_path / f"run {name}"
        stopped(folder)
        content = (folder / name).read_bytes()
        changed = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
        hurt = {"cut": content[:-40], "changed": changed, "empty": b"", "other": b"x"}
        (folder / name).write_bytes(hurt[damage])
        with pytest.warns(CheckpointWarning, match=f"{name}: the checkpoint is damaged .* the other one"):
            resumed = labeler(folder).fit(X, Y)
        assert learned(resumed) == learned(whole)
        assert len(files(folder)) == 1
    for name in ("checkpoint.0", "checkpoint.1"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ModelFileError, match="remove the folder to start again"):
        labeler(tmp_path).fit(X, Y)
    assert (tmp_path / "checkpoint.0").read_bytes() == b"x"


def test_newer_and_strange_contents_are_refused(tmp_path: Path) -> None:
    stopped(tmp_path)
    for name in files(tmp_path):
        kind, meta, arrays = storage.read(tmp_path / name)
        storage.save(tmp_path / name, kind, {**meta, "version": VERSION + 1}, arrays)
    with pytest.raises(ModelFileError, match="a newer version of trellis wrote this checkpoint"):
        labeler(tmp_path).fit(X, Y)
    strange = {"stage": 0, "run": {"@": "dict", "items": []}}
    for change in ({"done": 3}, {"identity": None}, {"current": strange}):
        for name in files(tmp_path):
            storage.save(tmp_path / name, kind, {**meta, **change}, arrays)
        with pytest.raises(ModelFileError, match="remove it, or give another folder"):
            labeler(tmp_path).fit(X, Y)


@pytest.mark.parametrize("when", [0, 1, 3])
def test_a_full_disk_is_one_warning_and_keeps_the_old_checkpoint(
    when: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the ``when``-th file on there is no room."""
    fsync, written = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal written
        written += 1
        if written > 2 * when:  # a file and its folder
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    whole = labeler().fit(X, Y)
    with storing(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = labeler(tmp_path).fit(X, Y)
    said = [str(w.message) for w in caught if w.category is CheckpointWarning]
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert "training continues" in said[0]
    assert learned(model) == learned(whole)
    assert len(files(tmp_path)) == min(when, 2)
    monkeypatch.setattr(os, "fsync", fsync)
    assert learned(labeler(tmp_path).fit(X, Y)) == learned(whole)  # from what was there before


@pytest.mark.parametrize("room", [1, 3])
def test_a_disk_that_is_really_full(room: int, tmp_path: Path) -> None:
    """With room for none, or for one of the two files and half of the next."""
    whole = labeler().fit(X, Y)
    with storing():
        labeler(tmp_path / "run").fit(X, Y)
    size = max(one.stat().st_size for one in (tmp_path / "run").iterdir())
    with small_disk(tmp_path / "disk", max(size * room // 2, 4096)) as disk:
        with storing(), pytest.warns(CheckpointWarning, match="No space left on device.*training continues"):
            assert learned(labeler(disk).fit(X, Y)) == learned(whole)
        assert all(one.name.startswith("checkpoint.") for one in disk.iterdir())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CheckpointWarning)
            assert learned(labeler(disk).fit(X, Y)) == learned(whole)


def test_a_stop_while_a_file_is_written_keeps_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, replace, times = labeler().fit(X, Y), os.replace, 0

    def die(*paths: Any) -> None:
        nonlocal times
        times += 1
        if times in (2, 5, 6):
            raise Killed
        replace(*paths)

    monkeypatch.setattr(os, "replace", die)
    for _ in range(3):
        with storing(), pytest.raises(Killed):
            labeler(tmp_path, max_iter=6).fit(X, Y)
    with storing():
        assert learned(labeler(tmp_path).fit(X, Y)) == learned(whole)


# -- the driver ---------------------------------------------------------------------------------------------


class Counting:
    """Adds one to its weights in each step; ``fails``: what it raises in some step."""

    name = "counting"

    def __init__(self, fails: Mapping[int, Exception] | None = None, stored: bool = True) -> None:
        self.fails, self.stored, self.steps = dict(fails or {}), stored, 0

    def start(self, problem: Any, weights: np.ndarray, rng: np.random.Generator) -> Run:
        return (_CountingRun if self.stored else _PlainRun)(self, weights)


class _PlainRun:
    def __init__(self, solver: Counting, weights: np.ndarray) -> None:
        self.solver, self.weights = solver, weights

    def step(self) -> dict[str, float]:
        self.solver.steps += 1
        at = round(float(self.weights[0])) + 1
        if at in self.solver.fails:
            raise self.solver.fails[at]
        self.weights = self.weights + 1.0
        return {"objective": -float(at)}

    def status(self) -> Status | None:
        return None


class _CountingRun(_PlainRun):
    def snapshot(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self.weights = snapshot["weights"]


def count(solver: Counting, folder: Path, runs: int = 1, **options: Any) -> tuple[list[float], Any]:
    """Several runs, each of which begins where the one before ended."""
    kept, weights = Checkpoints(folder, IDENTITY), np.zeros(2)
    reached = []
    for _ in range(runs):
        found = minimise(
            solver, None, weights, max_iter=60, rng=np.random.default_rng(0), checkpoints=kept, **options
        )
        weights = found.weights
        reached.append(float(weights[0]))
    kept.close()
    return reached, found


IDENTITY = {"kind": "test", "options": {}, "data": {}}


def test_a_step_that_breaks_down_ends_the_run_with_the_last_good_one(tmp_path: Path) -> None:
    with storing():
        reached, found = count(Counting({57: StepError("NaN in iteration 57")}), tmp_path)
    assert reached == [56.0]
    assert str(found.status).startswith("stopped after 56 iterations: NaN in iteration 57; the last complete")
    again = Counting()
    reached, found = count(again, tmp_path)  # it is done
    assert (reached, again.steps, found.n_iter) == ([56.0], 0, 56)


def test_an_error_leaves_the_last_good_state(tmp_path: Path) -> None:
    with storing(), pytest.raises(NumericalError, match="not finite"):
        count(Counting({57: NumericalError("the gradient is not finite")}), tmp_path)
    mended = Counting()
    reached, found = count(mended, tmp_path)
    assert (reached, mended.steps, found.n_iter) == ([60.0], 4, 60)
    assert_array_equal(found.history["objective"], -np.arange(1.0, 61.0))
    assert np.all(np.diff(found.history["seconds"]) >= 0)


def test_finished_stages_are_not_run_again(tmp_path: Path) -> None:
    with storing(), pytest.raises(NumericalError):
        count(Counting({150: NumericalError("no")}), tmp_path, runs=3)
    mended = Counting()
    reached, _ = count(mended, tmp_path, runs=3)
    assert (reached, mended.steps) == ([60.0, 120.0, 180.0], 31)
    assert files(tmp_path) == ["checkpoint.1"] or files(tmp_path) == ["checkpoint.0"]


def test_a_run_without_snapshots_begins_its_stage_anew(tmp_path: Path) -> None:
    with storing(), pytest.raises(NumericalError):
        count(Counting({100: NumericalError("no")}, stored=False), tmp_path, runs=2)
    mended = Counting(stored=False)
    reached, _ = count(mended, tmp_path, runs=2)
    assert (reached, mended.steps) == ([60.0, 120.0], 60)


@pytest.mark.parametrize("keep", [False, True])
def test_a_request_to_stop_waits_for_the_iteration_and_stores_it(keep: bool, tmp_path: Path) -> None:
    class Asked(Counting):
        def start(self, *given: Any) -> Run:
            run: Any = super().start(*given)
            step = run.step

            def asking() -> Any:
                if self.steps == 10:
                    assert stop_requests.ask_to_stop()
                    assert not stop_requests.ask_to_stop()  # the second time is at once
                return step()

            run.step = asking
            return run

    assert not stop_requests.ask_to_stop()  # nobody listens
    stop_requests.forget_requests()
    try:
        if keep:
            reached, found = count(Asked(), tmp_path, keep_interrupted=True)
            assert (reached, found.interrupted) == ([11.0], True)
        else:
            with pytest.raises(KeyboardInterrupt):
                count(Asked(), tmp_path)
    finally:
        stop_requests.forget_requests()
    assert files(tmp_path) == ["checkpoint.0"]  # however little time has passed
    rest = Counting()
    assert count(rest, tmp_path)[0] == [60.0]
    assert rest.steps == 49


def test_a_request_that_no_iteration_saw_is_not_lost() -> None:
    try:
        with pytest.raises(KeyboardInterrupt), stop_requests.listening():
            assert stop_requests.ask_to_stop()
    finally:
        stop_requests.forget_requests()


@pytest.mark.parametrize(("seconds", "cost"), [(0.001, 0.2), (0.1, 0.2), (30.0, 0.2), (5.0, 4.0)])
def test_storing_takes_a_small_share_of_the_time(
    seconds: float, cost: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that each step and each file move on."""
    clock, spent, lost, longest = 0.0, 0.0, 0.0, 0.0

    def slow(folder: CheckpointFolder, *content: Any) -> None:
        nonlocal clock, spent, lost
        clock, spent, lost = clock + cost, spent + cost, 0.0

    monkeypatch.setattr(CheckpointFolder, "write", slow)
    monkeypatch.setattr(checkpoints.time, "perf_counter", lambda: clock)
    kept, run, steps = Checkpoints(tmp_path, IDENTITY), _CountingRun(Counting(), np.zeros(2)), 3000
    stage = kept.stage()
    assert stage is not None
    for _ in range(steps):
        clock, lost = clock + seconds, lost + seconds
        stage.save(run, {})
        longest = max(longest, lost)
    assert spent <= 0.02 * seconds * steps + (cost if seconds * steps > 1.5 else 0.0)
    if seconds * steps > 100 * cost:
        assert spent > 0
        assert longest <= 2 * max(seconds, cost / checkpoints.SHARE) + 2.0


def test_the_first_file_waits_until_it_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labeler(tmp_path).fit(X, Y)  # over in no time, and done again in no time
    assert files(tmp_path) == []
    monkeypatch.setattr(checkpoints, "END_SHARE", np.inf)
    labeler(tmp_path).fit(X, Y)  # only the end is kept
    kind, meta, _ = storage.read(tmp_path / "checkpoint.0")
    assert (kind, meta["number"], meta["current"], len(meta["done"])) == ("Checkpoint", 1, None, 1)


def test_online_em_goes_on_from_its_model_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(30, 2)) + np.repeat([[0.0], [4.0]], 15, axis=0) for _ in range(4)]
    whole = HMM(2, Gaussian(), random_state=0)
    parts = HMM(2, Gaussian(), random_state=0)
    for batch in batches:
        whole.partial_fit(batch)
        parts.partial_fit(batch).save(tmp_path / "model")
        parts = load(tmp_path / "model")
    assert learned(parts) == learned(whole)


def test_fits_of_several_kinds_share_nothing(tmp_path: Path) -> None:
    """A search over data gives each fit a folder of its own, or is told so."""
    with storing():
        labeler(tmp_path).fit(X, Y)
    with pytest.raises(DataError, match="other data"):
        clone(labeler(tmp_path)).fit(X[:5], Y[:5])
    whole, _ = stopped_again_and_again(lambda folder: labeler(folder).fit(X[:5], Y[:5]), tmp_path / "own", 2)
    assert learned(whole) == learned(labeler().fit(X[:5], Y[:5]))
