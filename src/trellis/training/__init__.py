"""The driver of training: hold-out, warm starts, restarts, progress, interruption, status and history."""

from trellis.training.driver import EarlyStopping, minimise, minimise_dc
from trellis.training.restarts import best_of

__all__ = ["EarlyStopping", "best_of", "minimise", "minimise_dc"]
