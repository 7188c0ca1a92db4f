"""The benchmarks of limits and of growth run on tiny sizes, and their arithmetic is right."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(CHECKOUT / "benchmarks"))
    for name in ("rich", "threadpoolctl"):
        pytest.importorskip(name)
    return importlib.import_module


def test_the_page_of_limits_on_tiny_sizes(
    load: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits: ModuleType = load("limits")  # type: ignore[operator]
    page, roofline = tmp_path / "limits.md", tmp_path / "roofline.png"
    page.write_text(f"before\n{limits.BEGIN}\nold\n{limits.END}\nafter\n", encoding="utf-8")
    options = ["--quick", "--data", str(tmp_path), "--page", str(page), "--picture", str(roofline)]
    monkeypatch.setattr(sys, "argv", ["limits.py", *options])
    limits.main()
    assert "not measured: " in capsys.readouterr().out  # there is no corpus
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text  # noqa: PT018
    for kernel in ("Viterbi from scores", "HMM: E-step", "Kalman smoother", "triad in memory"):
        assert f"| {kernel}" in text
    assert roofline.stat().st_size > 10_000
    limits.main()  # the page can be written again
    assert page.read_text(encoding="utf-8").count(limits.BEGIN) == 1


def test_the_page_of_the_project_has_its_marks(load: object) -> None:
    limits: ModuleType = load("limits")  # type: ignore[operator]
    text = (CHECKOUT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert text.index(limits.BEGIN) < text.index("| triad in L1 |") < text.index(limits.END)


def test_the_limit_is_the_slower_of_bytes_and_operations(load: object) -> None:
    limits: ModuleType = load("limits")  # type: ignore[operator]
    machine_of: ModuleType = load("_machine")  # type: ignore[operator]
    costs: ModuleType = load("_kernel_costs")  # type: ignore[operator]
    levels = [
        machine_of.Level("L1", 1000.0, 0, {1: 100.0}),
        machine_of.Level("memory", np.inf, 0, {1: 10.0}),
    ]
    machine = machine_of.Machine(levels, {1: 50.0})
    for flops, n_bytes, size, seconds, by in (
        (100.0, 100.0, 500.0, 2.0, "operations"),
        (100.0, 400.0, 500.0, 4.0, "bytes from L1"),
        (100.0, 400.0, 5000.0, 40.0, "bytes from memory"),
    ):
        assert limits.Measured("", costs.Cost(flops, n_bytes, size), 1.0, "").limit(machine) == (seconds, by)


def test_more_rows_cost_in_proportion(load: object) -> None:
    costs: ModuleType = load("_kernel_costs")  # type: ignore[operator]
    sizes = [costs.CompactSizes(10, rows, 0, 5, 100_000, 8, 8, 1024) for rows in (30, 40)]
    few, more = (costs.crf_evaluation(one) for one in sizes)
    assert more.flops - few.flops == 2 * 8  # scored, and given back
    assert more.bytes - few.bytes == 3 * 8 * 8 + 2 * 4  # read, read and written; its number twice
    scored, given_back = (
        [stage.moved for stage in costs.crf_stages(one) if stage.name in ("scores", "pull-back")]
        for one in sizes
    )
    assert np.subtract(given_back, scored).tolist() == [8 * 8 + 4, 2 * 8 * 8 + 4]


def test_the_table_of_growth_on_tiny_sizes(
    load: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    growth: ModuleType = load("growth")  # type: ignore[operator]
    monkeypatch.setattr(growth, "MIN_SECONDS", 0.0)
    figures = growth.Figures("growth", [str(i) for i in range(9)])
    swept = [sweep._replace(sizes=sweep.sizes[:2]) for sweep in growth.sweeps(8)]
    measured = [growth.measure(figures, sweep, 1) for sweep in swept]
    assert {task for found in measured for task in found} == set(growth.TASKS)
    axes = {sweep.axis for sweep in swept}
    assert axes == {"length", "sequences", "labels", "features", "per_step", "threads"}
    assert all(
        np.isfinite(seconds).all() and (seconds > 0).all() for found in measured for seconds in found.values()
    )
    growth.picture(tmp_path / "growth.png", measured, swept)
    figures.print()


def test_exponents_are_those_of_power_laws(load: object) -> None:
    growth: ModuleType = load("growth")  # type: ignore[operator]
    sizes = 2.0 ** np.arange(5)
    assert growth.slope(sizes, 3.0 * sizes**1.5) == pytest.approx((1.5, 0.0), abs=1e-12)
    noisy = sizes * np.exp([0.1, -0.1, 0.0, 0.1, -0.1])
    assert growth.slope(sizes, noisy)[1] == pytest.approx(0.08, abs=0.02)
