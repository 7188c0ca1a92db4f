"""Which reader and writer belong to a file, by the end of its name."""

from __future__ import annotations

import os

from trellis.bayesnet.model.factor_graph import FactorGraph
from trellis.bayesnet.model.network import BayesianNetwork
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.storage import PathLike


def read_network(path: PathLike, *, tolerance: float, encoding: str) -> BayesianNetwork:
    """The Bayesian network in a ``.bif`` or ``.uai`` file, which may be gzipped."""
    kind = _kind(path)
    if kind == ".bif":
        from trellis.bayesnet.formats.bif import read_bif

        return read_bif(path, tolerance=tolerance, encoding=encoding)
    if kind == ".uai":
        from trellis.bayesnet.formats.uai import read_uai_network

        return read_uai_network(path, tolerance=tolerance, encoding=encoding)
    raise DataError(
        f"{os.fspath(path)}: networks are read from .bif and .uai files (also .gz); rename the file"
    )


def read_graph(path: PathLike, *, encoding: str) -> FactorGraph:
    """The factor graph in a ``.uai``, ``.fg`` or ``.bif`` file, which may be gzipped."""
    kind = _kind(path)
    if kind == ".uai":
        from trellis.bayesnet.formats.uai import read_uai_graph

        return read_uai_graph(path, encoding=encoding)
    if kind == ".fg":
        from trellis.bayesnet.formats.libdai import read_fg

        return read_fg(path, encoding=encoding)
    if kind == ".bif":
        from trellis.bayesnet.formats.bif import read_bif

        return FactorGraph.from_network(read_bif(path, encoding=encoding))
    raise DataError(
        f"{os.fspath(path)}: factor graphs are read from .uai, .fg and .bif files (also .gz); rename the file"
    )


def write_network(network: BayesianNetwork, path: PathLike) -> None:
    """Write a ``.bif`` or ``.uai`` file, gzipped if its name ends with ``.gz``."""
    kind = _kind(path)
    if kind == ".bif":
        from trellis.bayesnet.formats.bif import write_bif

        write_bif(network, path)
    elif kind == ".uai":
        from trellis.bayesnet.formats.uai import write_uai

        write_uai(network, path)
    else:
        raise UnsupportedError(
            f"{os.fspath(path)}: networks are written to .bif and .uai files; save() writes a Trellis file"
        )


def write_graph(graph: FactorGraph, path: PathLike) -> None:
    """Write a ``.uai`` file, gzipped if its name ends with ``.gz``."""
    if _kind(path) != ".uai":
        raise UnsupportedError(
            f"{os.fspath(path)}: factor graphs are written to .uai files; save() writes a Trellis file"
        )
    from trellis.bayesnet.formats.uai import write_uai

    write_uai(graph, path)


def _kind(path: PathLike) -> str:
    return os.path.splitext(os.fspath(path).lower().removesuffix(".gz"))[1]
