"""Figures of labelled images: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.report.graph_plots import plot_label_image, plot_shade_image, shade_levels, unit_shades
from trellis.report.pages.grid_pictures import label_picture, runs_path


def test_an_image_of_labels() -> None:
    labels = np.array([["b", "a", "a"], ["a", "b", "b"]])
    axes = plot_label_image(labels, classes=["b", "a"])
    assert axes.images[0].get_array().tolist() == [[0, 1, 1], [1, 0, 0]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["b", "a"]
    assert plot_label_image(labels).images[0].get_array().tolist() == [[1, 0, 0], [0, 1, 1]]
    with pytest.raises(DataError, match="'a' is not among the classes"):
        plot_label_image(labels, classes=["b"])
    with pytest.raises(DataError, match="shape \\(3,\\)"):
        plot_label_image(["a", "b", "a"])


def test_shades_are_levels_from_0_to_1() -> None:
    assert shade_levels([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan])[0].tolist() == [0, 0, 4, 8, 8, 0]
    axes = plot_shade_image([[0.0, 0.25], [1.0, 0.5]])
    assert axes.images[0].get_array().tolist() == [[0, 2], [8, 4]]
    assert unit_shades([2.0, 4.0, 3.0]).tolist() == [0.0, 1.0, 0.5]
    assert unit_shades([5.0, 5.0]).tolist() == [0.0, 0.0]


def test_runs_cover_each_pixel_once() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.random((7, 9)) < 0.5
    drawn = np.zeros_like(pixels, dtype=int)
    for run in runs_path(pixels).removesuffix("z").split("z"):
        x, rest = run.removeprefix("M").split(" ")
        y, n = rest.split("h")[0], rest.split("h")[1].split("v")[0]
        drawn[int(y), int(x) : int(x) + int(n)] += 1
    np.testing.assert_array_equal(drawn, pixels.astype(int))
    assert runs_path(np.zeros((2, 2), bool)) == ""
    large = label_picture(np.zeros((500, 300), np.int64), "label", "caption")
    assert 'viewBox="0 0 200 200"' in large
