"""``trellis train --transitions``: many labels from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from trellis import load
from trellis.cli.app import app
from trellis.core.errors import DataError


def run(*arguments: object, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def column_file(n: int, k: int) -> str:
    """Words of labels that walk round a circle by one or two steps."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(n):
        state = int(rng.integers(k))
        for _ in range(12):
            lines.append(f"w{state if rng.random() < 0.8 else rng.integers(k)} T{state:03d}")
            state = int(state + rng.integers(1, 3)) % k
        lines.append("")
    return "\n".join(lines) + "\n"


def test_train_tag_evaluate_and_inspect_with_500_labels(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(column_file(400, 500))
    model = tmp_path / "model"
    run("train", tmp_path / "train.txt", "-o", model, "-q", "--transitions", "observed", "--max-iter", 12)
    labeler = load(model)
    assert len(labeler.classes_) == 500
    assert len(labeler.layout_.pairs) <= 1000  # not 250,000
    assert model.stat().st_size < 1_500_000
    tagged = run("tag", model, tmp_path / "train.txt", "--labels-only").split()
    assert len(tagged) == 400 * 12
    assert "tokens right" in run("evaluate", model, tmp_path / "train.txt")
    text = run("inspect", model, "-n", 1)
    assert "transitions=observed" in text
    assert "choose labels with --label" in text
    assert "T002" in run("inspect", model, "-l", "T001", "-l", "T002")
    listed = json.loads(run("inspect", model, "-n", 1, "--json"))["transitions"]
    assert len(listed) == len(labeler.layout_.pairs)
    assert {before for before, _, _ in listed} == set(labeler.classes_)


def test_pairs_from_a_file_and_errors(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(column_file(30, 6))
    pairs = [f"T{j:03d} T{(j + step) % 6:03d}" for j in range(6) for step in (1, 2)]
    (tmp_path / "pairs").write_text("\n".join(pairs) + "\n")
    run("train", tmp_path / "train.txt", "-o", tmp_path / "m", "-q", "--transitions", tmp_path / "pairs")
    assert len(load(tmp_path / "m").layout_.pairs) == 12
    with pytest.raises(DataError, match="transitions is 'seen'"):
        run("train", tmp_path / "train.txt", "-o", tmp_path / "m", "--transitions", "seen")
    (tmp_path / "pairs").write_text(pairs[0] + "\n")
    with pytest.raises(DataError, match=r"train.txt:\d+: .* may not follow"):
        run("train", tmp_path / "train.txt", "-o", tmp_path / "m", "--transitions", tmp_path / "pairs")
