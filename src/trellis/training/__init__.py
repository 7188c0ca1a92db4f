"""The driver of training: hold-out, warm starts, restarts, progress, interruption, status and history.

The public names are imported on first use: ``--help`` reads :mod:`trellis.training.declarations` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

if TYPE_CHECKING:
    from trellis.training.driver import EarlyStopping as EarlyStopping
    from trellis.training.driver import minimise as minimise
    from trellis.training.driver import minimise_dc as minimise_dc
    from trellis.training.fit import TrainingWarning as TrainingWarning
    from trellis.training.restarts import keep_best as keep_best

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"driver": "EarlyStopping minimise minimise_dc", "fit": "TrainingWarning", "restarts": "keep_best"},
)
