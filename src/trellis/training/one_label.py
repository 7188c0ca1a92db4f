"""A model that gives every step the same label has learned nothing from data with several; it is reported.

The check looks at about ``STEPS`` steps of the training data, half of them from examples in which some label
is not the most frequent one, so that a label of one step in a thousand is there, too.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import IntArray
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.training.fit import TrainingWarning

STEPS = 1000


def sample_with_several_labels(labels: EncodedLabels) -> IntArray:
    """The numbers of some examples, rising, in which more than one label occurs; none where all known labels
    are one."""
    known = labels.codes[labels.codes >= 0]
    if not len(known) or known.min() == known.max():
        return np.zeros(0, dtype=np.int64)
    other = (labels.codes >= 0) & (labels.codes != np.bincount(known).argmax())
    counts = np.concatenate([[0], np.cumsum(other)])[labels.offsets]
    with_other = np.diff(counts) > 0
    lengths = np.diff(labels.offsets)
    halves = [
        part[: 1 + int(np.searchsorted(np.cumsum(lengths[part]), STEPS // 2))]
        for part in (np.flatnonzero(with_other), np.flatnonzero(~with_other & (lengths > 0)))
    ]
    return np.sort(np.concatenate(halves))


def warn_of_one_label(
    gold: EncodedLabels, found: NDArray[np.int32], names: LabelSet, *, stacklevel: int = 3
) -> None:
    """Warn if ``found`` is one label throughout where ``gold`` has several."""
    known = np.unique(gold.codes[gold.codes >= 0])
    if len(known) < 2 or not len(found) or found.min() != found.max():
        return
    warnings.warn(
        f"the model gives the label {names.labels[int(found[0])]!r} to each of the {len(found)} steps of the "
        f"training data that were checked, although {len(known)} labels occur in them; lower l2 or l1, raise "
        "max_iter, or choose another objective or class_weight",
        TrainingWarning,
        stacklevel=stacklevel,
    )


def warn_of_single_label(names: LabelSet, *, stacklevel: int = 3) -> None:
    """Warn if only one label occurs in the training data: no model can learn anything from them."""
    if len(names.labels) == 1:
        warnings.warn(
            f"all known labels of the training data are {names.labels[0]!r}, so the model can predict "
            "nothing else; check that these are the labels",
            TrainingWarning,
            stacklevel=stacklevel,
        )
