"""What an optimiser of PyTorch remembers, as arrays that checkpoints hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def moments(optimizer: torch.optim.Optimizer) -> dict[int, dict[str, Any]]:
    """The state of each parameter, by its number."""
    return {
        i: {key: value.numpy() for key, value in one.items() if value is not None}
        for i, one in optimizer.state_dict()["state"].items()
    }


def load_moments(optimizer: torch.optim.Optimizer, stored: Mapping[int, Mapping[str, Any]]) -> None:
    """The inverse of :func:`moments`; the options of the optimiser stay as they are."""
    state = {
        i: {key: torch.from_numpy(np.array(value)) for key, value in one.items()} for i, one in stored.items()
    }
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
