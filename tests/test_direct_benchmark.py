"""The direct-loss benchmark: its statistics, its tasks and its bookkeeping; generated rows at a tiny size."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
GENERATED = "outlier-costs", "images", "hidden"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark with few examples, learning with two values of l2."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    module = import_module("direct")
    tiny = module.Sizes((20, 20), (10, 3), (12, 4), (20, 20), (20, 20))
    monkeypatch.setattr(module, "QUICK", tiny)
    monkeypatch.setattr(import_module("_direct_fits"), "L2", (10.0, 1.0))
    return module


def test_intervals_cover_the_mean(bench: ModuleType) -> None:
    paired = import_module("_paired").paired
    rng = np.random.default_rng(0)
    n, draws = 5, 4000
    hard = rng.normal(50.0, 10.0, (draws, n))  # what both methods share
    first, second = (hard + mean + rng.normal(0.0, 1.0, (draws, n)) for mean in (0.7, 0.0))
    found = [paired(a, b, 0.9) for a, b in zip(first, second, strict=True)]
    covered = np.mean([abs(one.mean - 0.7) <= one.half for one in found])
    assert covered == pytest.approx(0.9, abs=4 * np.sqrt(0.9 * 0.1 / draws))
    assert np.mean([one.error**2 for one in found]) == pytest.approx(2.0 / n, rel=0.1)


def test_verdicts(bench: ModuleType) -> None:
    module = import_module("_paired")
    Bar, paired, not_worse = module.Bar, module.paired, module.not_worse
    assert not_worse(paired([10.2, 10.3], [10.0, 10.0]))  # within 0.3 points
    assert not_worse(paired([11.0, 9.7], [10.0, 10.0]))  # within one standard error
    assert not not_worse(paired([10.5, 10.4], [10.0, 10.0]))
    assert not_worse(paired([10.2], [10.0]))  # one seed has no standard error
    assert not not_worse(paired([10.4], [10.0]))
    differences = {"CRF": paired([5.0, 5.0], [7.0, 8.0]), "margin": paired([5.0, 5.0], [6.0, 6.0])}
    assert Bar(("CRF", "margin"), 1.0).met(differences)
    assert not Bar(("CRF", "margin"), 2.0).met(differences)
    assert Bar(("CRF",), 2.0).met(differences)
    assert module.best_of({"CRF": [1.0, 4.0], "margin": [2.0, 2.0]}) == "margin"


def test_generated_labels_follow_their_transitions(bench: ModuleType) -> None:
    tasks = import_module("_direct_tasks")
    sizes = tasks.SIZES._replace(chains=(2000, 1))
    y = np.array(tasks.chains(3, sizes, outliers=False, costs=False).train.y)
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (y[:, :-1].ravel(), y[:, 1:].ravel()), 1.0)
    np.testing.assert_allclose(pairs / pairs.sum(axis=1, keepdims=True), tasks.TRANSITIONS, atol=0.03)


def test_seeds_draw_their_own_data_and_the_same_each_time(bench: ModuleType) -> None:
    tasks = import_module("_direct_tasks")
    for task in (tasks.impulse_images, tasks.hidden_images):
        first, again, other = (task(seed, bench.QUICK) for seed in (1, 1, 2))
        for part in ("train", "test"):
            grey = [[g.nodes for g in getattr(one, part).X] for one in (first, again, other)]
            np.testing.assert_array_equal(grey[0], grey[1])
            assert not np.array_equal(grey[0], grey[2])


def test_labels_that_training_never_saw_are_wrong(bench: ModuleType) -> None:
    fits, tasks = import_module("_direct_fits"), import_module("_direct_tasks")
    data = tasks.Data([["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]])
    chains = fits.Chains()
    model = chains.new("log", fits.Hamming(), l2=0.01).fit(*data)
    unseen = tasks.Data([["a", "b", "a", "b"]], [["A", "B", "C", "A"]])
    assert chains.loss(model, unseen, fits.Hamming(), "best") == 50.0
    assert chains.loss(model, unseen, tasks.ZeroOne(), "best") == 100.0
    assert chains.loss(model, data, fits.Hamming(), "minimum_risk") == 0.0


@pytest.fixture
def measured(bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, str]:
    out = tmp_path / "results.jsonl"
    bench.main(["--quick", "--out", str(out), "--rows", *GENERATED, "--markdown", str(tmp_path / "table.md")])
    return out, capsys.readouterr().out


def test_rows_are_measured_and_not_measured_again(
    bench: ModuleType, measured: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, shown = measured
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    keys = [(line["row"], line["seed"], line["method"]) for line in lines]
    assert sorted(keys) == sorted((r, s, m) for r in GENERATED for s in (100, 101) for m in bench.METHODS)
    assert all(0.0 <= line["loss"] <= 1000.0 for line in lines)
    assert shown.count("not worse") >= len(GENERATED)
    table = (out.parent / "table.md").read_text().splitlines()
    assert len({line.count("|") for line in table}) == 1
    assert len(table) == 2 + len(GENERATED)
    for line in lines:
        if line["row"] == "outlier-costs" and line["method"] == "CRF":
            assert line["chosen"]["l2"] in (10.0, 1.0)

    out.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    asked = []
    monkeypatch.setattr(
        bench.Fits, "measure", lambda self, method: asked.append(method) or bench.Figure(1.0, {})
    )
    bench.main(["--quick", "--out", str(out), "--rows", *GENERATED])
    assert asked == [lines[-1]["method"]]
    bench.main(["--quick", "--out", str(out), "--rows", "right", "--objectives", "risk", "--seeds", "1"])
    assert asked[1:] == ["risk"]


def test_rows_without_their_data_are_said_so(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.main(["--quick", "--data", str(tmp_path), "--rows", "letters", "tags-few", "chunks"])
    assert capsys.readouterr().out.count("not measured") == 3
