"""Links: what becomes of the difference z of a total and its baseline.

    identity    z
    square      (1/2) [z]_+^2

They are convex and never fall, so they keep a convex z convex. One function serves numbers, arrays, tensors
and, compiled, the kernels.
"""

from __future__ import annotations

from typing import Any, Literal

Link = Literal["identity", "square"]
IDENTITY, SQUARE = range(2)


def link(kind: int, z: Any) -> tuple[Any, Any]:
    """Value and slope at z."""
    if kind == SQUARE:
        positive = 0.5 * (z + abs(z))
        return 0.5 * positive * positive, positive
    return z, 1.0
