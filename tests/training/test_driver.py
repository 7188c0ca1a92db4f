"""The loop's bookkeeping, with a scripted solver: what it measures, when it stops, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from trellis.core.status import Status
from trellis.solvers.run import Solution
from trellis.training.checkpoints import Checkpoints
from trellis.training.driver import EarlyStopping, minimise, minimise_run


@dataclass
class Script:
    """Weights become (1, 2, 3, ...), one per step; ``events`` replaces the measurement of some steps."""

    finish_at: int | None = None
    events: Mapping[int, BaseException] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=lambda: {"objective": 1.0})
    name = "script"

    def start(self, problem: object, weights: np.ndarray, rng: np.random.Generator) -> ScriptRun:
        return ScriptRun(self, weights)


class ScriptRun:
    def __init__(self, script: Script, weights: np.ndarray) -> None:
        self.script, self.weights, self.steps = script, weights, 0

    def step(self) -> Mapping[str, float]:
        if self.steps + 1 in self.script.events:
            raise self.script.events[self.steps + 1]
        self.steps += 1
        self.weights += 1  # in place, as solvers do: whoever keeps weights must copy them
        return self.script.measured

    def status(self) -> Status | None:
        return Status(True, "the script ends here") if self.steps == self.script.finish_at else None


def run(
    script: Script, max_iter: int = 10, losses: Sequence[float] | None = None, **options: float
) -> Solution:
    stopping = None
    if losses is not None:
        stopping = EarlyStopping(lambda w: losses[round(float(w[0])) - 1], **options)  # type: ignore[arg-type]
    return minimise(
        script,
        None,
        np.zeros(2),
        max_iter=max_iter,
        rng=np.random.default_rng(0),
        early_stopping=stopping,
        keep_interrupted=True,
    )


def test_status_is_one_sentence() -> None:
    assert str(Status(True, "done", 1)) == "converged after 1 iteration: done"
    assert str(Status(False, "no", 2)) == "stopped after 2 iterations: no"
    assert str(Status(False, "no", 0)) == "stopped after 0 iterations: no"


def test_a_finished_solver_converges_with_its_own_reason() -> None:
    solution = run(Script(finish_at=4))
    assert str(solution.status) == "converged after 4 iterations: the script ends here"
    assert solution.n_iter == 4
    np.testing.assert_array_equal(solution.weights, [4.0, 4.0])


def test_finishing_in_the_last_iteration_is_convergence() -> None:
    assert run(Script(finish_at=10)).status.converged


@pytest.mark.parametrize(
    ("measured", "says"),
    [
        ({"objective": 1.0}, "max_iter=3 was reached; raise max_iter for more iterations"),
        (
            {"gradient_norm": 0.25},
            "max_iter=3 was reached with a gradient norm of 0.25; raise max_iter or tol",
        ),
        (
            {"gap": 0.5, "gradient_norm": 2},
            "max_iter=3 was reached at most 0.5 above the optimum; raise max_iter or tol",
        ),
    ],
)
def test_running_out_of_iterations_is_not_convergence(measured: Mapping[str, float], says: str) -> None:
    solution = run(Script(measured=measured), max_iter=3)
    assert not solution.status.converged
    assert solution.status.reason == says
    assert solution.status.n_iter == 3


def test_no_iterations_at_all() -> None:
    solution = run(Script(), max_iter=0)
    assert not solution.status.converged
    assert solution.history == {}
    np.testing.assert_array_equal(solution.weights, 0.0)


def test_history_has_one_entry_per_iteration() -> None:
    solution = run(Script(measured={"objective": 2, "planes": 3}), max_iter=6, losses=[1.0] * 6, patience=9)
    assert {key: len(values) for key, values in solution.history.items()} == {
        "objective": 6,
        "planes": 6,
        "seconds": 6,
        "holdout_loss": 6,
    }
    assert solution.history["objective"] == [2.0] * 6
    assert np.all(np.diff(solution.history["seconds"]) >= 0)


def test_early_stopping_keeps_the_best_weights() -> None:
    solution = run(Script(), losses=[5, 3, 2, 4, 4, 4, 4, 4, 1, 0], patience=3)
    assert solution.n_iter == 6
    assert not solution.status.converged  # no tolerance was met
    assert str(solution.status) == (
        "stopped after 6 iterations: early on the hold-out set, whose loss did not fall below 2 for 3 "
        "iterations; its best weights are kept"
    )
    np.testing.assert_array_equal(solution.weights, [3.0, 3.0])
    assert solution.history["holdout_loss"] == [5, 3, 2, 4, 4, 4]


def test_a_small_improvement_does_not_count() -> None:
    solution = run(Script(), losses=[5, 4.95, 4.9, 4.85, 4, 3, 2, 1, 0, 0], patience=3, min_improvement=0.5)
    assert solution.n_iter == 4
    np.testing.assert_array_equal(solution.weights, [1.0, 1.0])


def test_the_best_hold_out_weights_win_over_the_last_ones_however_it_ends() -> None:
    losses = [3, 1, 2, 2, 2, 2]
    for script, max_iter in (
        (Script(finish_at=4), 10),
        (Script(), 4),
        (Script(events={5: KeyboardInterrupt()}), 9),
    ):
        solution = run(script, max_iter, losses=losses, patience=5)
        np.testing.assert_array_equal(solution.weights, [2.0, 2.0])


def test_a_hold_out_loss_that_is_never_a_number_keeps_the_last_weights() -> None:
    solution = run(Script(), losses=[np.nan] * 10, patience=4)
    assert solution.n_iter == 4
    np.testing.assert_array_equal(solution.weights, [4.0, 4.0])


def test_ctrl_c_returns_the_weights_reached() -> None:
    solution = run(Script(events={4: KeyboardInterrupt()}))
    assert str(solution.status) == (
        "stopped after 3 iterations: interrupted from the keyboard; the last complete iteration is kept"
    )
    np.testing.assert_array_equal(solution.weights, [3.0, 3.0])
    assert len(solution.history["objective"]) == 3


def test_ctrl_c_in_a_callback() -> None:
    def interrupt(iteration: int, measured: Mapping[str, float], weights: np.ndarray) -> None:
        if iteration == 2:
            raise KeyboardInterrupt

    def search(**options: Any) -> Any:
        rng = np.random.default_rng(0)
        return minimise(Script(), None, np.zeros(1), max_iter=5, rng=rng, on_iteration=interrupt, **options)

    solution = search(keep_interrupted=True)
    assert not solution.status.converged
    assert solution.n_iter == len(solution.history["objective"]) == 2
    with pytest.raises(KeyboardInterrupt):
        search()


def test_other_errors_are_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        run(Script(events={2: ZeroDivisionError()}))


def test_callbacks_see_each_iteration() -> None:
    seen = []
    minimise(
        Script(measured={"gap": 0.1}),
        None,
        np.zeros(1),
        max_iter=3,
        rng=np.random.default_rng(0),
        on_iteration=lambda i, measured, w: seen.append(
            (i, measured["gap"], measured["seconds"] >= 0, float(w[0]))
        ),
    )
    assert seen == [(1, 0.1, True, 1.0), (2, 0.1, True, 2.0), (3, 0.1, True, 3.0)]


def test_the_caller_s_weights_are_not_touched() -> None:
    weights = np.zeros(2)
    minimise(Script(), None, weights, max_iter=3, rng=np.random.default_rng(0))
    assert not weights.any()


def test_a_step_has_one_blas_thread_and_the_caller_s_number_comes_back() -> None:
    class Watching(Script):
        def start(self, problem: object, weights: np.ndarray, rng: np.random.Generator) -> ScriptRun:
            step = (watched := super().start(problem, weights, rng)).step
            watched.step = lambda: inside.append(blas_threads()) or step()  # type: ignore[func-returns-value,method-assign]
            return watched

    inside: list[dict[str, int]] = []
    before = blas_threads()
    run(Watching(finish_at=2))
    assert inside == [dict.fromkeys(before, 1)] * 2
    assert blas_threads() == before


def blas_threads() -> dict[str, int]:
    libraries = (library for library in threadpool_info() if library["user_api"] == "blas")
    return {library["filepath"]: library["num_threads"] for library in libraries}


class StoredRun(ScriptRun):
    def snapshot(self) -> dict[str, Any]:
        return {"weights": self.weights, "steps": self.steps}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self.weights, self.steps = snapshot["weights"], snapshot["steps"]


def resumed(folder: Path | None, max_iter: int, losses: Sequence[float], **options: int) -> Any:
    stopping = EarlyStopping(lambda w: losses[round(float(w[0])) - 1], **options)
    identity = {"kind": "test", "options": {}, "data": {}}
    return minimise_run(
        StoredRun(Script(), np.zeros(1)),
        max_iter=max_iter,
        early_stopping=stopping,
        checkpoints=Checkpoints(folder, identity, extensible=True),
        limit="max_epochs",
    )


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    losses, checkpoint = [5, 3, 2, 4, 4, 4, 4, 1], tmp_path
    for max_iter, says in ((2, "max_epochs=2 was reached; raise max_epochs for more iterations"), (4, "")):
        weights, trace = resumed(checkpoint, max_iter, losses, patience=3)
        assert not says or trace.status.reason == says
    weights, trace = resumed(checkpoint, 8, losses, patience=3)
    whole_weights, whole = resumed(None, 8, losses, patience=3)
    assert (weights, trace.status, trace.n_iter) == (whole_weights, whole.status, 6)
    assert trace.history["holdout_loss"] == whole.history["holdout_loss"]
    assert np.all(np.diff(trace.history["seconds"]) >= 0)
    again = resumed(checkpoint, 8, losses, patience=3)  # what has ended stays ended
    assert (again[0], again[1].status, again[1].n_iter) == (weights, trace.status, 6)


def test_patience_may_begin_later() -> None:
    _, trace = resumed(None, 8, [1, 2, 3, 4, 5, 6, 7, 8], patience=2, patience_from=3)
    assert str(trace.status).startswith(
        "stopped after 5 iterations: early on the hold-out set, whose loss did not fall below 1"
    )
