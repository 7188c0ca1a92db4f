"""What others rely on in a release: metadata, workflows, oldest versions, old model files, small models."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from released_models import ANSWERS, FOLDER
from trellis.registry import KINDS
from trellis.speech.builtin import builtin_aligner

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# extras that `make test-oldest` installs in their oldest versions; PyTorch is that of the tests everywhere
HELD_BACK = ("plot", "graph", "parquet", "english", "studio", "cluster")
CONFIGURATION = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
]
OTHER_KINDS = {"Aligner", "FactorGraph", "IOHMM", "NeuralSequenceLabeler"}  # no small file of 0.1 is kept


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("path", CONFIGURATION, ids=lambda path: path.name)
def test_configuration_can_be_read(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    if path.parent.name == "workflows":
        assert content["permissions"] == {"contents": "read"}  # jobs that need more say so
        for job in content["jobs"].values():
            assert job["runs-on"]
            assert all("uses" in step or "run" in step for step in job["steps"])


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name
)
def test_workflows_call_targets_that_are_there(path: Path) -> None:
    called = set(re.findall(r"\bmake ([a-z][a-z-]*)", path.read_text(encoding="utf-8")))
    assert called or path.name == "publish.yml"
    assert called <= _targets()


def test_the_matrix_has_the_pythons_of_the_classifiers() -> None:
    yaml = pytest.importorskip("yaml")
    versions = [name.rsplit(" ", 1)[1] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    for name, job in (("test.yml", "suite"), ("publish.yml", "wheels")):
        content = yaml.safe_load((ROOT / ".github/workflows" / name).read_text(encoding="utf-8"))
        assert content["jobs"][job]["strategy"]["matrix"]["python"] == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_the_version_is_the_same_everywhere() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['version']}\n" in cited
    assert PROJECT["authors"] == [{"name": "The Trellis developers"}]
    assert "name: The Trellis developers" in cited


def test_the_comparison_names_the_versions_that_are_checked() -> None:
    page = (ROOT / "docs/comparison.md").read_text(encoding="utf-8").lower()
    lines = (ROOT / "requirements/peers.txt").read_text(encoding="utf-8").splitlines()
    peers = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert len(peers) > 10
    for name, number in peers:
        assert name in ("torch", "seqeval") or f"{name} {number}" in page


def test_the_oldest_versions_are_those_of_the_project() -> None:
    text = (ROOT / "requirements/oldest.txt").read_text(encoding="utf-8")
    oldest = dict(line.split("==") for line in text.splitlines() if line and not line.startswith("#"))
    required: dict[str, str] = {}
    extras = PROJECT["optional-dependencies"]
    for line in [
        *PROJECT["dependencies"],
        *(one for name in HELD_BACK for one in extras[name]),
    ]:
        name, _, version = line.partition(">=")
        required[name.partition("[")[0]] = version
    assert set(required) <= set(oldest)
    for name, version in required.items():
        # the first release of that series that can be installed: 1.11.1 for 1.11
        assert f"{oldest[name]}.".startswith(f"{version}."), name


@pytest.mark.parametrize(
    "path", sorted(FOLDER.rglob("*.trellis")), ids=lambda path: f"{path.parent.name} {path.stem}"
)
def test_files_of_earlier_versions_are_read(path: Path) -> None:
    answers: dict[str, Any] = json.loads((path.parent / "answers.json").read_text(encoding="utf-8"))
    found, kept = ANSWERS[path.stem](trellis.load(path)), answers[path.stem]
    if not isinstance(kept, list):
        found, kept = [found], [kept]
    for one, other in zip(found, kept, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-12)


def test_every_released_version_left_its_files() -> None:
    listed = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in set(re.findall(r"^## (\d+\.\d+)\.\d+ ", listed, re.MULTILINE)):
        kinds = {path.stem for path in (FOLDER / version).glob("*.trellis")}
        assert kinds | OTHER_KINDS >= set(KINDS) if version == "0.1" else kinds


def test_rounded_weights_are_close_and_pack_well() -> None:
    place = ROOT / "scripts/builtin_speech/rounded_weights.py"
    spec = importlib.util.spec_from_file_location("rounded_weights", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    matrix = np.random.default_rng(0).normal(size=(50, 30)).astype(np.float32) * np.geomspace(1e-3, 1e3, 30)
    matrix[:, 3] = 0.0
    close = module.rounded(matrix.astype(np.float32), 12)
    largest = np.abs(matrix).max(axis=0)
    assert (np.abs(close - matrix) <= largest / 2**11 + 1e-12).all()
    np.testing.assert_array_equal(module.rounded(close, 12), close)
    shipped = builtin_aligner().to_state()[1]
    for array in shipped.values():
        if array.dtype == np.float32 and array.ndim == 2 and array.size >= module.SMALLEST:
            np.testing.assert_array_equal(module.rounded(array, module.BITS), array)
