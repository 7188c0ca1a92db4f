"""The experiment of docs/label-bias.md: the CRF is right, the MEMM is wrong, and for the reason given."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import MEMM

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def experiment() -> dict[str, Any]:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    try:
        return runpy.run_path(str(ROOT / "examples/gallery/sequences/plot_label_bias.py"))
    finally:
        plt.close("all")


def test_the_crf_is_right_where_the_memm_is_wrong(experiment: dict[str, Any]) -> None:
    shares, best = experiment["shares"], experiment["best"]
    crf, memm, ahead = shares["CRF"], shares["MEMM"], shares["MEMM that sees the next letter"]
    assert best - 0.02 < crf["all"] < best + 0.02
    assert crf["ton, no letter misread"] == 1.0
    assert memm["ton, no letter misread"] == 0.0
    assert memm["all"] < 0.65
    assert ahead["all"] > best - 0.02
    page = (ROOT / "docs" / "label-bias.md").read_text()
    for share in (value for row in shares.values() for value in row.values()):
        assert f"{100 * share:.1f}" in page


def test_a_label_with_one_successor_does_not_listen(experiment: dict[str, Any]) -> None:
    assert min(experiment["beliefs"].values()) > 0.99
    X, y = [["t", "i"]] * 6 + [["t", "o"]] * 4, [["t1", "i"]] * 6 + [["t2", "o"]] * 4
    model = MEMM(constraints=[("t1", "i"), ("t2", "o")], l2=1e-3).fit(X, y)
    for letter in "tio":
        first = model.predict_marginals([["t", letter]])[0]
        np.testing.assert_allclose(first.max(axis=1), 0.6, atol=1e-3)  # the share of t1, whatever comes next
