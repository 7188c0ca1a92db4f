"""Runs that can be stored between two steps and taken up again, in the same process or another.

``snapshot()`` gives all that the next step depends on beside the problem and the options, as values that
files may hold (:mod:`trellis.core.codec`); ``restore(snapshot)`` brings a run that was just started, on the
same problem with the same options, to that point. From there on both take the same steps, to the last bit.
What follows from the rest is computed again rather than stored.

A snapshot refers to the arrays of the run: it is written, or copied, before the next step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np


class Resumable:
    """``kept`` names the attributes that make it up: values, random generators, or objects that are
    resumable themselves. A class adds to those of its base."""

    kept: ClassVar[tuple[str, ...]] = ()

    def snapshot(self) -> dict[str, Any]:
        return {name: _stored(getattr(self, name)) for name in self._all_kept()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        for name in self._all_kept():
            setattr(self, name, _restored(getattr(self, name), snapshot[name]))

    @classmethod
    def _all_kept(cls) -> list[str]:
        return [name for base in reversed(cls.__mro__) for name in base.__dict__.get("kept", ())]


def _stored(value: Any) -> Any:
    if isinstance(value, Resumable):
        return value.snapshot()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    return value


def _restored(value: Any, stored: Any) -> Any:
    if isinstance(value, Resumable):
        value.restore(stored)
        return value
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = stored
        return value
    return stored
