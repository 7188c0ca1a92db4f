"""The factor graph format of libDAI (``.fg``), read only.

    2                       factors; comments begin with #
                            each factor:
    2                       how many variables
    0 4                     their labels
    2 2                     their cardinalities
    4                       how many values follow; all others are zero
    0 1.5                   place and value, the *first* variable changing fastest

Variables are sorted by their labels and called ``x`` and the label.
"""

from __future__ import annotations

import math
import re

import numpy as np

from trellis.bayesnet.formats.tokens import NumberReader
from trellis.bayesnet.model.conditional_tables import MOST_AXES
from trellis.bayesnet.model.factor_model import FactorModel
from trellis.data.streams import Source

_COMMENT = re.compile(r"#[^\n]*")


def read_fg(source: Source, *, encoding: str = "utf-8") -> FactorModel:
    """The factor graph in a file of libDAI."""
    reader = NumberReader(source, encoding, _COMMENT)
    sizes: dict[int, int] = {}
    factors = []
    room, states_left = reader.most_filled, reader.most_named
    for _ in range(reader.count("the number of factors")):
        start = reader.at
        width = reader.count("the number of variables of a factor")
        labels = [reader.count("the label of a variable") for _ in range(width)]
        shape = [reader.count("the number of states of a variable", states_left) for _ in range(width)]
        total = math.prod(shape)
        if len(set(labels)) != width or width > MOST_AXES:
            raise reader.error(
                start, f"this factor names a variable twice, or has more than {MOST_AXES} variables"
            )
        if total > room:
            raise reader.error(
                start,
                f"this factor has {total:,} values, and a file of this size may have {reader.most_filled:,} "
                "in all; is it complete?",
            )
        room -= total
        states_left -= sum(size for label, size in zip(labels, shape, strict=True) if label not in sizes)
        for label, size in zip(labels, shape, strict=True):
            if sizes.setdefault(label, size) != size or size < 1:
                raise reader.error(
                    start,
                    f"variable {label} has {size} states here and {sizes[label]} before, or none at all",
                )
        values = np.zeros(total)
        for _ in range(reader.count("the number of values of a factor")):
            place = reader.count("the place of a value", below=total)
            values[place] = reader.weights(1)[0]
        factors.append((labels, values.reshape(shape, order="F")))
    reader.end()
    order = {label: i for i, label in enumerate(sorted(sizes))}
    return FactorModel(
        [sizes[label] for label in order],
        [([order[label] for label in labels], values) for labels, values in factors],
        names=[f"x{label}" for label in order],
    )
