"""Which reader and writer belong to a file, by the end of its name."""

from __future__ import annotations

import os

from trellis.bayesnet.formats.bif import read_bif, write_bif
from trellis.bayesnet.formats.libdai import read_fg
from trellis.bayesnet.formats.uai import read_uai_graph, read_uai_network, write_uai
from trellis.bayesnet.model.conditional_tables import FILE_TOLERANCE
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.factor_model import FactorModel
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.storage import PathLike


def read_network(
    path: PathLike, *, tolerance: float = FILE_TOLERANCE, encoding: str = "utf-8"
) -> DirectedModel:
    """The Bayesian network in a ``.bif`` or ``.uai`` file, which may be gzipped."""
    kind = extension(path)
    if kind not in (".bif", ".uai"):
        raise DataError(
            f"{os.fspath(path)}: networks are read from .bif and .uai files (also .gz); rename the file"
        )
    return (read_bif if kind == ".bif" else read_uai_network)(path, tolerance=tolerance, encoding=encoding)


def read_graph(path: PathLike, *, encoding: str = "utf-8") -> FactorModel:
    """The factor graph in a ``.uai``, ``.fg`` or ``.bif`` file, which may be gzipped."""
    kind = extension(path)
    if kind == ".bif":
        network = read_bif(path, encoding=encoding)
        return FactorModel.from_factors(network.variables, network.factors())
    if kind not in (".uai", ".fg"):
        raise DataError(
            f"{os.fspath(path)}: factor graphs are read from .uai, .fg and .bif files (also .gz); rename the "
            "file"
        )
    return (read_uai_graph if kind == ".uai" else read_fg)(path, encoding=encoding)


def write_network(network: DirectedModel, path: PathLike) -> None:
    """Write a ``.bif`` or ``.uai`` file, gzipped if its name ends with ``.gz``; ``.uai`` has no names."""
    kind = extension(path)
    if kind not in (".bif", ".uai"):
        raise UnsupportedError(
            f"{os.fspath(path)}: networks are written to .bif and .uai files; save() writes a Trellis file"
        )
    (write_bif if kind == ".bif" else write_uai)(network, path)


def write_graph(graph: FactorModel, path: PathLike) -> None:
    """Write a ``.uai`` file of the kind MARKOV, gzipped if its name ends with ``.gz``; it has no names."""
    if extension(path) != ".uai":
        raise UnsupportedError(
            f"{os.fspath(path)}: factor graphs are written to .uai files; save() writes a Trellis file"
        )
    write_uai(graph, path)


def extension(path: PathLike) -> str:
    """The end of a file's name, in lower case and without ``.gz``."""
    return os.path.splitext(os.fspath(path).lower().removesuffix(".gz"))[1]
