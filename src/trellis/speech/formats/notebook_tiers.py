"""An alignment as an inline picture for notebooks: words above phones, over a line of seconds."""

from __future__ import annotations

from html import escape

from trellis.core.notebook import DIM, INK, picture, text
from trellis.speech.formats.alignment import Alignment

_PER_PHONE, _LONGEST, _ROW = 34.0, 4000.0, 26.0


def alignment_html(alignment: Alignment) -> str:
    """The tiers in a box that scrolls."""
    seconds = float(alignment.duration or 0.0)
    words = (
        f"Alignment: {len(alignment.phones)} phones, {len(alignment.words)} words, {seconds:.2f} s"
        + (f", {alignment.source}" if alignment.source else "")
        + (f"; {', '.join(alignment.flags)}" if alignment.flags else "")
    )
    if not seconds:
        return f"<div><p>{escape(words)}</p></div>"
    width = min(max(300.0, _PER_PHONE * len(alignment.phones)), _LONGEST)
    scale, parts = width / seconds, list[str]()
    tiers = [tier for tier in (alignment.words, alignment.phones) if tier]
    for row, tier in enumerate(tiers):
        y = 2 + row * _ROW
        for one in tier:
            x, wide = scale * one.start, scale * (one.end - one.start)
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{_ROW - 4:.1f}" fill="#f3f5f8" '
                f'stroke="{DIM}"><title>{escape(one.label)}: {one.start:.3f} to {one.end:.3f} s</title>'
                "</rect>"
            )
            if 7.0 * len(one.label) <= wide + 2:  # what does not fit is said by the title
                parts.append(text(x + wide / 2, y + 15, one.label))
    y = 14 + len(tiers) * _ROW
    parts += [text(0, y, "0 s", anchor="start", colour=INK), text(width, y, f"{seconds:.2f} s", anchor="end")]
    drawn = picture(width + 2, y + 6, words, parts)
    return f'<div><p>{escape(words)}</p><div style="overflow-x:auto">{drawn}</div></div>'
