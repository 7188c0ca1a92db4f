"""Aligners that have not heard a fold's languages, kept in a folder: five take minutes to train."""

from __future__ import annotations

from pathlib import Path

from alignment import languages, weights_split
from trellis import load
from trellis.speech import Aligner, Corpus


def fold_model(folder: Path, corpus: Corpus, seed: int) -> Aligner:
    """``fold{seed}.trellis`` of the folder; trained on the languages that ``alignment.py`` gives to the
    seed, and kept there, if it is missing."""
    path = folder / f"fold{seed}.trellis"
    if path.exists():
        model = load(path)
        assert isinstance(model, Aligner)
        return model
    train, held_out, _ = languages(corpus.groups, seed)
    split = weights_split(corpus.in_groups(train), corpus.in_groups(held_out), seed)
    aligner = Aligner(objective="log", fold="voiced", split=split, random_state=seed, n_jobs=1)
    aligner.fit(corpus.in_groups({*train, *held_out}))
    folder.mkdir(parents=True, exist_ok=True)
    aligner.save(path)
    return aligner
