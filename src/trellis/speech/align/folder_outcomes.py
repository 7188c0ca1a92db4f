"""Transcripts judged beside the others of their folder, once all are aligned (``doubt.folder_match``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from trellis.speech.align.batch_alignment import Outcome
from trellis.speech.align.doubt.folder_match import doubted_in_folder
from trellis.speech.align.utterance_alignment import MISMATCH

OUTSTANDING = f"{MISMATCH}: its match is low beside those of the other recordings in the folder"


def judge_by_folder(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes, with a flag that their transcripts may be wrong where they are doubted in their folders,
    and only there. One without a match stays as it is."""
    folders: dict[Path, list[Outcome]] = {}
    judged: list[Outcome] = []
    for outcome in outcomes:
        if outcome.match is None:
            judged.append(outcome)
        else:
            folders.setdefault(outcome.audio.parent, []).append(outcome)
    for folder in folders.values():
        judged += _judge(folder)
    return judged


def _judge(folder: Sequence[Outcome]) -> list[Outcome]:
    alone = [any(flag.startswith(MISMATCH) for flag in outcome.flags) for outcome in folder]
    doubted = doubted_in_folder([outcome.match or 0.0 for outcome in folder], alone)
    return [
        outcome if was == now else replace(outcome, flags=_flags(outcome, bool(now)))
        for outcome, was, now in zip(folder, alone, doubted, strict=True)
    ]


def _flags(outcome: Outcome, doubted: bool) -> tuple[str, ...]:
    others = tuple(flag for flag in outcome.flags if not flag.startswith(MISMATCH))
    return (*others, OUTSTANDING) if doubted else others
