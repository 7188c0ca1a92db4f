"""Alignment losses against hand-computed values and against their own tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError, UnsupportedError
from trellis.structures.segments.problem.alignment_losses import (
    AlignmentLoss,
    TauAlignment,
    TauInsensitive,
    get_alignment_loss,
)
from trellis.structures.segments.scores.segment_scores import SegmentPath


def test_hand_computed_values() -> None:
    reference = np.array([0.0, 10.0, 20.0, 30.0])
    path = SegmentPath.of_chain([0, 11, 22, 27], 40)  # off by 0, 1, 2, 3
    assert TauAlignment(0.0).of_path(reference, path) == 3 / 4
    assert TauAlignment(1.0).of_path(reference, path) == 2 / 4
    assert TauAlignment(2.5).of_path(reference, path) == 1 / 4
    assert TauInsensitive(0.0).of_path(reference, path) == 6 / 4
    assert TauInsensitive(1.0).of_path(reference, path) == 3 / 4
    assert TauInsensitive(0.5).of_path(reference, path) == pytest.approx((0.5 + 1.5 + 2.5) / 4)


def test_references_between_frames() -> None:
    path = SegmentPath.of_chain([0, 5], 9)
    assert TauAlignment(1.0).of_path([0.0, 6.2], path) == 1 / 2
    assert TauAlignment(1.5).of_path([0.0, 6.2], path) == 0.0
    # 0.06 s at steps of 0.01 s is 6.0 but for rounding: one frame off is within one frame
    assert TauAlignment(1.0).of_path([0.0, 0.06 / 0.01], path) == 0.0
    assert TauAlignment(1.0).of_path([0.0, 0.58 / 0.01 - 52.0], path) == 0.0


def test_nodes_without_a_reference_cost_nothing() -> None:
    reference = np.array([np.nan, 0.0, 4.0, np.nan])
    path = SegmentPath(np.array([0, 1, 3]), np.array([0, 2, 3]), 8)  # node 2 is left out
    assert TauInsensitive(0.0).of_path(reference, path) == 2 / 2
    table = TauInsensitive(0.0).table(reference, 8)
    assert not table[[0, 3]].any()
    np.testing.assert_allclose(table[1], np.arange(9) / 2)


@given(
    starts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    tau=st.sampled_from([0.0, 0.7, 1.0, 2.0]),
    seed=st.integers(0, 1000),
    insensitive=st.booleans(),
)
def test_tables_add_up_to_the_loss(starts: list[int], tau: float, seed: int, insensitive: bool) -> None:
    rng = np.random.default_rng(seed)
    frames = int(np.sum(starts)) + 2
    path = SegmentPath.of_chain(np.concatenate([[0], np.cumsum(starts)]), frames)
    reference = rng.uniform(0, frames, len(starts) + 1)
    loss = TauInsensitive(tau) if insensitive else TauAlignment(tau)
    table = loss.table(reference, frames)
    assert table.shape == (len(starts) + 1, frames + 1)
    assert table[path.nodes, path.starts].sum() == pytest.approx(loss.of_path(reference, path))


def test_by_name_and_bad_options() -> None:
    assert get_alignment_loss("tau_alignment", 2.0) == TauAlignment(2.0)
    assert get_alignment_loss(TauInsensitive(0.5), 2.0) == TauInsensitive(0.5)
    with pytest.raises(DataError, match="tau_alignment, tau_insensitive"):
        get_alignment_loss("hamming")
    for tau in (-1.0, np.nan, np.inf):
        with pytest.raises(DataError, match="tau"):
            TauAlignment(tau)
    with pytest.raises(UnsupportedError, match="no cost"):
        AlignmentLoss().table([0.0], 3)
