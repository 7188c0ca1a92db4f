"""Models to and from files: the same predictions, the same parameters, and no trust in what a file says."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from tagging import as_dicts, clouds, noisy_words, spans
from trellis import SequenceLabeler, load, losses, objectives, solvers
from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.core.persistence import save
from trellis.data.columns import ColumnData
from trellis.features import Template

WORDS, Y = noisy_words(20)
ROWS = [[(w, w[:2]) for w in x] for x in WORDS]
ARRAYS, CODES = clouds(15)


def same(model: SequenceLabeler, path: Path, X: Any) -> SequenceLabeler:
    """Save, load, compare everything that can be seen."""
    model.save(path)
    loaded = load(path)
    assert loaded.predict(X) == model.predict(X)
    for a, b in zip(loaded.predict_marginals(X), model.predict_marginals(X), strict=True):
        assert_array_equal(a, b)
    assert list(loaded.classes_) == list(model.classes_)
    assert (loaded.status_, loaded.n_iter_, loaded.solver_) == (model.status_, model.n_iter_, model.solver_)
    assert loaded.history_ == model.history_
    assert (loaded.epsilon_, loaded.epsilon_losses_) == (model.epsilon_, model.epsilon_losses_)
    assert loaded.strongest_weights(3) == model.strongest_weights(3)
    assert_array_equal(loaded.transition_table(), model.transition_table())
    return loaded


@pytest.mark.parametrize(
    ("X", "y", "options"),
    [
        (as_dicts(WORDS), Y, {}),
        (as_dicts(WORDS), Y, {"transition_features": ["word"], "min_count": 2}),
        ([[[w, w[:2]] for w in x] for x in WORDS], Y, {"weights": "all"}),
        (WORDS, Y, {"boundaries": False}),
        (ARRAYS, CODES, {"transition_features": [0, 2]}),
        ([csr_array(x) for x in ARRAYS], CODES, {"weights": "observed"}),
        (ColumnData.from_sequences(ROWS), Y, {}),
        (ROWS, Y, {"template": Template.parse("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB1:%x[0,1]")}),
        (*spans(20), {"constraints": "bio"}),
        (*noisy_words(20, labels=(("x", 1), ("x", 2), ("y", None))), {}),
        (*noisy_words(20, labels=(True, 2.5, "z\u00e9")), {}),
    ],
)
def test_round_trip(tmp_path: Path, X: Any, y: Any, options: dict[str, Any]) -> None:
    model = SequenceLabeler(max_iter=5, **options).fit(X, y)
    loaded = same(model, tmp_path / "m.trellis", X)
    refitted = loaded.fit(X, y)
    assert_array_equal(refitted.weights_, model.weights_)


@pytest.mark.filterwarnings("ignore:no step brought:trellis.training.fit.TrainingWarning")  # two passes
@pytest.mark.parametrize("objective", [*objectives.OBJECTIVES])
def test_objectives_come_back(tmp_path: Path, objective: str) -> None:
    model = SequenceLabeler(objective, max_iter=2, random_state=np.int64(3)).fit(WORDS, Y)
    loaded = same(model, tmp_path / "m.trellis", WORDS)
    assert (loaded.objective, loaded.random_state) == (objective, 3)


@pytest.mark.filterwarnings("ignore:no step brought:trellis.training.fit.TrainingWarning")  # two passes
def test_objects_come_back_with_their_options(tmp_path: Path) -> None:
    objective = objectives.Direct(epsilon="holdout", sign="worse", candidates=(0.5, 2.0))
    loss = losses.WeightedHamming({("a", "b"): 3.0}, class_weight={"c": 2.0})
    model = SequenceLabeler(
        objective, loss, solvers.SGD(0.3, average=False), max_iter=2, holdout=0.2, random_state=0
    )
    loaded = same(model.fit(WORDS, Y), tmp_path / "m.trellis", WORDS)
    assert loaded.objective == objective
    assert loaded.solver == model.solver
    assert loaded.loss.matrix == {("a", "b"): 3.0}
    assert loaded.loss.class_weight == {"c": 2.0}
    assert_array_equal(loaded.fit(WORDS, Y).weights_, model.weights_)


@pytest.mark.parametrize(
    "loss",
    [
        losses.WeightedHamming(np.array([[0, 1, 2], [3, 0, 4], [5, 6, 0.0]])),
        losses.WeightedHamming([[0, 1, 2], [3, 0, 4], [5, 6, 0.0]]),
        losses.WeightedHamming(position_weight=[np.full(len(x), 2.0) for x in WORDS]),
        losses.SpanF1(n_candidates=5, candidates="samples"),
        losses.ZeroOne(),
    ],
)
def test_losses_come_back(tmp_path: Path, loss: losses.Loss) -> None:
    X, y = spans(20) if isinstance(loss, losses.SpanF1) else (WORDS, Y)
    model = SequenceLabeler("softmax_margin", loss, max_iter=2, random_state=0).fit(X, y)
    loaded = same(model, tmp_path / "m.trellis", X)
    assert type(loaded.loss) is type(loss)
    assert_array_equal(loaded.fit(X, y).weights_, model.weights_)


def test_functions_are_not_stored_and_say_so(tmp_path: Path) -> None:
    def wrong(gold: list[str], found: list[str]) -> float:
        return float(gold != found)

    for loss in (wrong, losses.Custom(wrong), losses.WeightedHamming(position_weight=np.ones)):
        model = SequenceLabeler("margin", loss, solvers.MiniBatch(), max_iter=2, random_state=0).fit(WORDS, Y)
        loaded = same(model, tmp_path / "m.trellis", WORDS)
        with pytest.raises(UnsupportedError, match="Python function, which model files do not store"):
            loaded.fit(WORDS, Y)
        assert_array_equal(loaded.set_params(loss=loss).fit(WORDS, Y).weights_, model.weights_)


def test_hold_out_data_are_not_part_of_a_model(tmp_path: Path) -> None:
    model = SequenceLabeler("perceptron", holdout=(WORDS, Y), max_iter=2).fit(WORDS, Y)
    assert same(model, tmp_path / "m.trellis", WORDS).holdout == "auto"


def test_what_cannot_be_saved_is_refused_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.trellis"
    SequenceLabeler(max_iter=2).fit(WORDS, Y).save(path)
    before = path.read_bytes()
    odd = [[complex(1, len(row)) for _ in row] for row in Y]
    with pytest.raises(DataError, match="cannot be saved"):
        SequenceLabeler(max_iter=2).fit(WORDS, odd).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_extra_values_stay_with_the_model(tmp_path: Path) -> None:
    path = tmp_path / "m.trellis"
    save(SequenceLabeler(max_iter=2).fit(WORDS, Y), path, {"columns": [0, 1]})
    load(path).save(path)
    assert load(path).extra_ == {"columns": [0, 1]}


# -- files that are not what they should be -----------------------------------------------------------------


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m.trellis"
    pairs = {pair for row in Y for pair in pairwise(row)}
    SequenceLabeler(max_iter=2, constraints=pairs).fit(WORDS, Y).save(path)
    return path


def test_damage_anywhere_is_found(tmp_path: Path, model_file: Path) -> None:
    content = model_file.read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.trellis"
    for position in [0, 7, *rng.integers(8, len(content), 60).tolist()]:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"damaged\.trellis"):
            load(path)


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 100, -1, -1000])
def test_truncated_files(tmp_path: Path, model_file: Path, kept: int) -> None:
    path = tmp_path / "short.trellis"
    path.write_bytes(model_file.read_bytes()[:kept])
    with pytest.raises(ModelFileError, match=r"short\.trellis"):
        load(path)


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    for content in (b"", b"hello", b"\x80\x04\x95", struct.pack("<Q", 2) + b"{}", b"\x00" * 64):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="foreign"):
            load(path)
    with pytest.raises(ModelFileError, match="no such file"):
        load(tmp_path / "nowhere")
    storage.save(path, "SomethingElse", {}, {"x": np.zeros(1)})
    with pytest.raises(ModelFileError, match="this is a model of kind 'SomethingElse'"):
        load(path)


def test_newer_versions(tmp_path: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, meta, arrays = storage.read(model_file)
    monkeypatch.setattr(storage, "FORMAT_VERSION", 99)
    storage.save(tmp_path / "new", kind, meta, arrays)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="written in format 99"):
        load(tmp_path / "new")


def _set(name: str, change: Any) -> Any:
    def forge(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = change(arrays[name])

    return forge


def _meta(*keys: str, value: Any) -> Any:
    def forge(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        for key in keys[:-1]:
            meta = meta[key]
        if value is None:
            del meta[keys[-1]]
        else:
            meta[keys[-1]] = value

    return forge


FORGERIES = [
    _set("weights_", lambda w: w[:-1]),
    _set("weights_", lambda w: w.astype(np.float32)),
    _set("weights_", lambda w: np.full_like(w, np.nan)),
    _set("layout_.row_of", lambda r: r + np.uint32(10**6)),
    _set("layout_.row_of", lambda r: np.zeros_like(r)),
    _set("layout_.row_of", lambda r: r[:-1]),
    _set("layout_.rows.pointer", lambda p: p + np.uint32(1)),
    _set("layout_.rows.pointer", lambda p: p[::-1].copy()),
    _set("layout_.rows.pointer", lambda p: p.astype(np.int64)),
    _set("layout_.rows.label", lambda p: np.append(p, np.uint16(3))),
    _set("layout_.mask", lambda m: m[:1]),
    _set("penalties_.transitions", lambda p: p[:1]),
    _set("penalties_.start", lambda p: p + np.nan),
    _meta("fitted", "layout_", "n_labels", value=2),
    _meta("fitted", "layout_", "n_hot", value=10**6),
    _meta("fitted", "layout_", "n_hot", value=-1),
    _meta("fitted", "layout_", "n_edge", value=3),
    _meta("fitted", "latent_", "labels", "labels", value=["a", "b"]),
    _meta("fitted", "latent_", "labels", "labels", value=["a", "b", {"x": 1}]),
    _meta("fitted", "latent_", value=None),
    _meta("fitted", "encoder_", value=None),
    _meta("fitted", "encoder_", "@", value="unheard of"),
    _meta("fitted", "status_", value={"@": "core.Status", "converged": True}),
    _meta("parameters", "l3", value=1.0),
    _meta("parameters", "objective", value={"@": "os.system", "command": "rm"}),
    _meta("parameters", "loss", value={"@": "losses.Nothing"}),
    _meta("parameters", "solver", value={"@": ["solvers.SGD"]}),
    _meta("parameters", "solver", value={"no": "kind"}),
]


@pytest.mark.parametrize("forge", FORGERIES)
def test_forged_files_reach_no_kernel(tmp_path: Path, model_file: Path, forge: Any) -> None:
    """The checksum is right, the content is not."""
    kind, meta, arrays = storage.read(model_file)
    forge(meta, arrays)
    storage.save(tmp_path / "forged", kind, meta, arrays)
    with pytest.raises(ModelFileError, match="forged: the model file is damaged or incomplete") as caught:
        load(tmp_path / "forged")
    assert "\n" not in str(caught.value)


def test_files_hold_no_code(model_file: Path) -> None:
    content = model_file.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    head = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["trellis"])
    assert head["kind"] == "SequenceLabeler"
    assert b"pickle" not in content
    assert b"__reduce__" not in content
