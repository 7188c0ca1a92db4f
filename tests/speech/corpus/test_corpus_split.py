"""Disjoint parts of a corpus."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.speech.corpus.corpus_split import folds, split_corpus


def test_splits_are_disjoint_and_keep_groups_together() -> None:
    ids = [f"u{i}" for i in range(60)]
    groups = [f"g{i % 12}" for i in range(60)]
    parts = split_corpus(ids, groups, (0.5, 0.3, 0.2), np.random.default_rng(0))
    every = [*parts.classifier, *parts.weights, *parts.holdout]
    assert sorted(every) == list(range(60))
    for part in (parts.classifier, parts.weights, parts.holdout):
        others = set(every) - set(part)
        assert not {groups[i] for i in part} & {groups[i] for i in others}
    few = split_corpus(ids, ["same"] * 60, (0.5, 0.3, 0.2), np.random.default_rng(0))
    assert [len(few.classifier), len(few.weights), len(few.holdout)] == [30, 18, 12]
    assert sorted(i for fold in folds(groups, 3, np.random.default_rng(1)) for i in fold) == list(range(60))
    with pytest.raises(DataError, match="left for the part 'holdout'"):
        split_corpus(["a", "b"], ["", ""], (0.5, 0.5, 1e-9), np.random.default_rng(0))
    with pytest.raises(DataError, match="not in the corpus: x"):
        split_corpus(
            ["a"], [""], {"classifier": ["x"], "weights": [], "holdout": []}, np.random.default_rng(0)
        )
