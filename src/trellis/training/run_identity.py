"""What two runs must share for one to go on from the checkpoint of the other, and what differs, in words.

The kind of model, every option but those that change no result, and a checksum of each part of the data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from trellis.core.checksums import checksum
from trellis.core.errors import shown

# The number of threads changes nothing but the rounding of sums: a run may go on on another machine.
FREE = frozenset({"checkpoint", "verbose", "n_jobs", "backend", "max_memory"})


def run_identity(
    kind: str, options: Mapping[str, Any], data: Mapping[str, Any], free: Collection[str] = ()
) -> dict[str, Any]:
    """As JSON values. Options that hold data (a pair of held-out examples) count among the data, and a random
    generator, whose seed the checkpoint keeps, not at all."""
    kept = {name: value for name, value in options.items() if name not in FREE and name not in free}
    if not isinstance(kept.get("random_state", 0), int | np.integer):
        kept["random_state"] = None
    data = dict(data)
    if isinstance(kept.get("holdout"), tuple):
        data["holdout"] = kept.pop("holdout")
    return {
        "kind": kind,
        "options": {name: [shown(value, 40), checksum(value)] for name, value in kept.items()},
        "data": {name: checksum(value) for name, value in data.items()},
    }


def difference(stored: Mapping[str, Any], own: Mapping[str, Any]) -> str | None:
    """What the stored run is of, if it is another one."""
    if stored.get("kind") != own["kind"]:
        return f"of {stored.get('kind')}, not of {own['kind']}"
    before, now = stored["options"], own["options"]
    for name in [*now, *(name for name in before if name not in now)]:
        was, is_ = before.get(name, ["not there", ""]), now.get(name, ["not there", ""])
        if was[1] != is_[1]:
            change = f"{name} was {was[0]}, now {is_[0]}" if was[0] != is_[0] else f"{name} differs"
            return f"from a run with other options ({change})"
    for name in {**stored["data"], **own["data"]}:
        if stored["data"].get(name) != own["data"].get(name):
            return f"from a run with other data (the checksum of {name} differs)"
    return None
