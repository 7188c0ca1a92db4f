"""What one can do to an alignment by hand, as pure functions: an alignment and an edit in, an alignment out.

The phones of an alignment in the studio have no gaps: boundary k (from 1) is the start of phone k and the end
of phone k - 1, and the ends of the recording are not boundaries. Words may have gaps. A word that starts or
ends where a boundary lies goes with it.

The confidence of a start that a person moved, made or confirmed is ``nan``: no aligner vouches for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from trellis.core.errors import DataError, shown
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import SLACK, Interval, Tier
from trellis.speech.phones.silence import is_silence

SHORTEST = 0.001  # seconds that every phone keeps
LONGEST_LABEL = 200  # characters
Edit = Mapping[str, Any]


def gapless(alignment: Alignment) -> Alignment:
    """The alignment as the studio has it: phones from 0 to the end, and no silences among the words."""
    words = tuple(word for word in alignment.words if not is_silence(word.label))
    return replace(replace(alignment, words=()).filled("", SHORTEST), words=words, margins=None)


def apply_edit(alignment: Alignment, edit: Edit) -> Alignment:
    """The alignment after an edit, which is a record as the page sends it: ``op`` and its arguments."""
    operation = _OPERATIONS.get(str(edit.get("op")))
    if operation is None:
        raise DataError(f"there is no edit {shown(edit.get('op'))}; it is one of {', '.join(_OPERATIONS)}")
    return operation(alignment, edit)


def move(alignment: Alignment, boundary: int, time: float) -> Alignment:
    """Boundary ``boundary`` at ``time``, between its neighbours."""
    phones = alignment.phones
    left, right = phones[boundary - 1], phones[boundary]
    if not left.start + SHORTEST - SLACK <= time <= right.end - SHORTEST + SLACK:
        raise DataError(
            f"boundary {boundary} cannot be at {time:.4f} s; "
            f"it lies between {left.start:.4f} and {right.end:.4f} s"
        )
    moved = (Interval(left.start, time, left.label), Interval(time, right.end, right.label))
    return _replaced(
        alignment,
        phones[: boundary - 1] + moved + phones[boundary + 1 :],
        _unsure(alignment, boundary),
        _words_moved(alignment.words, right.start, time),
    )


def split(alignment: Alignment, phone: int, time: float, label: str) -> Alignment:
    """Phone ``phone`` ends at ``time``, where a new one called ``label`` begins."""
    phones, old = alignment.phones, alignment.phones[phone]
    if not old.start + SHORTEST - SLACK <= time <= old.end - SHORTEST + SLACK:
        raise DataError(
            f"phone {phone} cannot be split at {time:.4f} s; a part would be too short, or it lies elsewhere"
        )
    parts = (Interval(old.start, time, old.label), Interval(time, old.end, label))
    sure = alignment.confidence
    return _replaced(
        alignment,
        phones[:phone] + parts + phones[phone + 1 :],
        None if sure is None else (*sure[: phone + 1], math.nan, *sure[phone + 1 :]),
        alignment.words,
    )


def merge(alignment: Alignment, boundary: int) -> Alignment:
    """Remove a boundary: the phone before it takes the place of both, unless only that is a silence.

    A word that ended or began there goes to the far end of what was taken; one that had nothing else is gone.
    """
    phones = alignment.phones
    left, right = phones[boundary - 1], phones[boundary]
    keeps_right = is_silence(left.label) and not is_silence(right.label)
    whole = Interval(left.start, right.end, right.label if keeps_right else left.label)
    sure = alignment.confidence
    return _replaced(
        alignment,
        (*phones[: boundary - 1], whole, *phones[boundary + 1 :]),
        None if sure is None else sure[:boundary] + sure[boundary + 1 :],
        _words_moved(alignment.words, right.start, left.start if keeps_right else right.end),
    )


def rename(alignment: Alignment, tier: str, index: int, label: str) -> Alignment:
    """Interval ``index`` of the tier "phones" or "words" is called ``label``."""
    old = alignment.tier(tier)
    renamed = (*old[:index], Interval(old[index].start, old[index].end, label), *old[index + 1 :])
    if tier == "words":
        return _replaced(alignment, alignment.phones, alignment.confidence, renamed)
    return _replaced(alignment, renamed, alignment.confidence, alignment.words)


def confirm(alignment: Alignment, boundary: int | None) -> Alignment:
    """A person has looked at this boundary (at all of them, if None), and it is right as it is."""
    sure = alignment.confidence
    if boundary is None:
        return replace(alignment, confidence=None if sure is None else (math.nan,) * len(sure))
    return replace(alignment, confidence=_unsure(alignment, boundary))


def _unsure(alignment: Alignment, boundary: int) -> tuple[float, ...] | None:
    sure = alignment.confidence
    return None if sure is None else (*sure[:boundary], math.nan, *sure[boundary + 1 :])


def _replaced(
    alignment: Alignment, phones: Tier, confidence: tuple[float, ...] | None, words: Tier
) -> Alignment:
    return replace(alignment, phones=phones, confidence=confidence, words=words, margins=None)


def _words_moved(words: Tier, old: float, new: float) -> Tier:
    """Words that started or ended at ``old`` do so at ``new``; those that nothing is left of are dropped."""

    def at(time: float) -> float:
        return new if abs(time - old) <= SLACK else time

    moved = (Interval(at(word.start), at(word.end), word.label) for word in words)
    return tuple(word for word in moved if word.end - word.start > SLACK)


# --- edits as they come from a page or a journal: every argument is checked -------------------------------


def _boundary(alignment: Alignment, edit: Edit) -> int:
    return _index(edit, "boundary", 1, len(alignment.phones))


def _index(edit: Edit, name: str, least: int, end: int) -> int:
    value = edit.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < end:
        raise DataError(f"{name} is {shown(value)}; it is a number from {least} to {end - 1}")
    return value


def _time(edit: Edit) -> float:
    value = edit.get("time")
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise DataError(f"time is {shown(value)}; give a number of seconds")
    return float(value)


def _label(edit: Edit) -> str:
    value = edit.get("label")
    if not isinstance(value, str) or len(value) > LONGEST_LABEL or any(ord(c) < 32 for c in value):
        raise DataError(f"the label {shown(value)} is not a line of at most {LONGEST_LABEL} characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise DataError(f"the label {shown(value)} is not Unicode text") from error
    return value.strip()


def _rename(alignment: Alignment, edit: Edit) -> Alignment:
    tier = "words" if edit.get("tier") == "words" else "phones"
    return rename(alignment, tier, _index(edit, "index", 0, len(alignment.tier(tier))), _label(edit))


def _confirm(alignment: Alignment, edit: Edit) -> Alignment:
    return confirm(alignment, None if edit.get("boundary") is None else _boundary(alignment, edit))


def _split(alignment: Alignment, edit: Edit) -> Alignment:
    return split(alignment, _index(edit, "phone", 0, len(alignment.phones)), _time(edit), _label(edit))


_OPERATIONS: dict[str, Callable[[Alignment, Edit], Alignment]] = {
    "move": lambda alignment, edit: move(alignment, _boundary(alignment, edit), _time(edit)),
    "split": _split,
    "merge": lambda alignment, edit: merge(alignment, _boundary(alignment, edit)),
    "rename": _rename,
    "confirm": _confirm,
}
