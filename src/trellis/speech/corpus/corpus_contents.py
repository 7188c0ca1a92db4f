"""What a corpus consists of, for the identity of checkpoints: the bytes of its recordings, and its labels."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from trellis.core.errors import DataError
from trellis.speech.corpus.utterance import Utterance

AT_ONCE = 1 << 20  # bytes


def corpus_contents(utterances: Iterable[Utterance]) -> dict[str, Any]:
    """By the names that messages have for them. Where the files lie does not matter."""
    of_file = cache(file_checksum)  # a file may have several channels
    given = list(utterances)
    return {
        "the recordings": [(u.id, u.channel, of_file(u.audio)) for u in given],
        "the labels": [(u.id, u.group, u.reference) for u in given],
    }


def file_checksum(path: Path) -> tuple[int, int]:
    """Bytes, and their CRC-32."""
    size, crc = 0, 0
    try:
        with open(path, "rb") as file:
            while block := file.read(AT_ONCE):
                size, crc = size + len(block), zlib.crc32(block, crc)
    except OSError as error:
        raise DataError(f"{path}: the recording cannot be read ({error.strerror})") from error
    return size, crc
