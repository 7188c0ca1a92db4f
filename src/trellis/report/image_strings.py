"""Figures of image strings: the images, the true labels, the predictions of models, and marginals of one.

Each string is one panel. From top to bottom: the images; the true labels; one row of labels per model, with
mistakes in colour; and the marginals of one model as a heat map, label by position, with a dot on the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.report.figures import DIM, FAINT, GRID, INK, WRONG, figure_file

_IMAGE, _ROW, _CELL, _GAP = 1.0, 0.42, 0.3, 0.95  # heights in units of one image's width
_MARGIN = 3.4  # room for the names on the left
_INCH = 0.5  # inches per unit


@dataclass(frozen=True)
class ReadString:
    """One string: ``images`` (length, height, width), labels, and ``marginals`` (length, n_labels).

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.report.image_strings import ReadString
    >>> string = ReadString(np.zeros((2, 8, 8)), truth="ab", read={"CRF": "aa"}, marginals=np.eye(2))
    >>> string.images.shape
    (2, 8, 8)
    """

    images: NDArray[Any]
    truth: Sequence[object]
    read: Mapping[str, Sequence[object]]
    marginals: NDArray[Any]


def draw_strings(
    path: PathLike,
    strings: Sequence[ReadString],
    classes: Sequence[object],
    *,
    title: str,
    marginals_of: str,
    columns: int = 2,
) -> None:
    """Write the picture of ``strings`` to ``path``; the file's ending says the format (png, svg, pdf).

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from trellis.report.image_strings import ReadString, draw_strings
    >>> string = ReadString(np.zeros((2, 8, 8)), truth="ab", read={"CRF": "aa"}, marginals=np.eye(2))
    >>> draw_strings("strings.svg", [string], ["a", "b"], title="Two letters", marginals_of="CRF")
    >>> Path("strings.svg").exists()
    True
    """
    if not strings:
        raise DataError("there are no strings to draw; give at least one")
    models = list(strings[0].read)
    length = max(len(string.truth) for string in strings)
    panel_width = _MARGIN + length
    panel_height = _IMAGE + _ROW * (1 + len(models)) + _CELL * len(classes) + _GAP
    rows = -(-len(strings) // columns)
    width, height = columns * panel_width + 0.5, rows * panel_height + 1.4
    with figure_file(path, width * _INCH, height * _INCH) as figure:
        # One pair of axes in units of image widths, y downwards: everything has a place that can be computed.
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        axes.text(0.4, 0.62, title, fontsize=14, fontweight="bold", va="center")
        for index, string in enumerate(strings):
            left = (index % columns) * panel_width + _MARGIN
            top = (index // columns) * panel_height + 1.4
            top = _draw_images(axes, string, left, top)
            top = _draw_labels(axes, string, models, left, top)
            _draw_marginals(axes, string, classes, marginals_of, left, top + 0.12)


def _draw_images(axes: Any, string: ReadString, left: float, top: float) -> float:
    for t, image in enumerate(string.images):
        box = (left + t + 0.04, left + t + 0.96, top + _IMAGE - 0.04, top + 0.04)
        axes.imshow(image, cmap="gray_r", extent=box, aspect="auto", interpolation="nearest", zorder=2)
    return top + _IMAGE


def _draw_labels(axes: Any, string: ReadString, models: list[str], left: float, top: float) -> float:
    for name, labels in [("truth", string.truth), *((model, string.read[model]) for model in models)]:
        centre = top + _ROW / 2
        is_truth = name == "truth"
        shade = INK if is_truth else DIM
        axes.text(left - 0.2, centre, name, ha="right", va="center", color=shade, fontsize=9)
        for t, (label, true) in enumerate(zip(labels, string.truth, strict=True)):
            wrong = label != true
            if wrong:
                axes.add_patch(_rectangle(left + t + 0.18, top + 0.03, 0.64, _ROW - 0.06, WRONG))
            axes.text(
                left + t + 0.5,
                centre + 0.02,
                str(label),
                ha="center",
                va="center",
                fontsize=9,
                color="white" if wrong else INK,
                fontweight="bold" if wrong or is_truth else "normal",
            )
        if is_truth:
            edge = [left, left + len(labels)]
            axes.plot(edge, [top + _ROW] * 2, color=FAINT, linewidth=0.6)
        top += _ROW
    return top


def _draw_marginals(
    axes: Any, string: ReadString, classes: Sequence[object], model: str, left: float, top: float
) -> None:
    n, height = len(string.truth), _CELL * len(classes)
    box = (left, left + n, top + height, top)
    axes.imshow(
        string.marginals.T, cmap="Blues", vmin=0, vmax=1, extent=box, aspect="auto", interpolation="nearest"
    )
    for t in range(1, n):
        axes.plot([left + t] * 2, [top, top + height], color=GRID, linewidth=0.6)
    for k, label in enumerate(classes):
        centre = top + _CELL * (k + 0.5)
        axes.text(left - 0.2, centre, str(label), ha="right", va="center", fontsize=6, color=FAINT)
    axes.text(
        left - 0.75,
        top + height / 2,
        f"marginals of the\n{model}",
        ha="right",
        va="center",
        fontsize=9,
        color=DIM,
    )
    index = {label: k for k, label in enumerate(classes)}
    for t, true in enumerate(string.truth):
        if true in index:
            y = top + _CELL * (index[true] + 0.5)
            axes.plot(left + t + 0.5, y, "o", markersize=3.2, markerfacecolor="white", markeredgecolor=WRONG)
    axes.add_patch(_rectangle(left, top, n, height, "none", FAINT))


def _rectangle(left: float, top: float, width: float, height: float, face: str, edge: str = "none") -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((left, top), width, height, facecolor=face, edgecolor=edge, linewidth=0.6, zorder=2)
