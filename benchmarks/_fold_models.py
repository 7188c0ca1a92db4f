"""Aligners of the five folds of voxangeles, trained where they are not kept yet.

Fold s tests eight languages that its model has never heard (``alignment.languages``); all forty are tested by
one of the five.
"""

from __future__ import annotations

from pathlib import Path

from alignment import languages, weights_split
from trellis import load
from trellis.speech import Aligner, Corpus

FOLDS = 5


def fold_model(corpus: Corpus, seed: int, folder: Path | None) -> Aligner:
    """The aligner of a fold: ``folder/fold<seed>.trellis``, or trained and kept there."""
    path = folder and folder / f"fold{seed}.trellis"
    if path is not None and path.exists():
        found: Aligner = load(path)
        return found
    train, held_out, _ = languages(corpus.groups, seed)
    split = weights_split(corpus.in_groups(train), corpus.in_groups(held_out), seed)
    print(f"training the model of fold {seed}", flush=True)
    aligner = Aligner(objective="log", fold="voiced", split=split, random_state=seed)
    aligner.fit(corpus.in_groups({*train, *held_out}))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        aligner.save(path)
    return aligner


def test_languages(corpus: Corpus, seed: int) -> list[str]:
    return languages(corpus.groups, seed)[2]
