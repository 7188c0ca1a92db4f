"""The neural labeller: it learns under every objective, reproduces, resumes, and says what is wrong."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from sklearn.base import clone  # noqa: E402

from tagging import as_dicts, clouds, noisy_words, spans  # noqa: E402
from trellis import load, losses, objectives  # noqa: E402
from trellis.core.errors import DataError, ModelFileError, NumericalError, UnsupportedError  # noqa: E402
from trellis.data.constraints import legal_transitions  # noqa: E402
from trellis.data.labels import LabelSet  # noqa: E402
from trellis.losses.metrics import errors_by_sequence  # noqa: E402
from trellis.neural import NeuralSequenceLabeler  # noqa: E402
from trellis.neural.labeler.batches import Corpus  # noqa: E402
from trellis.neural.labeler.network_inputs import InputEncoder, InputShape  # noqa: E402
from trellis.neural.labeler.network_training import NetworkProblem, NetworkRun  # noqa: E402
from trellis.neural.labeler.networks import EncoderOptions, new_network  # noqa: E402
from trellis.neural.labeler.schedules import make_stages  # noqa: E402

X, Y = noisy_words(100)
NEW, GOLD = noisy_words(60, seed=1)
WEIGHTED = losses.WeightedHamming(class_weight={1: 2.0})
SMALL: dict[str, Any] = {
    "embedding_dim": 8,
    "hidden": 8,
    "attribute_dim": 4,
    "char_dim": 4,
    "learning_rate": 1e-2,
    "batch_size": 8,
    "max_epochs": 8,
    "random_state": 0,
}


def labeler(*args: Any, **options: Any) -> NeuralSequenceLabeler:
    return NeuralSequenceLabeler(*args, **{**SMALL, **options})


@pytest.mark.parametrize("objective", ["softmax", *objectives.OBJECTIVES])
def test_learns_under_every_objective(objective: str) -> None:
    model = labeler("bilstm", objective)
    if objective == "ramp":  # flat far from the gold labels: it needs a start
        model.set_params(objective_schedule=[("log", 4), ("ramp", None)])
    model.fit(X, Y)
    assert model.score(NEW, GOLD) > 0.7  # the most frequent label alone: 0.36
    assert not model.status_.converged
    assert model.n_iter_ == len(model.history_["objective"]) == 8
    assert (model.network_.transitions.detach().abs().max() > 0) == (objective != "softmax")


@pytest.mark.parametrize("encoder", ["cnn", "embedding", "char_cnn_bilstm"])
@pytest.mark.parametrize("describe", [list, as_dicts])
def test_encoders_learn_from_words_and_attributes(encoder: str, describe: Any) -> None:
    model = labeler(encoder, layers=2).fit(describe(X), Y)
    assert model.score(describe(NEW), GOLD) > 0.7


def test_structure_is_worth_something() -> None:
    """Nothing but the previous label tells two labels apart, and an embedding sees one word only."""
    words = [["a", *["b"] * 4], ["c", *["b"] * 4]] * 20
    labels = [["s", *["x"] * 4], ["t", *["y"] * 4]] * 20
    right = {
        o: labeler("embedding", o, dropout=0.0).fit(words, labels).score(words, labels)
        for o in ("softmax", "log")
    }
    assert right["log"] == 1.0
    assert right["softmax"] < 0.7


def test_a_seed_fixes_everything_and_the_generator_of_the_user_is_left_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    a = labeler(max_epochs=2, holdout=0.2).fit(X, Y)
    assert_array_equal(torch.rand(3), expected)
    b = clone(a).fit(X, Y)
    assert a.history_["holdout_loss"] == b.history_["holdout_loss"]
    for x, z in zip(a.predict_marginals(NEW), b.predict_marginals(NEW), strict=True):
        assert_array_equal(x, z)
    other = clone(a).set_params(random_state=1).fit(X, Y)
    assert other.history_["objective"] != a.history_["objective"]


@pytest.mark.parametrize(
    ("inputs", "labels", "options"),
    [
        (X, Y, {"encoder": "char_cnn_bilstm"}),
        (as_dicts(X), Y, {"objective": objectives.Direct(0.5), "holdout": 0.1}),
        (*clouds(20), {"encoder": "cnn", "loss": WEIGHTED, "objective": "margin"}),
        (*spans(20), {"constraints": "bio", "objective_schedule": [("softmax", 1), ("log", None, 0.5)]}),
    ],
)  # fmt: skip
def test_files_bring_the_same_model_back(tmp_path: Path, inputs: Any, labels: Any, options: Any) -> None:
    model = labeler(max_epochs=2, **options).fit(inputs, labels)
    model.save(tmp_path / "m.trellis")
    loaded = load(tmp_path / "m.trellis")
    assert loaded.predict(inputs) == model.predict(inputs)
    for a, b in zip(loaded.predict_marginals(inputs), model.predict_marginals(inputs), strict=True):
        assert_array_equal(a, b)
        assert_allclose(a.sum(1), 1.0)
    assert (loaded.status_, loaded.history_, loaded.n_iter_) == (model.status_, model.history_, 2)
    assert loaded.fit(inputs, labels).predict(inputs) == model.predict(inputs)
    assert loaded.predict([]) == []
    assert loaded.predict([[], inputs[0]])[0] == []


def test_constraints_hold_in_every_answer() -> None:
    words, tags = spans(40)
    for objective in ("softmax", "margin"):
        model = labeler(objective=objective, constraints="bio", max_epochs=1).fit(words, tags)
        for ranked in model.predict_k_best(words, 3):
            assert [s for _, s in ranked] == sorted((s for _, s in ranked), reverse=True)
            for found, _ in ranked:
                assert all(b[0] != "I" or a[1:] == b[1:] for a, b in zip(["O", *found], found, strict=False))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, optimizer: str) -> None:
    options: dict[str, Any] = {
        "optimizer": optimizer,
        "schedule": "inverse_sqrt",
        "holdout": 0.2,
        "objective_schedule": [("log", 2), ("margin", None)],
        "patience": 9,
    }
    whole = labeler(**options, max_epochs=4).fit(X, Y)
    path = tmp_path / "run"
    for epochs in (1, 2, 4):
        parts = labeler(**options, max_epochs=epochs, checkpoint=path).fit(X, Y)
    assert parts.history_["objective"] == whole.history_["objective"]
    assert parts.history_["holdout_loss"] == whole.history_["holdout_loss"]
    for name, tensor in whole.network_.state_dict().items():
        assert_array_equal(parts.network_.state_dict()[name], tensor)
    with pytest.raises(DataError, match=r"other options \(hidden was"):
        labeler(**options, checkpoint=path).set_params(hidden=5).fit(X, Y)
    with pytest.raises(DataError, match="other data"):
        labeler(**options, checkpoint=path).fit(NEW, GOLD)
    with pytest.raises(ModelFileError, match="'Checkpoint'"):
        load(next(path.iterdir()))


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "char_cnn_bilstm"])
@pytest.mark.parametrize("objective", ["softmax", "log", "margin"])
def test_batches_do_not_change_the_objective(encoder: str, objective: str) -> None:
    """The mean over a padded batch is the mean over its sentences one at a time."""
    inputs = InputEncoder.learn(X, 1, characters=encoder == "char_cnn_bilstm")
    labels = LabelSet.of(Y)
    corpus = Corpus(inputs.transform(X), labels.encode(Y))
    torch.manual_seed(0)
    network = new_network(encoder, inputs.shape, 3, EncoderOptions(hidden=6, layers=2)).double().eval()
    with torch.no_grad():
        for score in (network.transitions, network.start, network.end):
            score.normal_()
    (stage,) = make_stages(objective, None, 1)
    problem = NetworkProblem(corpus, None, labels, None, losses.Hamming())
    sentences = np.array([3, 0, 17, 40])
    together = problem.objective(network, corpus.batch(sentences), stage)
    alone = [problem.objective(network, corpus.batch(sentences[i : i + 1]), stage) for i in range(4)]
    assert_allclose(together.item(), np.mean([value.item() for value in alone]), rtol=1e-12)


def test_an_epoch_shows_every_sentence_once() -> None:
    numbered = [[f"{i}"] * (i % 7) for i in range(100)]
    corpus = Corpus(InputEncoder.learn(numbered, 1).transform(numbered))
    seen = [b.inputs[:, 0, 0].tolist() for b in corpus.shuffled(8, [0, 1])]
    assert sorted(chain.from_iterable(seen)) == list(range(2, 2 + len(corpus.nonempty)))
    assert len(seen) == corpus.n_batches(8)
    assert seen != [b.inputs[:, 0, 0].tolist() for b in corpus.shuffled(8, [0, 2])]


class Own(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, n_labels: int) -> None:
        super().__init__()
        self.map = torch.nn.Linear(width, n_labels)

    def forward(self, inputs: Any, lengths: Any) -> Any:
        return self.map(inputs)


def make_own(shape: InputShape, n_labels: int) -> Own:
    return Own(shape.width, n_labels)


@pytest.mark.parametrize("encoder", [Own(4, 3), make_own])
def test_modules_of_the_user(tmp_path: Path, encoder: Any) -> None:
    arrays, codes = clouds(60)
    model = labeler(encoder, max_epochs=10).fit(arrays, codes)
    assert model.score(arrays, codes) > 0.8
    if isinstance(encoder, Own):  # fit trains a copy
        assert model.network_.encoder is not encoder
    model.save(tmp_path / "m.trellis")
    loaded = load(tmp_path / "m.trellis")
    with pytest.raises(UnsupportedError, match=r"set_params\(encoder="):
        loaded.predict(arrays)
    assert loaded.set_params(encoder=encoder).predict(arrays) == model.predict(arrays)
    with pytest.raises(DataError, match=r"must return scores of shape \(\d, \d, 3\)"):
        labeler(Own(4, 2)).fit(arrays, codes)


def test_partly_known_labels() -> None:
    partly = [
        [None if t % 3 == 1 else {"a", "b"} if t == 0 and y != "c" else y for t, y in enumerate(s)] for s in Y
    ]
    for objective in ("softmax", "log"):
        assert labeler(objective=objective).fit(X, partly).score(NEW, GOLD) > 0.65


def test_sentences_and_labels_may_come_one_by_one() -> None:
    whole = labeler("embedding", max_epochs=2).fit(X, Y)
    streamed = labeler("embedding", max_epochs=2).fit(iter(X), iter(Y))
    assert streamed.predict(iter(NEW)) == whole.predict(NEW)


def test_tensors_and_frames_are_arrays() -> None:
    rows = [np.random.default_rng(i).normal(size=(len(y), 3)).astype(np.float32) for i, y in enumerate(Y)]
    model = labeler("cnn", max_epochs=1).fit(rows, Y)
    tensors = [torch.from_numpy(row) for row in rows]
    assert labeler("cnn", max_epochs=1).fit(tensors, Y).predict(tensors[:5]) == model.predict(rows[:5])


def test_early_stopping_keeps_the_best_weights() -> None:
    model = labeler(holdout=(NEW, GOLD), patience=1, max_epochs=60, learning_rate=0.05).fit(X, Y)
    wrong = errors_by_sequence(GOLD, model.predict(NEW))[0].mean()
    assert wrong == pytest.approx(min(model.history_["holdout_loss"]))
    assert "early on the hold-out set" in str(model.status_)
    assert model.n_iter_ < 60


def test_a_schedule_may_end_before_the_epochs_do() -> None:
    model = labeler(objective_schedule=[("log", 2)], max_epochs=5).fit(X, Y)
    assert str(model.status_).startswith("stopped after 2 iterations: objective_schedule ends after 2 epochs")


def test_running_out_of_epochs_names_the_parameter() -> None:
    model = labeler("embedding", max_epochs=2).fit(X, Y)
    assert model.status_.reason == "max_epochs=2 was reached; raise max_epochs for more iterations"


def test_an_interrupted_epoch_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is the model of the complete epochs."""
    update, calls = NetworkRun.update, []

    def interrupt(run: NetworkRun, *arguments: Any) -> float:
        calls.append(run.epoch)
        if len(calls) == 20:  # in the second epoch of 13 batches
            raise KeyboardInterrupt
        return update(run, *arguments)

    whole = labeler("embedding", max_epochs=1).fit(X, Y)
    monkeypatch.setattr(NetworkRun, "update", interrupt)
    model = labeler("embedding", max_epochs=5)
    with pytest.raises(KeyboardInterrupt, match="keeps what it had learned"):
        model.fit(X, Y)
    assert calls[-1] == model.n_iter_ == 1
    assert "interrupted" in model.status_.reason
    for name, array in whole.weights_.items():
        assert_array_equal(model.weights_[name], array)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"encoder": "gru"}, "encoder is 'gru'; give 'bilstm'"),
        ({"encoder": 3}, "encoder is a int; give one of bilstm"),
        ({"encoder": lambda shape, n: n}, "encoder returned a int; give one of bilstm"),
        ({"objective": "hinge"}, "objective is 'hinge'; give 'softmax'"),
        ({"objective": objectives.Direct("decay")}, "schedule of a solver"),
        ({"loss": "span_f1"}, "not a sum over steps"),
        ({"optimizer": "lion"}, "optimizer is 'lion'; give 'adam'"),
        ({"schedule": "step"}, "schedule is 'step'; give 'constant'"),
        ({"hidden": 0}, "hidden is 0; give a whole number of at least 1"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0; give a finite number above 0"),
        ({"dropout": 1.0}, "dropout is 1.0; give a finite number of at least 0 and below 1"),
        ({"clip_norm": 0}, "clip_norm is 0; give a finite number above 0 or None"),
        ({"holdout": 1.5}, "holdout is 1.5"),
        ({"objective_schedule": ["log"]}, "entry 'log'"),
        ({"objective_schedule": [("log", 0)]}, "0 epochs"),
        ({"objective_schedule": []}, "is empty"),
        ({"constraints": "bio"}, "does not fit constraints='bio'"),
    ],
)
def test_wrong_parameters(options: dict[str, Any], words: str) -> None:
    with pytest.raises((UnsupportedError, DataError), match=words):
        labeler(**options).fit(X, Y)


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        ("a word", [["a"]], "X is a str"),
        (["a b"], [["a", "b"]], "sequence 0 is a str"),
        ([["u", 3]], [["a", "b"]], "step 1 of sequence 0 is a int"),
        ([[]], [[]], "no word in X"),
        ([["u"]], [["a", "b"]], "sequence 0 has 1 steps in X, but 2 in y"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], [[0, 1], [0, 1]], r"sequence 1 has shape \(2, 4\)"),
        ([np.full((1, 2), np.nan)], [[0]], "step 0 of sequence 0 holds NaN"),
    ],
)
def test_wrong_data(inputs: Any, labels: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        labeler().fit(inputs, labels)


def test_expected_losses_keep_the_constraints() -> None:
    sentences, tags = spans(60, seed=3)
    model = labeler("embedding", "log", losses.WeightedHamming({("O", "I-P"): 0.0}), constraints="bio")
    model.set_params(max_epochs=2).fit(sentences, tags)
    new = [["noise"] * 9, ["P10", "L10", "P10"], *spans(60, seed=4)[0]]
    labels = model.labels_
    legal = legal_transitions("bio", labels)
    for row in model.predict(new, decoding="minimum_risk"):
        codes = [labels.labels.index(tag) for tag in row]
        assert legal.start[codes[0]]
        assert all(legal.pair[a, b] for a, b in pairwise(codes))


def test_no_sentences_have_no_answers() -> None:
    model = labeler("embedding", max_epochs=1).fit(X, Y)
    for answers in (model.predict([]), model.predict_marginals([]), model.predict_k_best([], 2)):
        assert answers == []


def test_divergence_is_named() -> None:
    arrays, codes = clouds(10)
    with pytest.raises(NumericalError, match="lower learning_rate"):
        labeler(Own(4, 3), "softmax", optimizer="sgd", learning_rate=1e38, max_epochs=5, clip_norm=None).fit(
            arrays, codes
        )


def test_without_torch_a_file_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "m.trellis"
    labeler(max_epochs=1).fit(X, Y).save(path)
    code = f"import sys; sys.modules['torch'] = None; from trellis import load; load({str(path)!r})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "trellis-learn[torch]" in run.stderr.splitlines()[-1]


def test_the_device_is_the_cpu() -> None:
    X, y = [["a", "b"]] * 4, [["A", "B"]] * 4
    model = NeuralSequenceLabeler("embedding", device="cpu", max_epochs=1, random_state=0, verbose=False)
    assert {p.device.type for p in model.fit(X, y).network_.parameters()} == {"cpu"}
    with pytest.raises(UnsupportedError, match=r"device='cuda': .* run on the CPU; leave device out"):
        NeuralSequenceLabeler("embedding", device="cuda").fit(X, y)
