"""Opening networks."""

from __future__ import annotations

from trellis.bayesnet import BayesianNetwork, FactorGraph, read_model
from trellis.bayesnet.formats.network_files import extension
from trellis.core.errors import DataError, ModelFileError
from trellis.core.persistence import load


def open_model(path: str, encoding: str = "utf-8") -> BayesianNetwork | FactorGraph:
    """The network or factor graph in a file."""
    if extension(path) in (".fg", ".uai", ".bif"):
        return read_model(path, encoding=encoding)
    model = load(path)
    if not isinstance(model, BayesianNetwork | FactorGraph):
        raise ModelFileError(
            f"{path}: this is a {type(model).__name__}; trellis net needs a network or a factor graph"
        )
    return model


def open_network(path: str, encoding: str = "utf-8") -> BayesianNetwork:
    """The Bayesian network in a file."""
    model = open_model(path, encoding)
    if isinstance(model, FactorGraph):
        raise DataError(
            f"{path}: this is a factor graph, which has no directed edges; give a Bayesian network"
        )
    return model
