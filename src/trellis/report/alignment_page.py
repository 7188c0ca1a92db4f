"""One alignment as one HTML file: waveform, spectrogram, tiers, confidences, a reference, and the sound.

The page is self-contained (its content security policy forbids every other resource), so it can be mailed,
kept beside the recording, or put on a server. The sound is 16-bit mono WAV in base64, 43 kB a second at 16
kHz, and half of that for recordings of more than ten minutes, at 8 kHz. The script needs the samples to
redraw its pictures at every zoom; WAV needs no decoder. Boundaries can be dragged, and the corrected
alignment downloaded as a TextGrid; the page itself cannot save anything.
"""

from __future__ import annotations

import base64
import html
import io
import math
import re
import wave
from collections.abc import Sequence
from pathlib import PurePath
from string import Template
from typing import Any

import numpy as np

from trellis.core.errors import DataError
from trellis.core.output_files import PathLike, atomic_writer
from trellis.report.pages.page_parts import asset, embedded_json
from trellis.speech.audio.recordings import Recording, audio_info, load_recording
from trellis.speech.evaluate.boundary_evaluation import (
    AlignmentEvaluation,
    BoundaryErrors,
    boundary_errors,
)
from trellis.speech.formats.alignment import Alignment, Interval
from trellis.speech.phones.silence import is_silence

_RATE, _LONG_RATE, _LONG_SECONDS = 16000, 8000, 600.0


def write_alignment_page(
    path: PathLike,
    audio: PathLike,
    alignment: Alignment,
    reference: Alignment | None = None,
    *,
    title: str | None = None,
    channel: int | None = None,
) -> None:
    """Write the page of one recording; ``title`` is its file name if not given.

    Examples
    --------
    >>> from pathlib import Path
    >>> from trellis.report.alignment_page import write_alignment_page
    >>> from trellis.speech import synthetic_corpus
    >>> utterance = synthetic_corpus()[0]
    >>> write_alignment_page("page.html", utterance.audio, utterance.reference)
    >>> Path("page.html").exists()
    True
    """
    rate = _RATE if audio_info(audio).duration <= _LONG_SECONDS else _LONG_RATE
    recording = load_recording(audio, rate, channel)
    text = alignment_page(recording, alignment, reference, title=str(audio) if title is None else title)
    with atomic_writer(path) as file:
        file.write(text.encode())


def alignment_page(
    recording: Recording, alignment: Alignment, reference: Alignment | None = None, *, title: str
) -> str:
    """The text of the page."""
    errors, problem = _compare(alignment, reference)
    content = {
        "rate": recording.rate,
        "name": PurePath(title).stem,
        "duration": recording.duration,
        "words": _cells(alignment.words),
        "phones": _cells(alignment.phones, alignment.confidence),
        "reference": None
        if reference is None
        else {"phones": _cells(reference.phones), "words": _cells(reference.words)},
        "errors": [] if errors is None else _start_errors(alignment, errors),
    }
    flags = [*alignment.flags, *([problem] if problem else [])]
    return Template(asset("alignment.html")).substitute(
        title=html.escape(title),
        facts=_facts(recording, alignment, errors),
        flags=_flag_list(flags),
        legend=_legend(alignment, reference),
        data=embedded_json(content),
        audio=base64.b64encode(wav_bytes(recording)).decode(),
        style=asset("colours.css") + asset("alignment.css"),
        shared=_shared_script(),
        script=asset("alignment.js"),
    )


def _shared_script() -> str:
    """The rules of boundaries, which the studio imports as a module, as part of this page's one script."""
    return re.sub(r"^export ", "", asset("boundaries.js"), flags=re.MULTILINE)


def wav_bytes(recording: Recording) -> bytes:
    """16-bit mono WAV. The script relies on a header of 44 bytes."""
    loud = np.round(np.clip(recording.samples, -1.0, 1.0) * 32767.0).astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(recording.rate)
        file.writeframes(loud.tobytes())
    return out.getvalue()


def _cells(tier: Sequence[Interval], confidence: Sequence[float] | None = None) -> list[list[Any]]:
    """start, end, label, confidence or null, whether it is silence."""
    sure = confidence or [math.nan] * len(tier)
    return [
        [i.start, i.end, i.label, None if math.isnan(c) else round(c, 4), is_silence(i.label)]
        for i, c in zip(tier, sure, strict=True)
    ]


def _compare(alignment: Alignment, reference: Alignment | None) -> tuple[BoundaryErrors | None, str | None]:
    """The errors of the boundaries, or why there are none."""
    if reference is None:
        return None, None
    try:
        errors = boundary_errors(reference, alignment, "no comparison")
    except DataError as error:
        return None, str(error)
    return (errors, None) if len(errors) else (None, None)


def _start_errors(alignment: Alignment, errors: BoundaryErrors) -> list[list[float]]:
    """start, start and the difference in ms of each boundary where a phone of the alignment starts."""
    of_start = dict(zip(errors.predicted.tolist(), (1e3 * errors.seconds).tolist(), strict=True))
    starts = (p.start for p in alignment.phones)
    return [[start, start, round(of_start[start])] for start in starts if start in of_start]


def _facts(recording: Recording, alignment: Alignment, errors: BoundaryErrors | None) -> str:
    spoken = sum(not is_silence(p.label) for p in alignment.phones)
    facts = [f"<b>{recording.duration:.2f} s</b>", f"<b>{spoken}</b> phones"]
    if alignment.words:
        facts.append(f"<b>{sum(not is_silence(w.label) for w in alignment.words)}</b> words")
    sure = [c for c in alignment.confidence or () if not math.isnan(c)]
    if sure:
        facts.append(f"mean confidence <b>{sum(sure) / len(sure):.2f}</b>")
    if errors is not None:
        found = AlignmentEvaluation((errors,), tolerances_ms=(10.0, 20.0))
        shares = " / ".join(f"{100 * e.value:.0f} %" for e in found.within.values())
        facts.append(f"within 10 / 20 ms of the reference <b>{shares}</b>")
        facts.append(f"median error <b>{found.median_ms.value:.1f} ms</b>")
    return " · ".join(facts)


def _flag_list(flags: Sequence[str]) -> str:
    if not flags:
        return ""
    items = "".join(f"<li>{html.escape(flag)}</li>" for flag in flags)
    return f'<section id="flags"><h2>To check</h2><ul>{items}</ul></section>'


def _legend(alignment: Alignment, reference: Alignment | None) -> str:
    parts = []
    if alignment.confidence is not None:
        parts.append("confidence of a start: unsure<i></i>sure")
    if reference is not None:
        parts.append("<u></u>start <u class=reference></u>start in the reference")
    return " ".join(parts)
