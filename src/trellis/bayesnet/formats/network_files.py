"""Which reader and writer belong to a file, by the end of its name."""

from __future__ import annotations

import os

from trellis.bayesnet.formats.bif import read_bif, write_bif
from trellis.bayesnet.formats.libdai import read_fg
from trellis.bayesnet.formats.uai import read_uai, write_uai
from trellis.bayesnet.model.conditional_tables import FILE_TOLERANCE
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.factor_model import FactorModel
from trellis.core.errors import DataError
from trellis.core.storage import PathLike


def read_file(
    path: PathLike, *, as_graph: bool = False, tolerance: float = FILE_TOLERANCE, encoding: str = "utf-8"
) -> DirectedModel | FactorModel:
    """The network or factor graph in a ``.bif``, ``.uai`` or ``.fg`` file, which may be gzipped.

    ``as_graph``: a factor graph in any case; the tables of a network are factors like any other.
    """
    kind = extension(path)
    if kind == ".uai":
        return read_uai(path, as_graph=as_graph, tolerance=tolerance, encoding=encoding)
    if kind == ".fg":
        return read_fg(path, encoding=encoding)
    if kind == ".bif":
        network = read_bif(path, tolerance=tolerance, encoding=encoding)
        return FactorModel.from_factors(network.variables, network.factors()) if as_graph else network
    raise DataError(
        f"{os.fspath(path)}: networks are read from .bif and .uai files, factor graphs also from .fg (all "
        "may end with .gz); rename the file"
    )


def write_file(model: DiscreteModel, path: PathLike) -> None:
    """Write a ``.uai`` file, which has no names, or a network to a ``.bif`` file; both gzipped with .gz."""
    kind = extension(path)
    if kind == ".uai":
        write_uai(model, path)
    elif kind == ".bif" and isinstance(model, DirectedModel):
        write_bif(model, path)
    else:
        what = "networks are written to .bif and" if model.directed else "factor graphs are written to"
        raise DataError(f"{os.fspath(path)}: {what} .uai files; save() writes a Trellis file")


def extension(path: PathLike) -> str:
    """The end of a file's name, in lower case and without ``.gz``."""
    return os.path.splitext(os.fspath(path).lower().removesuffix(".gz"))[1]
