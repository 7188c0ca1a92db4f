"""Aligners of the five folds of voxangeles, which several benchmarks share: trained where they are missing.

Fold s tests eight languages that its model has never heard (``alignment.languages``); all forty are tested by
one of the five.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _common import CHECKOUT
from alignment import languages, weights_split
from trellis import load
from trellis.speech import Aligner, Corpus

FOLDS = 5
MODELS = CHECKOUT / "bench_output" / "fold_models"


def add_models_option(options: argparse.ArgumentParser) -> None:
    """``--models``: where the models of the folds are kept."""
    options.add_argument(
        "--models",
        type=Path,
        default=MODELS,
        help="folder of fold0.trellis to fold4.trellis; those that are missing are trained and kept there",
    )


def fold_model(corpus: Corpus, seed: int, folder: Path) -> Aligner:
    """The aligner of a fold: ``folder/fold<seed>.trellis``, or trained and kept there."""
    path = folder / f"fold{seed}.trellis"
    if path.exists():
        found: Aligner = load(path)
        return found
    train, held_out, _ = languages(corpus.groups, seed)
    split = weights_split(corpus.in_groups(train), corpus.in_groups(held_out), seed)
    print(f"training the model of fold {seed}", flush=True)
    aligner = Aligner(objective="log", fold="voiced", split=split, random_state=seed)
    aligner.fit(corpus.in_groups({*train, *held_out}))
    folder.mkdir(parents=True, exist_ok=True)
    aligner.save(path)
    return aligner


def test_languages(corpus: Corpus, seed: int) -> list[str]:
    return languages(corpus.groups, seed)[2]
