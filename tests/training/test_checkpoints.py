"""Checkpoint files: a run goes on where its file stands, and refuses the files of other runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError
from trellis.training.checkpoints import CheckpointFile


class Counting:
    """Weights and a count."""

    def __init__(self, count: int = 0) -> None:
        self.weights, self.count = np.full(3, float(count)), count

    def state(self) -> dict[str, Any]:
        return {"weights": self.weights, "count": self.count, "moments": {0: {"loss": np.inf}}}

    def restore(self, state: dict[str, Any]) -> None:
        self.weights, self.count = state["weights"], state["count"]
        assert state["moments"] == {0: {"loss": np.inf}}


def test_a_run_goes_on_where_its_file_stands(tmp_path: Path) -> None:
    checkpoint = CheckpointFile(tmp_path / "run", {"l2": "1.0", "data": 7})
    assert checkpoint.restore(Counting()) == {}
    checkpoint.save(Counting(2), {"objective": [3.0, np.nan]})
    checkpoint.save(Counting(3), {"objective": [3.0, np.nan, 1.0]})
    run = Counting()
    history = checkpoint.restore(run)
    assert_array_equal(history["objective"], [3.0, np.nan, 1.0])
    assert run.count == 3
    assert_array_equal(run.weights, 3.0)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    CheckpointFile(path, {"data": 7}).save(Counting(1), {})
    with pytest.raises(DataError, match="a run with other data"):
        CheckpointFile(path, {"data": 8}).restore(Counting())
    storage.save(path, "HMM", {}, {})
    with pytest.raises(ModelFileError, match="holds a HMM, not a checkpoint"):
        CheckpointFile(path, {}).restore(Counting())
    storage.save(path, "Checkpoint", {"identity": {}, "state": {"@": "dict", "items": []}}, {})
    with pytest.raises(ModelFileError, match="does not fit this model"):
        CheckpointFile(path, {}).restore(Counting())
