"""Model files of networks and factor graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from small_networks import random_graph, random_network
from trellis import load
from trellis.core.errors import (
    ModelFileError,
)
from trellis.factors.tables import Table


def test_saving_and_loading(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    net, graph = random_network(rng, 8), random_graph(rng, 5, 6)
    net.save(tmp_path / "net.trellis")
    graph.save(tmp_path / "graph.trellis")
    assert load(tmp_path / "net.trellis") == net
    assert load(tmp_path / "graph.trellis") == graph


def test_a_saved_network_is_checked(tmp_path: Path) -> None:
    from trellis.core import storage
    from trellis.core.codec import encode

    for scope, shape in [
        ([0, 0], (2, 2)),
        ([7, 0], (2, 2)),
        ([-1, 0], (2, 2)),
        ([0], (1,)),
        ([], ()),
        (None, ()),
    ]:
        factors = [] if scope is None else [Table(tuple(scope), np.full(shape, 0.5))]
        arrays: dict[str, Any] = {}
        parts = {"names": ["A"], "states": [["a", "b"]], "factors": encode(factors, arrays, "factors")}
        storage.save(tmp_path / "bad", "BayesianNetwork", {**parts, "extra": {}}, arrays)
        with pytest.raises(ModelFileError, match="damaged or incomplete"):
            load(tmp_path / "bad")
