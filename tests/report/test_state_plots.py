"""Durations against plain counting, and figures that show them."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import HMM, emissions
from trellis.core.errors import DataError
from trellis.report.state_plots import (
    BARS,
    draw_durations,
    geometric_durations,
    plot_durations,
    plot_smoothed,
    plot_states,
    state_durations,
)


@given(st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=4))
def test_durations_are_those_of_runs(paths: list[list[int]]) -> None:
    expected: list[list[int]] = [[], [], [], []]
    for path in paths:
        for state, run in groupby(path):
            expected[state].append(len(list(run)))
    assert [found.tolist() for found in state_durations(paths, 4)] == expected


@given(st.floats(0.0, 0.95))
def test_the_geometric_law_sums_to_one_with_its_mean(stay: float) -> None:
    shares = geometric_durations(stay, 2000)
    assert shares.sum() == pytest.approx(1.0)
    assert shares @ np.arange(1, 2001) == pytest.approx(1 / (1 - stay))


def test_figures_show_states_and_durations() -> None:
    model = HMM(
        2,
        emissions.Categorical(2, np.array([[0.9, 0.1], [0.1, 0.9]])),
        initial=[0.5, 0.5],
        transitions=[[0.8, 0.2], [0.3, 0.7]],
    )
    X = [np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0])]
    axes = plot_durations(model, X, state=1)
    heights = [bar.get_height() for bar in axes.patches]
    runs = state_durations(model.predict(X), 2)[1]
    assert heights == [float((runs == n).mean()) for n in range(1, runs.max() + 1)]
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), geometric_durations(0.7, runs.max()))
    assert [text.get_text() for text in plot_states(model.smooth(X)[0]).get_legend().get_texts()] == [
        "state 0",
        "state 1",
    ]
    with pytest.raises(DataError, match="from 0 to 1"):
        plot_durations(model, X, state=2)


def test_long_durations_are_summed_in_bars_and_so_is_the_law() -> None:
    runs = np.random.default_rng(0).geometric(0.02, 500)
    axes = draw_durations(runs, 0.98)
    assert 10 < len(axes.patches) <= BARS
    wide = -(-int(runs.max()) // BARS)
    heights = [bar.get_height() for bar in axes.patches]
    assert heights[:2] == [float((runs <= wide).mean()), float(((wide < runs) & (runs <= 2 * wide)).mean())]
    assert sum(heights) == pytest.approx(1.0)
    law = axes.get_lines()[0].get_ydata()
    assert law[0] == pytest.approx(1 - 0.98**wide)
    assert sum(law) == pytest.approx(1 - 0.98 ** (wide * len(law)))


def test_states_without_a_colour_are_the_others() -> None:
    shares = np.full((5, 9), 1 / 9)
    axes = plot_states(shares, every=4)
    assert [text.get_text() for text in axes.get_legend().get_texts()][-2:] == ["state 5", "others"]
    assert axes.collections[-1].get_paths()[0].vertices[:, 1].max() == pytest.approx(1.0)
    assert axes.get_xlim() == (0.5, 20.5)


def test_smoothed_states_have_bands() -> None:
    means, variances = np.arange(10.0).reshape(5, 2), np.full((5, 2), 4.0)
    axes = plot_smoothed(means, variances)
    assert [line.get_ydata().tolist() for line in axes.lines] == [means[:, 0].tolist(), means[:, 1].tolist()]
    (line,) = plot_smoothed(means, variances, components=[1], every=3).lines
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([1, 4, 7, 10, 13], means[:, 1].tolist())
    low = axes.collections[0].get_paths()[0].vertices[:, 1].min()
    assert low == pytest.approx(0.0 - 1.96 * 2.0)
