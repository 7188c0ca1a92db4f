"""Three disjoint parts of a corpus: for the classifiers, for the weights, and held out.

The weights must be trained where the classifiers are as unsure as they will be on new recordings, hence on
other utterances. A corpus with at least ``MANY_GROUPS`` groups (speakers, languages) is split by whole
groups, so that the hold-out loss is that of new groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.errors import DataError

PARTS = ("classifier", "weights", "holdout")
MANY_GROUPS = 10
Split = Sequence[float] | Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Parts:
    """Indices of utterances."""

    classifier: tuple[int, ...]
    weights: tuple[int, ...]
    holdout: tuple[int, ...]


def split_corpus(ids: Sequence[str], groups: Sequence[str], split: Split, rng: np.random.Generator) -> Parts:
    """``split``: three fractions, or ``{"classifier": ids, "weights": ids, "holdout": ids}``."""
    if isinstance(split, Mapping):
        parts = _split_by_id(ids, split)
    else:
        shares = np.asarray(split)
        if shares.shape != (len(PARTS),) or shares.dtype.kind not in "fiu":
            raise DataError(f"split is {split!r}; give three fractions, for {', '.join(PARTS)}")
        parts = _split_at_random(groups, split, rng)
    for name, part in zip(PARTS, parts, strict=True):
        if not part:
            raise DataError(
                f"none of {len(ids)} utterances is left for the part {name!r}; give more, or another split"
            )
    return Parts(*parts)


def folds(groups: Sequence[str], n_folds: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Indices in parts of about equal size, by whole groups where there are many."""
    parts = _split_at_random(groups, [1.0 / n_folds] * n_folds, rng)
    if any(not part for part in parts):
        raise DataError(f"{len(groups)} utterances are too few for {n_folds} folds; lower cross_fit")
    return parts


def _split_by_id(ids: Sequence[str], split: Mapping[str, Sequence[str]]) -> list[tuple[int, ...]]:
    if set(split) != set(PARTS):
        raise DataError(f"split has the parts {', '.join(split)}; give {', '.join(PARTS)}")
    index = {id: i for i, id in enumerate(ids)}
    chosen = [id for name in PARTS for id in split[name]]
    unknown = [id for id in chosen if id not in index]
    if unknown:
        raise DataError(f"split names utterances that are not in the corpus: {' '.join(unknown[:5])}")
    if len(set(chosen)) < len(chosen):
        raise DataError("split names an utterance in two parts; the parts must be disjoint")
    return [tuple(index[id] for id in split[name]) for name in PARTS]


def _split_at_random(
    groups: Sequence[str], fractions: Sequence[float], rng: np.random.Generator
) -> list[tuple[int, ...]]:
    shares = np.asarray(fractions, dtype=np.float64)
    if not ((shares > 0).all() and shares.sum() <= 1 + 1e-9):
        raise DataError(f"split is {tuple(fractions)}; give positive fractions that add up to at most 1")
    members: dict[str, list[int]] = {}
    for i, name in enumerate(groups):
        members.setdefault(name, []).append(i)
    units = list(members.values()) if len(members) >= MANY_GROUPS else [[i] for i in range(len(groups))]
    units = [units[u] for u in rng.permutation(len(units))]
    ends = np.concatenate([[0], np.cumsum([len(unit) for unit in units])])
    cuts = [int(np.argmin(np.abs(ends - cut))) for cut in np.cumsum(shares) * len(groups)]
    return [
        tuple(sorted(i for unit in units[a:b] for i in unit)) for a, b in zip([0, *cuts], cuts, strict=False)
    ]
