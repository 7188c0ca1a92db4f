"""Learning from corrections on tones and noises: a habit is learned, nothing else moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import tone_speech
from trellis.core.errors import DataError, UnsupportedError
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.acoustics.convolutional.network_mixture import NetworkMixture
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.learning import continued_model
from trellis.speech.align.learning.continued_model import Way
from trellis.speech.align.learning.corrected_pieces import cut
from trellis.speech.align.learning.left_out import (
    CAP,
    DOUBT,
    FIRST_LEG,
    ONE_WORD,
    PRIOR,
    TEN_WORDS,
    WORD,
    LeftOut,
)
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.formats.alignment import Alignment

SMALL = ConvolutionalOptions(units=24, dilations=(1, 2), passes=20, fewest_steps=0, batch_frames=300)
SHIFT = 0.03


@pytest.fixture(scope="module")
def aligner(tmp_path_factory: pytest.TempPathFactory) -> Aligner:
    corpus = tone_speech.corpus(tmp_path_factory.mktemp("train"), 40, seed=0)
    return Aligner(objective="log", classifier=SMALL, max_iter=3).fit(corpus)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return tone_speech.corpus(tmp_path_factory.mktemp("other"), 40, seed=1)


def with_starts(corpus: Corpus, change: Callable[[Utterance, np.ndarray], np.ndarray]) -> Corpus:
    """The corpus with other references."""
    found = []
    for u in corpus:
        assert u.reference is not None
        starts = change(u, u.reference.starts.copy())
        changed = Alignment.from_starts(starts.tolist(), u.reference.labels, u.reference.duration)
        found.append(replace(u, reference=changed))
    return Corpus(tuple(found))


def noises_begin_late(u: Utterance, starts: np.ndarray) -> np.ndarray:
    """A habit: noises begin SHIFT later than they do."""
    assert u.reference is not None
    noisy = np.isin(u.reference.labels, list(tone_speech.NOISES))
    return starts + SHIFT * noisy


def bias_of_noises(aligner: Aligner, corpus: Corpus) -> float:
    errors = []
    for u in corpus:
        assert u.reference is not None
        noisy = np.isin(u.reference.labels, list(tone_speech.NOISES))
        errors.append((aligner.align_reference(u).starts - u.reference.starts)[noisy])
    return float(np.median(np.concatenate(errors)))


def flat(aligner: Aligner) -> np.ndarray:
    network = aligner.model_.acoustics.network
    assert isinstance(network, ConvolutionalNetwork)
    return network.flat()


def test_a_habit_of_the_corrections_is_learned_and_the_old_aligner_is_unchanged(
    aligner: Aligner, other: Corpus
) -> None:
    late = with_starts(other, noises_begin_late)
    before, stages = flat(aligner), []
    assert bias_of_noises(aligner, late[30:]) == pytest.approx(-SHIFT, abs=0.005)
    adapted = aligner.adapt(late[:30], lambda stage, share: stages.append((stage, share)))
    assert bias_of_noises(adapted, late[30:]) > -0.6 * SHIFT
    np.testing.assert_array_equal(flat(aligner), before)
    assert "moved" in adapted.status_.reason
    assert "on those left out" in adapted.status_.reason
    shares = adapted.history_["within_20_ms"]
    assert tuple(adapted.history_["place"][: len(FIRST_LEG)]) == FIRST_LEG
    assert shares[-1] > shares[0]
    assert {"reading", "leaving out", "learning", "done"} <= {stage for stage, _ in stages}
    assert all(0.0 <= share <= 1.0 for _, share in stages)


def test_the_seed_decides_and_nothing_else(aligner: Aligner, other: Corpus) -> None:
    late = with_starts(other, noises_begin_late)[:6]
    once, again = aligner.adapt(late), aligner.adapt(late)
    np.testing.assert_array_equal(flat(once), flat(again))
    assert not np.array_equal(flat(once), flat(aligner))


def test_one_corrected_file_is_enough_and_the_status_says_that_none_was_left_out(
    aligner: Aligner, other: Corpus, tmp_path
) -> None:
    adapted = aligner.adapt(with_starts(other, noises_begin_late)[:1])
    assert "cannot be left out" in adapted.status_.reason
    assert not np.array_equal(flat(adapted), flat(aligner))
    from trellis import load

    adapted.save(tmp_path / "adapted.trellis")
    loaded = load(tmp_path / "adapted.trellis")
    assert isinstance(loaded, Aligner)
    np.testing.assert_array_equal(flat(loaded), flat(adapted))
    assert (
        loaded.align_reference(other[5]).starts.tolist() == adapted.align_reference(other[5]).starts.tolist()
    )


def test_the_answers_of_the_model_itself_teach_nothing(aligner: Aligner, other: Corpus) -> None:
    own = with_starts(other[:5], lambda u, starts: aligner.align_reference(u).starts)
    adapted = aligner.adapt(own)
    assert adapted.model_ is aligner.model_
    assert "nothing to learn" in adapted.status_.reason


def test_corrections_at_random_do_little_harm(aligner: Aligner, other: Corpus) -> None:
    """Boundaries moved by chance: what is left out stops the aligner from following."""
    rng = np.random.default_rng(0)

    def at_random(u: Utterance, starts: np.ndarray) -> np.ndarray:
        moved = starts + rng.uniform(-0.04, 0.04, len(starts))
        return np.concatenate([[0.0], np.maximum.accumulate(moved[1:]) + 1e-4 * np.arange(len(starts) - 1)])

    adapted = aligner.adapt(with_starts(other[:20], at_random))
    truth = other[20:]
    assert adapted.evaluate(truth).within[20.0].value >= aligner.evaluate(truth).within[20.0].value - 0.03
    assert "check that the labels" not in adapted.status_.reason


def test_labels_of_other_recordings_are_doubted(aligner: Aligner, other: Corpus) -> None:
    rng = np.random.default_rng(0)

    def anywhere(u: Utterance, starts: np.ndarray) -> np.ndarray:
        assert u.reference is not None
        assert u.reference.duration is not None
        frames = rng.choice(np.arange(1, int(100 * u.reference.duration) - 1), len(starts) - 1, False)
        return np.concatenate([[0.0], np.sort(frames) / 100])

    adapted = aligner.adapt(with_starts(other[:20], anywhere))
    assert "check that the labels belong to these recordings" in adapted.status_.reason


def test_where_nothing_is_gained_nothing_moves(
    aligner: Aligner, other: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training that forgets everything: what is left out is aligned worse."""

    def forget(acoustics: Any, network: Any, *given: Any, **named: Any) -> Any:
        return network.on(np.zeros_like(network.flat()))

    monkeypatch.setattr(continued_model, "continue_end_to_end", forget)
    adapted = aligner.adapt(with_starts(other, noises_begin_late)[:20])
    assert adapted.model_ is aligner.model_
    assert "the network did not move" in adapted.status_.reason
    assert max(adapted.history_["gain"]) == 0.0


def test_the_gain_is_that_of_the_formula() -> None:
    errors = np.array([[0.01, -0.2, 0.03], [0.0, 0.04, 0.03], [-0.02, 0.06, 0.0], [0.0, 0.0, 0.0]])
    found = LeftOut(FIRST_LEG, errors, 1)
    for row, prior, gain in zip(errors, ONE_WORD, found.gains, strict=True):
        saved = [min(abs(a), CAP) / CAP - min(abs(b), CAP) / CAP for a, b in zip(errors[0], row, strict=True)]
        chance = DOUBT * sum(d * d for d in saved) ** 0.5
        assert gain == pytest.approx(sum(saved) + PRIOR * prior - chance)
    assert found.gains[0] == 0.0
    assert not found.still_rising
    many = LeftOut(FIRST_LEG, np.tile(errors, 9), 27)
    assert many.best == 3
    assert many.still_rising
    slower = LeftOut((*FIRST_LEG, 2.0), np.append(many.errors, many.errors[-1:], axis=0), 27)
    assert not slower.still_rising  # the end of the second leg is no better than that of the first
    assert found.within(0.03).tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1.0])


def test_the_prior_is_that_of_one_word_and_of_ten_along_the_logarithm() -> None:
    def nothing(n_boundaries: int) -> LeftOut:
        return LeftOut((*FIRST_LEG, 2.0), np.zeros((len(FIRST_LEG) + 1, 0)), n_boundaries)

    assert nothing(1).prior[:-1] == pytest.approx(ONE_WORD)
    assert nothing(round(10 * WORD)).prior[:-1] == pytest.approx(TEN_WORDS)
    between = round(WORD * 10**0.5)
    assert nothing(between).prior[:-1] == pytest.approx(np.add(ONE_WORD, TEN_WORDS) / 2, abs=1e-3)
    assert nothing(10**6).prior == pytest.approx(nothing(round(20 * WORD)).prior)
    assert nothing(1).prior[-1] == ONE_WORD[-1]
    assert nothing(5).gains == pytest.approx(PRIOR * nothing(5).prior)
    assert 0 < nothing(5).best < len(FIRST_LEG) - 1
    assert not nothing(5).still_rising


def test_places_of_the_way_lie_between_and_allow_the_corrections(
    aligner: Aligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_further(acoustics: Any, network: Any, *given: Any, **named: Any) -> Any:
        return network.on(network.flat() + np.float32(1.0))

    monkeypatch.setattr(continued_model, "continue_end_to_end", one_further)
    base, network = aligner.model_, aligner.model_.acoustics.network
    assert isinstance(network, ConvolutionalNetwork)
    frames = np.zeros((400, network.n_columns), np.float32)
    long = TrainingUtterance("long", frames, ("sil", "a", "sil"), np.array([0.0, 20.0, 320.0]))
    way = Way(base, [long], SMALL, 0)
    way.walk(2)
    for place in (0.5, 1.0, 1.25, 2.0):
        there = way.model(place).acoustics.network
        assert isinstance(there, ConvolutionalNetwork)
        np.testing.assert_allclose(there.flat(), network.flat() + place, atol=1e-6)
    two = NetworkMixture((network, network.on(network.flat() + np.float32(3.0))))
    both = Way(
        replace(base, acoustics=replace(base.acoustics, network=two, listening=None)), [long], SMALL, 0
    )
    both.walk(1)
    there = both.model(0.5).acoustics.network
    assert isinstance(there, NetworkMixture)
    for one, start in zip(there.networks, two.networks, strict=True):
        np.testing.assert_allclose(one.flat(), start.flat() + 0.5, atol=1e-6)
    kind = base.acoustics.phones.encode(["a"]).kinds[0]
    assert base.acoustics.durations.longest[kind] < 3.0
    assert way.model(0.5).acoustics.durations.longest[kind] == pytest.approx(4.5)
    assert way.model(0.0) is base


@pytest.mark.parametrize("seed", range(20))
def test_pieces_put_together_are_the_recording(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_frames = int(rng.integers(30, 400))
    n = int(rng.integers(1, 1 + n_frames // 3))
    starts = np.sort(rng.choice(np.arange(1, n_frames), n - 1, False)) + rng.uniform(-0.4, 0.4, n - 1)
    whole = TrainingUtterance(
        "u",
        np.arange(n_frames, dtype=np.float32)[:, None],
        tuple(rng.choice(["a", "b", "sil"], n, p=[0.4, 0.4, 0.2])),
        np.concatenate([[0.0], starts]),
    )
    longest = int(rng.integers(20, 120))
    pieces = cut(whole, longest)
    np.testing.assert_array_equal(np.concatenate([p.frames for p in pieces]), whole.frames)
    if n > 2 * n_frames / longest + 2:
        assert len(pieces) == -(-n_frames // longest)
    labels = list(pieces[0].labels)
    kept = list(pieces[0].starts)
    for piece in pieces[1:]:
        offset = float(piece.frames[0, 0])
        again = piece.labels[0] == "sil" and labels[-1] == "sil"  # both halves of a silence
        labels += piece.labels[again:]
        kept += (piece.starts + offset).tolist()[again:]
    for piece in pieces:
        assert len(piece.labels) == len(piece.starts) <= len(piece.frames)
        assert (piece.gold >= 0).all()
    if not any(a == b == "sil" for a, b in zip(whole.labels, whole.labels[1:], strict=False)):
        assert tuple(labels) == whole.labels
        np.testing.assert_allclose(kept, whole.starts, atol=1.0)  # a start at a cut is a whole frame


def test_a_long_recording_is_learned_in_pieces(aligner: Aligner, tmp_path) -> None:
    import soundfile

    rng = np.random.default_rng(3)
    samples, alignment = tone_speech.utterance(
        [*(phone for _ in range(25) for phone in tone_speech.phones_of(rng)[:-1]), "sil"], rng
    )
    assert len(samples) > 15 * tone_speech.RATE
    soundfile.write(tmp_path / "long.wav", samples, tone_speech.RATE, subtype="FLOAT")
    corpus = with_starts(Corpus((Utterance("long", tmp_path / "long.wav", alignment),)), noises_begin_late)
    adapted = aligner.adapt(corpus)
    assert "on those left out" in adapted.status_.reason  # its pieces


def test_what_cannot_be_learned_from(aligner: Aligner, other: Corpus) -> None:
    with pytest.raises(DataError, match="no corrected recording"):
        aligner.adapt([])
    with pytest.raises(DataError, match="no corrected recording"):
        aligner.adapt([replace(other[0], reference=None)])
    with pytest.raises(DataError, match="same id"):
        aligner.adapt([other[0], other[0]])
    unknown = Alignment.from_starts([0.0, 0.1], ["sil", "click"], 0.3)
    with pytest.raises(DataError, match=f"{other[0].id}.*'click'"):
        aligner.adapt([replace(other[0], reference=unknown)])
    alone = Alignment.from_starts([0.0], ["a"], 0.3)
    with pytest.raises(DataError, match="no boundary"):
        aligner.adapt([replace(other[0], reference=alone)])
    with pytest.raises(NotFittedError):
        Aligner().adapt(other)
    without = Aligner(classifier="mlp")
    without.model_ = replace(aligner.model_, acoustics=aligner.model_.acoustics)
    with pytest.raises(UnsupportedError, match="convolutional"):
        without.adapt(other)
