"""Commands on many files: the same models and answers as on one file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from trellis import load
from trellis.cli import file_maps
from trellis.cli.app import app
from trellis.core.errors import DataError, TrellisError, UnsupportedError
from trellis.data.shard_files import text_shards

RUN = CliRunner()


def run(*arguments: object) -> str:
    result = RUN.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def text(seed: int, n: int) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        for _ in range(int(rng.integers(1, 7))):
            word = ("the", "a", "dog", "Rex", "runs", "Ann")[rng.integers(6)]
            name = word[0].isupper() and rng.random() < 0.9
            lines.append(f"{word} {'NP' if name else 'X'} {'B-PER' if name else 'O'}")
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, one of them gzip; ``all.conll`` holds all of them, in their order."""
    made = tmp_path_factory.mktemp("many")
    parts = [text(i, n) for i, n in enumerate((30, 50, 20))]
    (made / "data").mkdir()
    for i, part in zip((1, 2, 10), parts, strict=True):
        name = made / "data" / f"part-{i}.conll"
        if i == 2:
            Path(f"{name}.gz").write_bytes(gzip.compress(part.encode()))
        else:
            name.write_text(part, "utf-8")
    (made / "all.conll").write_text("".join(parts), "utf-8")
    run("train", made / "all.conll", "-o", made / "one.trellis", "-q")
    return made


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_shards, "SHARD_STEPS", 40)
    monkeypatch.setattr(file_maps.work_on, "__defaults__", (40,))


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("given", ["folder", "pattern", "files", "max-memory"])
def test_training_on_files_gives_the_model_of_one_file(folder: Path, tmp_path: Path, given: str) -> None:
    arguments = {
        "folder": [folder / "data"],
        "pattern": [f"{folder}/data/part-*"],
        "files": [folder / "data" / f"part-{i}" for i in ("10.conll", "1.conll", "2.conll.gz")],
        "max-memory": [folder / "all.conll", "--max-memory", "2GB"],
    }[given]
    out = RUN.invoke(app, ["train", *map(str, arguments), "-o", str(tmp_path / "m")], catch_exceptions=False)
    assert out.exit_code == 0, out.output
    one, many = load(folder / "one.trellis"), load(tmp_path / "m")
    assert many.extra_["input"] == one.extra_["input"]
    assert many.encoder_.feature_names() == one.encoder_.feature_names()
    np.testing.assert_allclose(many.weights_, one.weights_, atol=2e-3)
    assert (
        f"{sum(map(bool, (folder / 'all.conll').read_text().splitlines()))} tokens in 100 seq" in out.stderr
    )


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("options", [[], ["--labels-only"], ["--marginals"], ["-k", "2"], ["-j", "2"]])
def test_files_are_tagged_as_one_by_one(folder: Path, tmp_path: Path, options: list[str]) -> None:
    run("tag", folder / "one.trellis", folder / "data", "-o", tmp_path / "tagged", *options)
    names = sorted(path.name for path in (folder / "data").iterdir())
    assert sorted(path.name for path in (tmp_path / "tagged").iterdir()) == names
    for name in names:
        run("tag", folder / "one.trellis", folder / "data" / name, "-o", tmp_path / "alone", *options)
        found = (tmp_path / "tagged" / name).read_bytes()
        alone = (tmp_path / "alone").read_bytes()
        assert (gzip.decompress(found) if name.endswith(".gz") else found) == alone
    whole = RUN.invoke(app, ["tag", str(folder / "one.trellis"), str(folder / "data"), *options])
    parts = (tmp_path / "tagged" / f"part-{i}" for i in ("1.conll", "2.conll.gz", "10.conll"))
    opened = [gzip.open(one, "rb") if one.suffix == ".gz" else open(one, "rb") for one in parts]  # noqa: SIM115
    assert whole.stdout_bytes == b"".join(one.read() for one in opened)
    for one in opened:
        one.close()


@pytest.mark.usefixtures("small_shards")
def test_evaluating_files_counts_them_as_one(folder: Path) -> None:
    model = folder / "one.trellis"
    for options in (["--json"], ["--json", "--bernstein"], ["--json", "--against", model], []):
        many = run("evaluate", model, folder / "data", *options)
        one = run("evaluate", model, folder / "all.conll", *options)
        if "--json" not in options:
            assert many == one
            continue
        found, wanted = json.loads(many), json.loads(one)
        assert found.pop("by_type") == wanted.pop("by_type")
        assert found == wanted


def test_local_processes_do_the_same(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("trellis.core.backends.dask_backend")
    place = ["--local-cluster", "1"]
    run("train", folder / "data", "-o", tmp_path / "m", "-q", "--max-iter", "3", *place)
    run("tag", tmp_path / "m", folder / "all.conll", "-o", tmp_path / "here")
    run("tag", tmp_path / "m", folder / "all.conll", folder / "data", "-o", tmp_path / "there", *place)
    assert (tmp_path / "there" / "all.conll").read_bytes() == (tmp_path / "here").read_bytes()
    there = run("evaluate", tmp_path / "m", folder / "all.conll", "--json", *place)
    assert json.loads(there) == json.loads(run("evaluate", tmp_path / "m", folder / "all.conll", "--json"))


def test_hashing_by_an_option(folder: Path, tmp_path: Path) -> None:
    out = RUN.invoke(
        app,
        ["train", str(folder / "data"), "-o", str(tmp_path / "m"), "--hashing", "65536"],
        catch_exceptions=False,
    )
    assert out.exit_code == 0
    assert "of 65536 buckets are used, by about" in out.stderr
    shown = run("inspect", tmp_path / "m")
    assert "hashing=65536" in shown
    assert "their names not kept" in shown
    assert "  bucket " in shown
    run("tag", tmp_path / "m", folder / "data", "-o", tmp_path / "tagged")
    assert json.loads(run("evaluate", tmp_path / "m", folder / "data", "--json"))["tokens_right"] > 0.9


def test_errors_before_any_work(folder: Path, tmp_path: Path) -> None:
    def refused(kind: type[TrellisError], message: str, *arguments: object) -> None:
        with pytest.raises(kind, match=message):
            RUN.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)

    model, data = folder / "one.trellis", folder / "data"
    refused(DataError, "no file matches", "train", f"{tmp_path}/*.conll", "-o", tmp_path / "m")
    both = ["--cluster", "tcp://x:1", "--local-cluster", "2"]
    refused(UnsupportedError, "give only one of them", "train", data, "-o", tmp_path / "m", *both)
    np.save(tmp_path / "a.npy", np.ones(3))
    np.save(tmp_path / "b.npy", np.ones(3))
    refused(UnsupportedError, "reads text files, and these are npy", "train", tmp_path, "-o", tmp_path / "m")
    refused(DataError, "the output would overwrite", "tag", model, data, "-o", data)
    same = tmp_path / "all.conll"
    same.write_text("a X\n", "utf-8")
    refused(
        DataError,
        "two files are named all.conll",
        "tag",
        model,
        same,
        folder / "all.conll",
        "-o",
        tmp_path / "t",
    )
    refused(DataError, "is a file, but there are several", "tag", model, data, "-o", same)
    same.write_text("a X B-PER extra\n", "utf-8")
    refused(
        DataError,
        "has 4 columns, but the model was trained on 3",
        "tag",
        model,
        data,
        same,
        "-o",
        tmp_path / "t",
    )
    refused(DataError, "has 4 columns", "evaluate", model, data, same)
    assert not (tmp_path / "t" / "all.conll").exists()
