"""The aligner on tones and noises, where every boundary is known."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import tone_speech
from trellis import load
from trellis.core import persistence, storage
from trellis.core.errors import (
    DataError,
    InfeasibleError,
    ModelFileError,
    TrellisError,
)
from trellis.objectives.special_cases import Direct
from trellis.solvers import MiniBatch
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.acoustics.boundary_classifier import BoundaryOptions
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.acoustics.feed_forward import NetworkOptions
from trellis.speech.acoustics.frame_classifiers import NetworkClassifier
from trellis.speech.align import utterance_alignment as analysis
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.doubt.calibration import calibrate_doubt
from trellis.speech.align.doubt.wrong_transcripts import wrong_transcripts
from trellis.speech.align.learning.corpus_preparation import PreparedCorpus
from trellis.speech.align.learning.weight_training import STEPS, configure_solver
from trellis.speech.audio.cepstra import FrameOptions
from trellis.speech.audio.recordings import Recording
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.formats.alignment import Alignment
from trellis.structures.segments.problem.alignment_losses import TauInsensitive

FAST = {
    "classifier": ConvolutionalOptions(
        units=24, dilations=(1, 2), passes=20, fewest_steps=0, batch_frames=300
    ),
    "max_iter": 3,
}
TWO_CLASSIFIERS = {
    "classifier": NetworkClassifier(network=NetworkOptions(hidden=(24,), epochs=6)),
    "boundaries": BoundaryOptions(network=NetworkOptions(hidden=(24,), epochs=6)),
}
OF_THE_WEIGHTS = {"objective", "solver", "loss", "epsilon", "average", "decoding", "refine"}


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return tone_speech.corpus(tmp_path_factory.mktemp("train"), 40, seed=0)


@pytest.fixture(scope="module")
def test(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return tone_speech.corpus(tmp_path_factory.mktemp("test"), 12, seed=1)


@pytest.fixture(scope="module")
def prepared(train: Corpus) -> PreparedCorpus:
    """The classifiers of all aligners that differ in ``OF_THE_WEIGHTS`` only."""
    return Aligner(**FAST).prepare(train)


@pytest.fixture(scope="module")
def aligner(train: Corpus) -> Aligner:
    return Aligner(epsilon=3.0, **FAST).fit(train)


def within(aligner: Aligner, corpus: Corpus, ms: float) -> float:
    errors = np.concatenate([u.seconds for u in aligner.evaluate(corpus).utterances])
    return float(np.mean(np.abs(errors) <= ms / 1000))


def test_boundaries_are_found(aligner: Aligner, test: Corpus) -> None:
    assert within(aligner, test, 10) > 0.9
    assert within(aligner, test, 30) == 1.0


def test_refinement_beats_whole_frames(aligner: Aligner, test: Corpus) -> None:
    def mean_error() -> float:
        return float(np.mean(np.abs(np.concatenate([u.seconds for u in aligner.evaluate(test).utterances]))))

    fine = mean_error()
    aligner.set_params(refine="never")
    coarse = mean_error()
    starts = aligner.align_reference(test[0]).starts
    aligner.set_params(refine="always")
    assert np.allclose(starts / 0.01, np.round(starts / 0.01))
    assert fine < coarse


def test_confidence_is_a_probability_and_low_where_nothing_is_to_be_heard(aligner: Aligner) -> None:
    phones = ["sil", "a", "s", "i", "sil"]
    clear, _ = tone_speech.recording(phones, 5)
    sure = aligner.align(clear, phones).confidence
    noise = Recording(0.1 * np.random.default_rng(0).normal(size=len(clear.samples)), tone_speech.RATE)
    unsure = aligner.align(noise, phones).confidence
    assert sure is not None
    assert unsure is not None
    assert all(0 <= c <= 1 for c in (*sure, *unsure))
    assert (sure[0], unsure[0]) == pytest.approx((1.0, 1.0))  # the first boundary is given
    assert np.mean(sure[1:]) > 0.8
    assert np.mean(sure[1:]) > np.mean(unsure[1:]) + 0.2


def test_margins_agree_with_confidence(aligner: Aligner) -> None:
    phones = ["sil", "a", "u", "s", "m", "sil"]
    sound, _ = tone_speech.recording(phones, 6)
    found = aligner.align(sound, phones, margins=True)
    assert aligner.align(sound, phones).margins is None
    margins, confidence = np.array(found.margins), np.array(found.confidence)
    assert np.isinf(margins[0]) or margins[0] == analysis.LARGEST_MARGIN  # it cannot be elsewhere
    # P(elsewhere) >= exp(-margin) P(best) and P(best) <= confidence
    assert (1 - confidence[1:] >= 0).all()
    assert (confidence[margins > 10] > 0.99).all()


def test_same_seed_same_model_for_any_number_of_threads(train: Corpus, aligner: Aligner) -> None:
    again = Aligner(epsilon=3.0, n_jobs=2, **FAST).fit(train)
    np.testing.assert_allclose(again.weights_, aligner.weights_, rtol=1e-9)
    other = Aligner(epsilon=3.0, random_state=1, **FAST).fit(train)
    assert not np.allclose(other.weights_, aligner.weights_)


def test_saved_and_loaded(aligner: Aligner, test: Corpus, tmp_path) -> None:
    path = tmp_path / "tones.trellis"
    persistence.save(aligner, path, {"note": "tones"})
    loaded = load(path)
    assert isinstance(loaded, Aligner)
    assert loaded.extra_ == {"note": "tones"}
    assert loaded.get_params() == aligner.get_params()
    assert loaded.status_ == aligner.status_
    assert loaded.align_reference(test[0], True) == aligner.align_reference(test[0], True)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        load(path)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        ("weights", "weights do not fit"),
        ("topology", "weights do not fit"),
        ("acoustics.scale", "parts of the acoustic model do not fit"),
        ("acoustics.durations.longest", "durations of the model"),
        ("acoustics.network.prior", "prior of the convolutional network"),
        ("acoustics.network.block_weights.0", "layers of the convolutional network do not fit"),
        ("acoustics.mean", "parts of the acoustic model do not fit"),
    ],
)
def test_parts_of_a_file_that_do_not_fit_are_told(
    array: str, sentence: str, aligner: Aligner, tmp_path
) -> None:
    meta, arrays = aligner.to_state()
    storage.save(
        tmp_path / "m",
        "Aligner",
        {**meta, "extra": {}},
        {**arrays, f"model_.{array}": np.ones(2, arrays[f"model_.{array}"].dtype)},
    )
    with pytest.raises(ModelFileError, match=sentence):
        load(tmp_path / "m")


def test_a_model_without_its_classifier_is_refused(aligner: Aligner) -> None:
    with pytest.raises(DataError, match="lacks a classifier"):
        replace(aligner.model_, acoustics=replace(aligner.model_.acoustics, network=None, listening=None))


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "perceptron"},
        {"objective": "margin"},
        {"objective": "margin", "solver": "frank_wolfe"},
        {"objective": "squared_margin"},
        {"objective": "log"},
        {"objective": Direct(epsilon="decay")},
        {"loss": "tau_insensitive", "epsilon": 3.0},
        {"loss": TauInsensitive(0.5), "epsilon": 3.0, "average": False},
        {"features": "paper", "epsilon": 3.0, "classifier": "linear"},
        {"features": "paper", "epsilon": 3.0, "classifier": "passive_aggressive"},
        {"step_ms": 5.0, "epsilon": 3.0, "features": ("classifier", "boundary", "log_duration")},
        {"fold": {p: "vowel" if p in "aiu" else p for p in "aiumsf"}, "epsilon": 3.0},
        {"epsilon": 3.0, **TWO_CLASSIFIERS},
        {"fold": "voiced", "features": "all", "epsilon": 3.0},
        {"fold": "broad", "epsilon": 3.0, "frames": FrameOptions(cepstra=20, c0=True, deltas=0)},
        {"cross_fit": 2, "epsilon": 3.0},
        {"classifier": replace(FAST["classifier"], networks=2, passes=12), "objective": "log"},
        {"decoding": "best_path", "refine": "never", "objective": "log"},
    ],
    ids=str,
)
def test_every_option_learns(
    options: dict, train: Corpus, prepared: PreparedCorpus, test: Corpus, tmp_path
) -> None:
    aligner = Aligner(**{**FAST, **options}).fit(prepared if options.keys() <= OF_THE_WEIGHTS else train)
    assert within(aligner, test, 30) > 0.9
    aligner.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == aligner.get_params()
    assert again.align_reference(test[0], confidence=True) == aligner.align_reference(
        test[0], confidence=True
    )


def test_epsilon_is_chosen_on_the_hold_out(train: Corpus) -> None:
    objective = Direct(epsilon="holdout", candidates=(0.5, 5.0))
    aligner = Aligner(objective, **FAST).fit(train)
    losses = aligner.epsilon_losses_
    assert set(losses) == {0.5, 5.0}
    assert aligner.epsilon_ == min(losses, key=losses.get)
    assert min(aligner.history_["holdout_loss"]) >= losses[aligner.epsilon_]  # or the start was best


def test_words_with_the_pronunciation_that_was_spoken(aligner: Aligner) -> None:
    dictionary = Dictionary({"mass": [["m", "a", "s"], ["m", "i", "s"]], "fu": [["f", "u"], ["f", "a"]]})
    for seed, (first, second) in enumerate([("a", "u"), ("i", "u"), ("a", "a"), ("i", "a")]):
        phones = ["sil", "m", first, "s", "sil", "f", second, "sil"]
        sound, truth = tone_speech.recording(phones, 20 + seed)
        found = aligner.align(sound, words=["mass", "fu"], dictionary=dictionary)
        assert found.labels == tuple(phones)
        assert [w.label for w in found.words] == ["mass", "fu"]
        np.testing.assert_allclose(found.starts, truth.starts, atol=0.03)
        assert found.words[0].start == found.phones[1].start
        assert found.words[0].end == found.phones[3].end
    tight = ["m", "a", "s", "f", "u"]
    sound, _ = tone_speech.recording(tight, 30)
    assert aligner.align(sound, words=["mass", "fu"], dictionary=dictionary).labels == tuple(tight)


def test_optional_silence_around_phones(aligner: Aligner) -> None:
    sound, truth = tone_speech.recording(["sil", "a", "s", "u"], 8)
    assert aligner.align(sound, ["a", "s", "u"]).labels == ("sil", "a", "s", "u")
    assert aligner.align(sound, ["a", "s", "u"], silence="none").labels == ("a", "s", "u")
    np.testing.assert_allclose(aligner.align(sound, ["a", "s", "u"]).starts, truth.starts, atol=0.02)


def _doubts_transcript(flag: str) -> bool:
    return "no better than with a wrong transcript" in flag or flag.startswith(analysis.MISMATCH)


def test_a_start_at_0_because_silence_was_dropped_is_as_sure_as_that(aligner: Aligner) -> None:
    """With weights that refuse silence, the first phone starts at 0 in a recording that begins with silence;
    what the lattice says of silence must show in its confidence."""
    sound, _ = tone_speech.recording(["sil", "a", "s", "u"], 8)
    heard = aligner.align(sound, ["a", "s", "u"])
    assert heard.labels[0] == "sil"
    assert heard.confidence is not None
    assert heard.confidence[0] > 0.5  # that there is silence at all
    model, lattice = aligner.model_, aligner._lattice(["a", "s", "u"], None, None, "auto", "noise")
    sure = {}
    for name, by in (("sure", 1000.0), ("torn", 0.0)):
        low, high = -200.0, 200.0  # the number of silences: find the weight at which dropping one just wins
        for _ in range(40):
            weight = 0.5 * (low + high)
            changed = replace(model, topology=np.append(model.topology[:-1], weight))
            dropped = analysis.align_utterance(
                changed, aligner.framed(sound, None), lattice,
                analysis.Request(),
            )  # fmt: skip
            low, high = (weight, high) if dropped.labels[0] != "sil" else (low, weight)
        changed = replace(model, topology=np.append(model.topology[:-1], low - by))
        found = analysis.align_utterance(
            changed, aligner.framed(sound, None), lattice,
            analysis.Request(),
        )  # fmt: skip
        assert (found.labels[0], found.phones[0].start) == ("a", 0.0)
        assert found.confidence is not None
        sure[name] = found.confidence[0]
    assert sure["torn"] < 0.9 < sure["sure"]


def _utterances(aligner: Aligner, corpus: Corpus) -> list[TrainingUtterance]:
    acoustics = aligner.model_.acoustics
    return [
        TrainingUtterance.of(u, acoustics.standardise(aligner.framed(u.audio, None).features), acoustics.step)
        for u in corpus
    ]


def test_a_learned_match_flags_wrong_transcripts_and_files_keep_it(
    aligner: Aligner, test: Corpus, tmp_path_factory: pytest.TempPathFactory, tmp_path
) -> None:
    assert aligner.model_.match is None  # there were too few utterances that the network has not heard
    assert aligner.align_reference(test[0], confidence=True).match is None
    unheard = _utterances(aligner, tone_speech.corpus(tmp_path_factory.mktemp("unheard"), 60, seed=2))
    taught = copy(aligner)
    taught.model_ = calibrate_doubt(aligner.model_, unheard)
    assert calibrate_doubt(aligner.model_, []) is aligner.model_
    rng, flagged, probability = np.random.default_rng(0), {}, {}
    for i, utterance in enumerate(test):
        labels, other = list(utterance.phones), test[(i + 1) % len(test)].phones
        made = {w.kind: w.labels for w in wrong_transcripts(labels, other, labels, rng)}
        for kind in ("right", "neighbour", "omitted"):
            found = taught.align(utterance.audio, made.get(kind, labels), silence="none")
            assert found.match is not None
            flagged.setdefault(kind, []).append(any(f.startswith(analysis.MISMATCH) for f in found.flags))
            probability.setdefault(kind, []).append(found.match)
    assert sum(flagged["right"]) <= 1
    assert np.mean(flagged["neighbour"]) >= 0.8
    assert np.mean(flagged["omitted"]) >= 0.3
    assert np.mean(probability["right"]) > 0.7 > np.mean(probability["omitted"])
    found = taught.align_reference(test[0], confidence=True)
    found.write(tmp_path / "one.json")
    assert Alignment.read(tmp_path / "one.json").match == found.match
    assert taught.align_reference(test[0]).match is None  # it comes with confidences
    with pytest.raises(DataError, match=r"match is 1\.5"):
        replace(found, match=1.5)
    taught.save(tmp_path / "taught.trellis")
    assert load(tmp_path / "taught.trellis").align_reference(test[0], confidence=True).match == found.match


def test_flags(aligner: Aligner) -> None:
    phones = ["sil", "a", "s", "u", "sil"]
    good, _ = tone_speech.recording(phones, 3)
    assert aligner.align(good, phones).flags == ()
    spoken, _ = tone_speech.recording(["s", "u", "m"], 3)
    long_vowel = tone_speech.sound("a", 3 * tone_speech.RATE, np.random.default_rng(0))
    samples = np.concatenate([spoken.samples, long_vowel])
    found = aligner.align(Recording(samples, tone_speech.RATE), ["s", "u", "m", "a"], silence="none")
    assert any("very long" in f for f in found.flags)
    assert any(f.startswith("phone ") and "s long; the longest in training was" in f for f in found.flags)
    silent = Recording(np.zeros(8000), tone_speech.RATE, ("the recording is silent",))
    assert "the recording is silent" in aligner.align(silent, phones).flags
    wrong = aligner.align(good, ["s", "f", "i", "m"] * 3, silence="none").flags
    assert any(_doubts_transcript(f) for f in wrong)


def test_a_wrong_transcript_is_flagged_and_a_right_one_is_not(aligner: Aligner, test: Corpus) -> None:
    rng = np.random.default_rng(0)
    flagged = {"right": 0, "wrong": 0}
    for utterance in test:
        phones = list(utterance.phones)
        wrong = [phones[0], *rng.permutation(phones[1:-1]).tolist(), phones[-1]]
        for name, labels in (("right", phones), ("wrong", wrong)):
            flags = aligner.align(utterance.audio, labels, silence="none").flags
            flagged[name] += any(_doubts_transcript(f) for f in flags)
    assert flagged["right"] <= 1
    assert flagged["wrong"] >= 0.7 * len(test)  # some orders are right by chance, or nearly
    assert aligner.model_.score_floor < aligner.model_.score_mean


def test_steps_of_direct_loss_are_small_beside_a_warm_start() -> None:
    from_zero = configure_solver("minibatch", Direct(epsilon=2.0), 2.0, True, np.zeros(2), 10)
    from_five = configure_solver("minibatch", Direct(epsilon=2.0), 2.0, True, np.array([3.0, 4.0]), 10)
    assert isinstance(from_zero, MiniBatch)
    assert isinstance(from_five, MiniBatch)
    assert from_zero.learning_rate == 2.0  # eta = 1, the gradient is divided by eps
    assert from_five.learning_rate == pytest.approx(2.0 * 5.0 / STEPS)


def test_what_cannot_be_done_is_said(aligner: Aligner, train: Corpus, test: Corpus) -> None:
    short = Recording(np.zeros(800), tone_speech.RATE)
    with pytest.raises(
        InfeasibleError, match=r"0\.050 s are too short for 6 phones, which take at least 0\.060 s"
    ):
        aligner.align(short, ["a", "i", "u", "m", "s", "f"])
    with pytest.raises(
        DataError, match=r"the phones 'x' \(nearest: f, s\), 'y' \(nearest: i, u\); rename .* --fold"
    ):
        aligner.align(short, ["x", "a", "y"])
    with pytest.raises(DataError, match="not in the dictionary; add: b c"):
        aligner.align(short, words=["a", "b", "c", "b"], dictionary={"a": [["a"]]}, unknown="error")
    with pytest.raises(DataError, match="either phones or words"):
        aligner.align(short)
    with pytest.raises(DataError, match="needs a pronunciation dictionary"):
        aligner.align(short, words=["a"])
    with pytest.raises(DataError, match="not one string"):
        aligner.align(short, "a i u")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Aligner().align(short, ["a"])
    with pytest.raises(DataError, match="too few"):
        Aligner().fit(train[:2])
    with pytest.raises(DataError, match="classifier is 'forest'; give 'convolutional'"):
        Aligner(classifier="forest").fit(train)
    with pytest.raises(DataError, match="choose from"):
        Aligner(features=["classifier", "pitch"]).fit(train)
    with pytest.raises(DataError, match="in two parts"):
        Aligner(split={"classifier": ["u0_000"], "weights": ["u0_000"], "holdout": ["u0_001"]}).fit(train)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss": "hamming"}, "loss is 'hamming'; give 'tau_alignment'"),
        ({"solver": "magic"}, "solver='magic' is not known"),
        ({"objective": "log", "solver": "passive_aggressive"}, "made of planes"),
        ({"objective": "risk"}, "objective='risk' is not supported for alignment"),
        ({"random_state": -1}, "random_state is -1; give a whole number"),
        ({"random_state": None}, "random_state is None; give a whole number"),
        ({"tau_ms": np.inf}, "tau_ms is inf"),
        ({"tau_ms": "ten"}, "tau_ms is 'ten'"),
        ({"l2": -1.0}, "l2 is -1.0"),
        ({"l2": np.nan}, "l2 is nan"),
        ({"shortest_ms": -5.0}, "shortest_ms is -5.0"),
        ({"shortest_ms": np.nan}, "shortest_ms is nan"),
        ({"max_iter": 1.5}, "max_iter is 1.5"),
        ({"cross_fit": 1}, "cross_fit is 1"),
        ({"cross_fit": 2.5}, "cross_fit is 2.5"),
        ({"split": (0.7, 0.3)}, "give three fractions"),
        ({"split": "abc"}, "give three fractions"),
        ({"step_ms": np.nan}, "step_ms is nan; give a finite number above 0"),
        ({"frames": FrameOptions(step_ms=5)}, "frames has step_ms=5 and the aligner step_ms=10"),
    ],
)
def test_bad_options_are_told_before_anything_is_learnt(options: dict, sentence: str, train: Corpus) -> None:
    stages: list[str] = []
    with pytest.raises(TrellisError, match=sentence):
        Aligner(**{**FAST, **options}).fit(train, lambda stage, share: stages.append(stage))
    assert stages == []


def test_long_recordings_in_chunks_agree_with_the_whole(
    aligner: Aligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(9)
    phones = [p for _ in range(14) for p in tone_speech.phones_of(rng)[:-1]] + ["sil"]
    sound, truth = tone_speech.recording(phones, 10)
    assert 5 < sound.duration < 60
    whole = aligner.align(sound, phones, silence="none")
    monkeypatch.setattr(analysis, "LONG_SECONDS", 1.0)
    from trellis.speech.align.search import long_recordings as long

    for name, seconds in {"CHUNK": 2.0, "CHUNK_SLACK": 0.7, "OVERLAP": 0.5}.items():
        monkeypatch.setattr(long, name, seconds)
    chunks = aligner.align(sound, phones, silence="none")
    np.testing.assert_allclose(chunks.starts, whole.starts, atol=0.011)
    np.testing.assert_allclose(chunks.starts, truth.starts, atol=0.05)
    dictionary = {"+".join(w): [w, ["f", "s"]] for w in _words(phones)}
    words = ["+".join(w) for w in _words(phones)]
    by_words = aligner.align(sound, words=words, dictionary=dictionary)
    assert by_words.labels == tuple(phones)
    assert [w.label for w in by_words.words] == words


@pytest.fixture(scope="module")
def plain(train: Corpus) -> Aligner:
    """One whose features do not depend on how much of a recording is silent."""
    frames = replace(FAST["classifier"].frames(), normalise="none")
    return Aligner("log", frames=frames, **FAST).fit(train)


@pytest.mark.parametrize("seconds", [1.0, 3.0, 9.0, 30.0])
@pytest.mark.parametrize("place", [0, 21, 42])
def test_a_long_pause_in_a_long_recording(
    plain: Aligner, monkeypatch: pytest.MonkeyPatch, seconds: float, place: int
) -> None:
    """A pause longer than a chunk, and than what a search sees: at the beginning, inside, at the end."""
    from trellis.speech.align.search import long_recordings as long

    rng = np.random.default_rng(3)
    phones = [p for _ in range(6) for p in tone_speech.phones_of(rng)[:-1]] + ["sil"]
    sound, truth = tone_speech.recording(phones, 10)
    at = round(sound.rate * (truth.starts[place] + 0.05))
    assert phones[place] == "sil"
    pause = tone_speech.sound("sil", round(seconds * sound.rate), rng)
    samples = np.concatenate([sound.samples[:at], pause, sound.samples[at:]])
    wanted = truth.starts + seconds * (np.arange(len(phones)) > place)
    monkeypatch.setattr(analysis, "LONG_SECONDS", 1.0)
    largest = []
    exactly = long.align_frames

    def watched(model, frames, lattice, *rest):
        largest.append(len(frames) * lattice.n_nodes)
        return exactly(model, frames, lattice, *rest)

    monkeypatch.setattr(long, "align_frames", watched)
    for name, value in {"CHUNK": 2.0, "CHUNK_SLACK": 0.7, "OVERLAP": 0.5}.items():
        monkeypatch.setattr(long, name, value)
    recording = Recording(samples, sound.rate)
    found = plain.align(recording, phones, silence="none")
    np.testing.assert_allclose(found.starts, wanted, atol=0.06)
    assert max(largest) < 500 * len(phones)  # 5 seconds, however long the pause is
    words = ["+".join(w) for w in _words(phones)]
    dictionary = {"+".join(w): [w] for w in _words(phones)}
    np.testing.assert_allclose(
        plain.align(recording, words=words, dictionary=dictionary).starts, wanted, atol=0.06
    )


def test_a_silence_at_one_end_alone_is_not_forced_on_the_other(aligner: Aligner) -> None:
    """The transcript has its silence at the beginning, and the recording breaks off in the last phone."""
    sound, truth = tone_speech.recording(["sil", "a", "s", "i", "sil"], 4)
    spoken = Recording(sound.samples[: round(truth.starts[-1] * sound.rate)], sound.rate)
    assert aligner.align(spoken, ["sil", "a", "s", "i"]).labels == ("sil", "a", "s", "i")
    assert aligner.align(sound, ["sil", "a", "s", "i"]).labels == ("sil", "a", "s", "i", "sil")


def test_recordings_in_memory_are_judged_as_files_are(aligner: Aligner) -> None:
    phones = ["sil", "a", "s", "i", "sil"]
    sound, _ = tone_speech.recording(phones, 4)
    silent = aligner.align(Recording(np.zeros(16000), 16000), phones)
    assert any("silent" in flag for flag in silent.flags)
    clipped = aligner.align(Recording(np.clip(20 * sound.samples, -1, 1), 16000), phones)
    assert any("clipped" in flag for flag in clipped.flags)
    whole = Recording((32768 * sound.samples).round().astype(np.int16), 16000)
    np.testing.assert_allclose(whole.samples, sound.samples, atol=2.0**-15)


def test_phones_of_any_kind_of_list(aligner: Aligner) -> None:
    phones = ["sil", "a", "s", "i", "sil"]
    sound, _ = tone_speech.recording(phones, 4)
    wanted = aligner.align(sound, phones)
    assert aligner.align(sound, np.array(phones)) == wanted
    assert aligner.align(sound, (phone for phone in phones)) == wanted
    assert type(aligner.align(sound, np.array(phones)).labels[0]) is str
    with pytest.raises(DataError, match=r"phones\[1\] is 7; give text"):
        aligner.align(sound, ["sil", 7])


def _words(phones: list[str]) -> list[list[str]]:
    """The runs between silences."""
    text = " ".join(phones).split("sil")
    return [run.split() for run in text if run.strip()]
