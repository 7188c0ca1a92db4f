"""Sets of variables as bits of whole numbers: which they are, and how many joint states they have.

A plan asks both of the same few sets again and again. Dictionaries that find what they lack answer at the
speed of a look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Members(dict[int, tuple[int, ...]]):
    """The variables of a mask, ascending."""

    def __missing__(self, mask: int) -> tuple[int, ...]:
        members, rest = [], mask
        while rest:
            low = rest & -rest
            members.append(low.bit_length() - 1)
            rest ^= low
        found = self[mask] = tuple(members)
        return found


class JointStates(dict[int, int]):
    """The product of the cardinalities of a mask."""

    def __init__(self, sizes: Sequence[int], members: Callable[[int], tuple[int, ...]]) -> None:
        super().__init__({0: 1})
        self._sizes, self._members = sizes, members

    def __missing__(self, mask: int) -> int:
        found = 1
        for v in self._members(mask):
            found *= self._sizes[v]
        self[mask] = found
        return found
