"""Outcomes of a run, judged folder by folder."""

from __future__ import annotations

from pathlib import Path

from trellis.speech.align.batch_alignment import Outcome
from trellis.speech.align.doubt.folder_match import FEWEST
from trellis.speech.align.folder_outcomes import OUTSTANDING, judge_by_folder
from trellis.speech.align.utterance_alignment import MISMATCH

ALONE = f"{MISMATCH}: what looks most wrong is phone 2"


def outcomes(folder: str, matches: list[float | None], flags: dict[int, tuple[str, ...]]) -> list[Outcome]:
    return [
        Outcome(Path(folder, f"{i:02}.wav"), None, flags.get(i, ()), 1.0, match)
        for i, match in enumerate(matches)
    ]


def flags_of(judged: list[Outcome]) -> dict[str, tuple[str, ...]]:
    return {str(o.audio): o.flags for o in judged if o.flags}


def test_flags_follow_the_folder() -> None:
    loud = outcomes("good", [0.9] * FEWEST + [0.1, 0.01], {0: ("clipped",), FEWEST + 1: (ALONE,)})
    faint = outcomes("faint", [0.1] * FEWEST, {3: ("clipped", ALONE)})
    few = outcomes("few", [0.1, 0.9], {0: (ALONE,)})
    without = outcomes("long", [None], {0: ("stretched",)})
    judged = judge_by_folder([*loud, *faint, *few, *without])
    assert len(judged) == len(loud) + len(faint) + len(few) + len(without)
    assert flags_of(judged) == {
        "good/00.wav": ("clipped",),
        f"good/{FEWEST}.wav": (OUTSTANDING,),  # unusual here, though not by itself
        f"good/{FEWEST + 1}.wav": (ALONE,),  # what was said already stays as it is
        "faint/03.wav": ("clipped",),  # as good as all the others
        "few/00.wav": (ALONE,),
        "long/00.wav": ("stretched",),
    }


def test_a_sure_transcript_is_no_zero() -> None:
    judged = judge_by_folder(outcomes("a", [1.0] * FEWEST + [0.0], {}))
    assert flags_of(judged) == {f"a/{FEWEST}.wav": (OUTSTANDING,)}
