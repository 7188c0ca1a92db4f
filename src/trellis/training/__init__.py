"""The driver of training: hold-out, warm starts, restarts, progress, interruption, status and history.

The public names are imported on first use: ``--help`` reads :mod:`trellis.training.declarations` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

_EXPORTS = {
    "EarlyStopping": "trellis.training.driver",
    "best_of": "trellis.training.restarts",
    "minimise": "trellis.training.driver",
    "minimise_dc": "trellis.training.driver",
}

__all__ = ["EarlyStopping", "best_of", "minimise", "minimise_dc"]

if TYPE_CHECKING:
    from trellis.training.driver import EarlyStopping, minimise, minimise_dc
    from trellis.training.restarts import best_of

__getattr__, __dir__ = lazy_exports(__name__, _EXPORTS)
