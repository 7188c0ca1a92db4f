"""Gzip data that unfold to more than they should are refused in one sentence, by every reader."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet.formats.row_tables import read_rows
from trellis.core import free_memory as memory
from trellis.core.errors import DataError
from trellis.data import unfolded_gzip
from trellis.data.attributes import iter_attribute_blocks, read_attributes
from trellis.data.columns import iter_column_blocks, read_columns, read_conllu
from trellis.data.streams import read_utf8
from trellis.features.templates import Template

SIZE = 80 * 2**20  # more than what is always fine

READERS: dict[str, Callable[[Path], Any]] = {
    "columns": read_columns,
    "column blocks": lambda path: sum(block.n_steps for block in iter_column_blocks(path, 10)),
    "conllu": read_conllu,
    "attributes": read_attributes,
    "attribute blocks": lambda path: sum(1 for _ in iter_attribute_blocks(path, 10)),
    "template": Template.read,
    "bif": BayesianNetwork.read,
    "uai": FactorGraph.read,
    "fg": FactorGraph.read,
    "rows": lambda path: read_rows(str(path), BayesianNetwork({"A": ["0", "1"]}).variables, (), "utf-8"),
}
SUFFIXES = {"bif": ".bif.gz", "uai": ".uai.gz", "fg": ".fg.gz"}


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One line of zeros that never ends: gzip makes a thousandth of it."""
    path = tmp_path_factory.mktemp("bomb") / "zeros.gz"
    path.write_bytes(gzip.compress(b"0" * 2**20) * (SIZE // 2**20))
    return path


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_a_bomb(reader: str, bomb: Path, tmp_path: Path) -> None:
    path = tmp_path / f"bomb{SUFFIXES.get(reader, '.gz')}"
    path.symlink_to(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"bomb\S*: the gzip data expand to more than 200 times"):
            READERS[reader](path)
        assert tracemalloc.get_traced_memory()[1] < 3 * SIZE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("lines", [b"0" * 2**20, b"0 1\n" * 2**18], ids=["one line", "one block"])
def test_what_is_read_at_once_fits_into_free_memory(lines: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfolded_gzip, "ALWAYS_FINE", 2**20)
    monkeypatch.setattr(unfolded_gzip, "MAX_RATIO", 2000)
    monkeypatch.setattr(unfolded_gzip, "free_memory", lambda: 16 * 2**20)
    packed = gzip.compress(8 * lines)
    for read in (read_columns, lambda source: list(iter_column_blocks(source, 10))):
        with pytest.raises(DataError, match=r"more than 0\.0 GiB to be held at once, and 0\.0 GiB"):
            read(io.BytesIO(packed))
    monkeypatch.setattr(unfolded_gzip, "free_memory", lambda: 64 * 2**20)
    assert len(read_utf8(io.BytesIO(packed))) == 8 * len(lines)


def test_blocks_of_a_file_larger_than_memory_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfolded_gzip, "ALWAYS_FINE", 2**10)
    monkeypatch.setattr(unfolded_gzip, "MAX_RATIO", 2000)
    monkeypatch.setattr(unfolded_gzip, "free_memory", lambda: 2**12)
    packed = gzip.compress(b"a b\n\n" * 10_000)
    assert sum(block.n_steps for block in iter_column_blocks(io.BytesIO(packed), 10)) == 10_000


def test_small_files_may_unfold_as_they_like() -> None:
    assert read_columns(io.BytesIO(gzip.compress(b"a b\n" * 100_000))).n_steps == 100_000


def test_free_memory_is_the_least_of_machine_and_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory, "_GROUPS", ())
    assert memory.free_memory() is None
    monkeypatch.setattr(memory, "_MEMINFO", write("info", "MemTotal: 90 kB\nMemAvailable:  50 kB\n"))
    assert memory.free_memory() == 50 * 1024
    used = write("used", "1000\n")
    monkeypatch.setattr(memory, "_GROUPS", ((write("limit", "max\n"), used),))
    assert memory.free_memory() == 50 * 1024
    monkeypatch.setattr(memory, "_GROUPS", ((write("limit", "3000\n"), used),))
    assert memory.free_memory() == 2000
