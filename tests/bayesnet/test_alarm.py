"""Known queries of the alarm network, by every exact method.

The expected values are those of pyAgrum's lazy propagation on the same file, to seven digits: some rows of
its tables are rounded (0.3333333), and pyAgrum takes them as they are, while here they are normalised. The
network is not part of the project: set TRELLIS_DATA to a folder that has ``bn_repository/alarm.bif.gz``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trellis import BayesianNetwork

DATA = Path(os.environ.get("TRELLIS_DATA", Path(__file__).parents[3] / "shared" / "data"))
ALARM = DATA / "bn_repository" / "alarm.bif.gz"
KNOWN = [
    ("HYPOVOLEMIA", {"BP": "HIGH", "PAP": "NORMAL"}, {"TRUE": 0.128875226509, "FALSE": 0.871124773491}),
    ("LVFAILURE", {"BP": "LOW"}, {"TRUE": 0.087961786603, "FALSE": 0.912038213397}),
    (
        "KINKEDTUBE",
        {"PRESS": "HIGH", "EXPCO2": "LOW", "VENTALV": "ZERO"},
        {"TRUE": 0.03858787351, "FALSE": 0.96141212649},
    ),
    (
        "ANAPHYLAXIS",
        {"HR": "HIGH", "TPR": "LOW", "SAO2": "LOW"},
        {"TRUE": 0.031942632022, "FALSE": 0.968057367978},
    ),
    ("CATECHOL", {}, {"NORMAL": 0.10013428462, "HIGH": 0.89986571538}),
    (
        "INTUBATION",
        {"MINVOL": "ZERO", "CO": "HIGH", "HRBP": "LOW", "SHUNT": "HIGH"},
        {"NORMAL": 0.724847016098, "ESOPHAGEAL": 0.012019529417, "ONESIDED": 0.263133454485},
    ),
]


@pytest.mark.skipif(not ALARM.exists(), reason=f"{ALARM} is not there; TRELLIS_DATA says where data sets are")
@pytest.mark.parametrize("method", ["elimination", "junction_tree", "auto"])
def test_known_queries(method: str) -> None:
    net = BayesianNetwork.read(ALARM)
    for target, evidence, expected in KNOWN:
        found = net.query(target, evidence=evidence, method=method)
        assert found.as_dict() == pytest.approx(expected, abs=1e-7)
