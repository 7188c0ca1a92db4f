"""Figures of labelled images: labels by colour, and numbers by shade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.errors import DataError
from trellis.report.figures import DIM, FAINT, FIRST, INK, SECOND, THIRD, WRONG
from trellis.report.plots import make_axes

_MORE = ("#8d6cab", "#7f9c3b", "#b5764a", "#4fa3c7", "#d487a8", "#a39161")
LABEL_COLOURS = (FIRST, THIRD, SECOND, WRONG, DIM, FAINT, *_MORE)
LEVELS = 8


def shade_levels(shades: ArrayLike, n: int = LEVELS) -> tuple[NDArray[np.int64], int]:
    """Numbers from 0 to 1 as whole levels 0 to ``n``, and ``n``."""
    return np.rint(n * np.clip(np.nan_to_num(np.asarray(shades, np.float64)), 0.0, 1.0)).astype(np.int64), n


def unit_shades(values: ArrayLike) -> NDArray[np.float64]:
    """Finite numbers moved and scaled into 0 to 1."""
    numbers = np.asarray(values, np.float64)
    low, high = float(numbers.min(initial=np.inf)), float(numbers.max(initial=-np.inf))
    return (numbers - low) / (high - low) if high > low else np.zeros_like(numbers)


def plot_label_image(labels: ArrayLike, ax: Any = None, *, classes: Sequence[Any] | None = None) -> Any:
    """An image (height, width) of labels, each in its colour; ``classes`` fixes their order."""
    image = _image(labels)
    names = sorted(set(image.ravel().tolist()), key=str) if classes is None else list(classes)
    codes = {name: k for k, name in enumerate(names)}
    unknown = [label for label in image.ravel().tolist() if label not in codes]
    if unknown:
        raise DataError(f"label {unknown[0]!r} is not among the classes {names}; give all classes")
    numbers = np.array([codes[label] for label in image.ravel().tolist()]).reshape(image.shape)
    ax = make_axes(ax, 3.4, 3.4)
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colours = [LABEL_COLOURS[k % len(LABEL_COLOURS)] for k in range(len(names))]
    ax.imshow(numbers, ListedColormap(colours), vmin=-0.5, vmax=len(names) - 0.5, interpolation="nearest")
    handles = [Patch(color=colour, label=str(name)) for colour, name in zip(colours, names, strict=True)]
    ax.legend(handles=handles, frameon=False, labelcolor=INK, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return _bare(ax)


def plot_shade_image(shades: ArrayLike, ax: Any = None, *, colour: str = WRONG) -> Any:
    """An image (height, width) of numbers from 0 (white) to 1 (the colour), such as 1 - P(gold label)."""
    image = _image(shades)
    levels, n = shade_levels(image)
    ax = make_axes(ax, 3.0, 3.0)
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("shades", ["white", colour])
    ax.imshow(levels, colours, vmin=0, vmax=n, interpolation="nearest")
    return _bare(ax)


def _image(given: ArrayLike) -> NDArray[Any]:
    image = np.asarray(given)
    if image.ndim != 2:
        raise DataError(f"the image has shape {image.shape}; give (height, width)")
    return image


def _bare(ax: Any) -> Any:
    ax.set(xticks=(), yticks=())
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax
