"""UAI, the format of the inference competitions: networks (``.uai``) and evidence (``.evid``).

    MARKOV                  or BAYES, where the last variable of each factor is the child
    3                       variables
    2 2 3                   their cardinalities
    2                       factors
    2 0 1                   each: how many variables, and which
    2 1 2
    4  0.4 0.6 0.7 0.3      each: how many values, and the values, the last variable changing fastest
    6  1 2 3 4 5 6

The format has no names: variables are read as ``x0``, ``x1``, ... with the states ``0``, ``1``, ...
Evidence is ``2  0 1  2 0``: two observed variables, x0 in state 1 and x2 in state 0. Another form has the
number of samples in front, each of which is written like this; a file that can be read as one sample without
that number is. Gzipped files are recognised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.formats.tokens import NumberReader, write_text
from trellis.bayesnet.model.conditional_tables import FILE_TOLERANCE, MOST_AXES, NetworkError
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.factor_model import FactorModel
from trellis.bayesnet.model.variables import Variables
from trellis.core.storage import PathLike
from trellis.data.streams import Source

Factor = tuple[tuple[int, ...], NDArray[np.float64]]


@dataclass(frozen=True)
class _Content:
    """A network file: ``starts`` are the words at which the tables begin."""

    kind: str
    sizes: list[int]
    factors: list[Factor]
    starts: list[int]
    reader: NumberReader


def read_uai(
    source: Source, *, as_graph: bool = False, tolerance: float = FILE_TOLERANCE, encoding: str = "utf-8"
) -> DirectedModel | FactorModel:
    """What a UAI file holds: a Bayesian network (BAYES; rows are normalised) or a factor graph (MARKOV).

    ``as_graph``: a factor graph in any case; the tables of a Bayesian network are factors like any other.
    """
    content = _read(source, encoding)
    if content.kind == "BAYES" and not as_graph:
        return _network(content, tolerance)
    return FactorModel(content.sizes, content.factors)


def _network(content: _Content, tolerance: float) -> DirectedModel:
    reader = content.reader
    tables: dict[int, Factor] = {}
    start_of: dict[int, int] = {}
    for number, ((scope, table), start) in enumerate(zip(content.factors, content.starts, strict=True)):
        if not scope or scope[-1] in tables:
            problem = f"is a second table of x{scope[-1]}" if scope else "has no variables"
            raise reader.error(start, f"factor {number} {problem}; a network has one table for each variable")
        tables[scope[-1]], start_of[scope[-1]] = (scope[:-1], table), start
    for i in range(len(content.sizes)):
        if i not in tables:
            raise reader.error(0, f"no factor has x{i} as its last variable, so x{i} has no table; add one")
    parents, values = zip(*(tables[i] for i in range(len(tables))), strict=True) if tables else ((), ())
    try:
        return DirectedModel.assemble(Variables.numbered(content.sizes), parents, values, tolerance=tolerance)
    except NetworkError as error:
        raise reader.error(start_of[error.variable], str(error)) from None


def _read(source: Source, encoding: str) -> _Content:
    reader = NumberReader(source, encoding)
    kind = reader.words[0].upper()
    if kind not in ("BAYES", "MARKOV"):
        raise reader.error(0, f"expected BAYES or MARKOV, found {reader.found(0)}; is this a UAI file?")
    reader.at = 1
    sizes = _sizes(reader)
    scopes: list[tuple[int, ...]] = []
    for number in range(reader.count("the number of factors")):
        width = reader.count("the number of variables of a factor")
        if width > MOST_AXES:
            raise reader.error(
                reader.at - 1, f"factor {number} has {width} variables; the limit is {MOST_AXES}"
            )
        scope = tuple(reader.count("the number of a variable", below=len(sizes)) for _ in range(width))
        if len(set(scope)) != width:
            raise reader.error(reader.at - 1, f"factor {number} names a variable twice; name it once")
        scopes.append(scope)
    factors, starts = [], []
    for number, scope in enumerate(scopes):
        shape = [sizes[i] for i in scope]
        starts.append(reader.at)
        if reader.count("the number of values of a factor") != math.prod(shape):
            raise reader.error(
                starts[-1],
                f"factor {number} has {reader.words[starts[-1]]} values, and its variables need "
                f"{math.prod(shape)} ({' x '.join(map(str, shape)) or 1})",
            )
        factors.append((scope, reader.weights(math.prod(shape)).reshape(shape)))
    reader.end()
    return _Content(kind, sizes, factors, starts, reader)


def _sizes(reader: NumberReader) -> list[int]:
    sizes: list[int] = []
    room = reader.most_named
    for i in range(reader.count("the number of variables")):
        sizes.append(reader.count(f"the number of states of variable {i}", below=room))
        if sizes[i] == 0:
            raise reader.error(reader.at - 1, f"variable {i} has no states; each needs at least one")
        room -= sizes[i]
    return sizes


def write_uai(model: DiscreteModel, path: PathLike) -> None:
    """Write a network (BAYES) or a factor graph (MARKOV). The names of variables and states are lost."""
    factors = model.factors()
    lines = ["BAYES" if model.directed else "MARKOV", str(len(model.names))]
    lines.append(" ".join(map(str, model.cardinalities.tolist())))
    lines.append(str(len(factors)))
    lines += [" ".join(map(str, (len(factor.variables), *factor.variables))) for factor in factors]
    for factor in factors:
        values = np.asarray(factor.values, dtype=np.float64).ravel().tolist()
        lines += ["", str(len(values)), " ".join(map(repr, values))]
    _write(path, lines)


def read_evidence(source: Source, model: DiscreteModel, *, encoding: str = "utf-8") -> dict[str, str]:
    """The observed variables and their states in an ``.evid`` file, as ``query`` takes them.

    Examples
    --------
    >>> from trellis.bayesnet import markov_chain, read_evidence, write_evidence
    >>> chain = markov_chain(["sun", "rain"], 3)
    >>> write_evidence("weather.evid", chain, {"x1": "rain"})
    >>> read_evidence("weather.evid", chain)
    {'x1': 'rain'}
    """
    reader = NumberReader(source, encoding)
    samples = _samples(reader, model.variables)
    if len(samples) != 1:
        raise reader.error(
            0, f"this file has {len(samples)} samples of evidence; read them with read_evidence_samples"
        )
    return samples[0]


def read_evidence_samples(
    source: Source, model: DiscreteModel, *, encoding: str = "utf-8"
) -> list[dict[str, str]]:
    """Every sample of an ``.evid`` file, each as :func:`read_evidence` gives it.

    Examples
    --------
    >>> from trellis.bayesnet import markov_chain, read_evidence_samples, write_evidence
    >>> chain = markov_chain(["sun", "rain"], 3)
    >>> write_evidence("weather.evid", chain, {"x1": "rain", "x3": "sun"})
    >>> read_evidence_samples("weather.evid", chain)
    [{'x1': 'rain', 'x3': 'sun'}]
    """
    return _samples(NumberReader(source, encoding), model.variables)


def _samples(reader: NumberReader, variables: Variables) -> list[dict[str, str]]:
    n_words = len(reader.words) - 1
    first = reader.count("the number of observed variables")
    # The states of k observed variables make 2 k + 1 words. If there are others, only a number of samples
    # makes sense, unless so few words follow that the file has lost its end.
    several = n_words != 2 * first + 1 and n_words > first
    if not several:
        reader.at = 0
    samples = [_sample(reader, variables) for _ in range(first if several else 1)]
    reader.end()
    return samples


def _sample(reader: NumberReader, variables: Variables) -> dict[str, str]:
    evidence: dict[int, int] = {}
    for _ in range(reader.count("the number of observed variables")):
        variable = reader.count("the number of a variable", below=len(variables))
        state = reader.count("the number of a state", below=len(variables.states[variable]))
        if evidence.setdefault(variable, state) != state:
            raise reader.error(reader.at - 1, f"variable {variable} is observed in two states")
    return variables.decode(evidence)


def write_evidence(path: PathLike, model: DiscreteModel, evidence: Mapping[str, Any]) -> None:
    """Write evidence for the ``.uai`` file of the same model.

    Examples
    --------
    >>> from pathlib import Path
    >>> from trellis.bayesnet import markov_chain, write_evidence
    >>> write_evidence("weather.evid", markov_chain(["sun", "rain"], 3), {"x1": "rain"})
    >>> Path("weather.evid").read_text().split()
    ['1', '0', '1']
    """
    coded = model.variables.encode(evidence)
    _write(path, [" ".join(map(str, (len(coded), *(number for pair in coded.items() for number in pair))))])


def _write(path: PathLike, lines: list[str]) -> None:
    write_text(path, "\n".join(lines) + "\n")
