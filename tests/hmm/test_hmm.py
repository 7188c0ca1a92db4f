"""Questions to a hidden Markov model: against enumeration, hmmlearn, and what must be so."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from trellis import HMM, load
from trellis.core.errors import DataError, InfeasibleError, ModelFileError, UnsupportedError
from trellis.hmm import align_states, distance, left_right
from trellis.hmm.emissions import Categorical, Gaussian, Poisson
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.scores.chain_scores import ChainScores


def rows(rng: np.random.Generator, n: int, k: int, zeros: float = 0.0) -> np.ndarray:
    """Random distributions; ``zeros`` is the chance of an impossible entry (never all of a row)."""
    table = rng.dirichlet(np.ones(k), n)
    table[rng.random((n, k)) < zeros] = 0.0
    table[table.sum(axis=1) == 0, 0] = 1.0
    return table / table.sum(axis=1, keepdims=True)


def random_hmm(seed: int, k: int, m: int = 3, zeros: float = 0.0) -> HMM:
    rng = np.random.default_rng(seed)
    emission = Categorical(m, rows(rng, k, m, zeros))
    return HMM(k, emission, initial=rows(rng, 1, k, zeros)[0], transitions=rows(rng, k, k, zeros))


def enumeration(model: HMM, x: np.ndarray) -> Enumeration:
    p = model.parameters()
    with np.errstate(divide="ignore"):
        scores = ChainScores.of(
            p.emission.log_likelihood(p.emission.check(x)), np.log(p.transitions), np.log(p.initial)
        )
    return Enumeration.of(scores)


@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    zeros=st.sampled_from([0.0, 0.0, 0.4]),
)
def test_every_question_against_enumeration(seed: int, k: int, lengths: list[int], zeros: float) -> None:
    model = random_hmm(seed, k, zeros=zeros)
    rng = np.random.default_rng(seed + 1)
    X = [rng.integers(-1, 3, size=n) for n in lengths]  # -1: missing
    every = [enumeration(model, x) for x in X]
    possible = [bool((e.scores > -np.inf).any()) for e in every]
    expected = [e.log_partition() if alive else -np.inf for e, alive in zip(every, possible, strict=True)]
    assert_allclose(model.log_likelihood(X), expected, rtol=1e-12, atol=1e-14)
    if not all(possible):
        with pytest.raises(InfeasibleError, match=f"sequence {possible.index(False)} has probability zero"):
            model.smooth(X)
        with pytest.raises(InfeasibleError, match=f"sequence {possible.index(False)} has probability zero"):
            model.decode(X)
        return
    smoothed, filtered, ahead = model.smooth(X), model.filter(X), model.predict_next(X, 2)
    ranked = model.decode_k_best(X, 3)
    for i, (x, e) in enumerate(zip(X, every, strict=True)):
        assert_allclose(smoothed[i], e.marginals().unary, atol=1e-12)
        for t in range(len(x)):
            assert_allclose(filtered[i][t], enumeration(model, x[: t + 1]).marginals().unary[t], atol=1e-12)
        future = enumeration(model, np.append(x, [-1, -1])).marginals().unary[len(x) :]
        assert_allclose(ahead[i], future, atol=1e-12)
        states, best = e.best()
        found = model.decode(X)[i]
        assert model.log_joint(X, model.decode(X))[i] == pytest.approx(best, rel=1e-12)
        assert_array_equal(found, states)
        assert_array_equal(model.decode(X, "max_marginal")[i], smoothed[i].argmax(axis=1))
        possible = e.labellings[e.scores > -np.inf]
        errors = (1.0 - smoothed[i][np.arange(len(x)), possible]).sum(axis=1)
        mine = (possible == model.decode(X, "minimum_risk")[i]).all(axis=1)
        assert_allclose(errors[mine], [errors.min()], atol=1e-12)
        labels, scores = e.k_best(3)
        assert_allclose([score for _, score in ranked[i]], scores, rtol=1e-12)
        assert_allclose([model.log_joint(x, y)[0] for y, _ in ranked[i]], scores, rtol=1e-12)
        assert len(labels) == len(ranked[i])


@pytest.mark.parametrize("k", [3, 8, 13, 21])
def test_against_hmmlearn(k: int) -> None:
    """Sizes on both sides of every change of layout in the kernels."""
    model = random_hmm(0, k, 6)
    X, _ = model.sample([40, 1, 200], random_state=1)
    peer = CategoricalHMM(k)
    peer.n_features = 6
    p = model.parameters()
    peer.startprob_, peer.transmat_, peer.emissionprob_ = p.initial, p.transitions, p.emission.probabilities
    packed, lengths = np.concatenate(X)[:, None], [40, 1, 200]
    score, posterior = peer.score_samples(packed, lengths)
    assert model.log_likelihood(X).sum() == pytest.approx(score, rel=1e-10)
    assert model.score(X) == pytest.approx(score / 241, rel=1e-10)
    assert_allclose(np.concatenate(model.smooth(X)), posterior, atol=1e-10)
    assert_array_equal(np.concatenate(model.decode(X)), peer.decode(packed, lengths)[1])


def test_lists_and_arrays() -> None:
    model = random_hmm(3, 2)
    a, b = np.array([0, 1, 2, 1]), np.array([2, 2])
    both = np.concatenate([a, b])
    assert_array_equal(model.smooth(both, lengths=[4, 2]), np.concatenate(model.smooth([a, b])))
    assert_array_equal(model.filter(a), model.filter([a, b])[0])
    assert_array_equal(model.decode(both, lengths=[4, 2]), np.concatenate(model.decode([a, b])))
    assert model.predict_next(a, 3).shape == (3, 2)
    assert model.predict_next(both, 3, lengths=[4, 2]).shape == (2, 3, 2)
    assert_array_equal(model.log_likelihood(both, lengths=[4, 2]), model.log_likelihood([a, b]))
    assert_array_equal(model.decode_k_best(a, 2)[1][0], model.decode_k_best([a], 2)[0][1][0])
    assert_array_equal(model.log_likelihood([a[:0], a]), [0.0, model.log_likelihood(a)[0]])
    assert_allclose(model.predict_next([a[:0]], 1)[0][0], model.parameters().initial)
    assert model.smooth([a[:0], a])[0].shape == (0, 2)


@pytest.mark.parametrize("emission", ["categorical", "poisson", "gaussian"])
def test_one_seed_and_any_number_of_threads(emission: str) -> None:
    rng = np.random.default_rng(0)
    made = {
        "categorical": (Categorical(4), rng.integers(0, 4, 900)),
        "poisson": (Poisson(), rng.poisson(3.0, (900, 2))),
        "gaussian": (Gaussian("full"), rng.normal(size=(900, 2))),
    }
    kind, x = made[emission]
    lengths = [100, 1, 299, 400, 100]
    options: dict[str, Any] = {"n_init": 2, "max_iter": 4, "random_state": 5}
    one = HMM(3, kind, **options).fit(x, lengths=lengths)
    same = HMM(3, kind, **options).fit(x, lengths=lengths)
    two = HMM(3, kind, n_jobs=2, **options).fit(x, lengths=lengths)
    assert_array_equal(one.transitions_, same.transitions_)
    assert_allclose(one.transitions_, two.transitions_, rtol=1e-9)
    assert_allclose(one.history_["primal"], two.history_["primal"], rtol=1e-12)
    assert len(one.objectives_) == 2
    assert max(one.objectives_) == -one.history_["primal"][-1]
    for question in ("filter", "smooth", "decode"):
        a, b = (getattr(model, question)(x, lengths=lengths) for model in (one, one.set_params(n_jobs=2)))
        assert_array_equal(a, b)


def test_sampling_follows_the_model() -> None:
    model = random_hmm(7, 3, 4)
    p = model.parameters()
    X, S = model.sample([4] * 20_000, random_state=0)
    states, symbols = np.array(S), np.array(X)
    assert_allclose(np.bincount(states[:, 0], minlength=3) / 20_000, p.initial, atol=0.015)
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (states[:, :-1], states[:, 1:]), 1)
    assert_allclose(pairs / pairs.sum(axis=1, keepdims=True), p.transitions, atol=0.02)
    emitted = np.zeros((3, 4))
    np.add.at(emitted, (states, symbols), 1)
    assert_allclose(emitted / emitted.sum(axis=1, keepdims=True), p.emission.probabilities, atol=0.02)
    x, y = model.sample(5, random_state=0)
    assert x.shape == y.shape == (5,)
    assert_array_equal(model.sample([5], random_state=0)[0][0], x)


def test_stationary_distribution() -> None:
    model = random_hmm(1, 4)
    p = model.stationary()
    assert_allclose(p @ model.parameters().transitions, p, atol=1e-12)
    assert p.sum() == pytest.approx(1.0)
    swap = HMM(2, Categorical(1, [[1.0], [1.0]]), initial=[1, 0], transitions=[[0, 1], [1, 0]])
    assert_allclose(swap.stationary(), [0.5, 0.5])
    initial, transitions = left_right(3)
    ends = HMM(3, Categorical(1, np.ones((3, 1))), initial=initial, transitions=transitions)
    assert_allclose(ends.stationary(), [0, 0, 1], atol=1e-12)
    with pytest.raises(UnsupportedError, match=r"2 sets of states that it never leaves, \[\[0\], \[1\]\]"):
        HMM(2, Categorical(1, [[1.0], [1.0]]), initial=[1, 0], transitions=np.eye(2)).stationary()


def test_counting_parameters() -> None:
    rng = np.random.default_rng(0)
    model = random_hmm(0, 3, 5)
    assert model.n_parameters == 2 + 3 * 2 + 3 * 4
    x = model.sample(50, random_state=0)[0]
    total = model.log_likelihood(x)[0]
    assert model.aic(x) == pytest.approx(2 * 20 - 2 * total)
    assert model.bic(x) == pytest.approx(20 * np.log(50) - 2 * total)
    initial, transitions = left_right(4)
    fixed = HMM(4, Categorical(2, rows(rng, 4, 2)), initial=initial, transitions=transitions)
    assert fixed.n_parameters == 3 + 4  # one of two in each row but the last, and none at the beginning
    tied = fixed.set_params(transitions=rows(rng, 4, 4), tied_transitions=list("aabb"))
    assert tied.n_parameters == 2 * 3 + 4


def test_streaming_is_the_filter() -> None:
    rng = np.random.default_rng(0)
    model = HMM(
        3,
        Gaussian("diag", rng.normal(size=(3, 2)), np.ones((3, 2))),
        initial=[1, 0, 0],
        transitions=[[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 1]],
    )
    x = rng.normal(size=(30, 2))
    x[4], x[9, 1], x[20] = np.nan, np.nan, 1e3
    stream = model.streaming_filter()
    assert_allclose(stream.predict(1), [1, 0, 0])
    for t, (row, expected) in enumerate(zip(x, model.filter(x), strict=True)):
        assert_allclose(stream.update(row), expected, atol=1e-12)
        if t in (0, 17):
            assert_allclose(stream.predict(4), model.predict_next(x[: t + 1], 4)[3], atol=1e-12)
    for steps in (1, 2, 3, 4, 50):
        assert_allclose(stream.predict(steps), model.predict_next(x, steps)[-1], atol=1e-12)
    assert stream.n_steps == 30
    assert stream.log_likelihood == pytest.approx(model.log_likelihood(x)[0], rel=1e-12)
    stream.reset()
    assert (stream.n_steps, stream.log_likelihood) == (0, 0.0)
    stream.predict(1)[:] = 0.5  # belongs to the caller
    assert_allclose(stream.predict(1), [1, 0, 0])
    assert_allclose(stream.predict(2), [0.9, 0.1, 0])
    with pytest.raises(DataError, match="steps is 0; give a whole number of at least 1"):
        stream.predict(0)


@pytest.mark.parametrize("k", [1, 2, 5, 30])
@pytest.mark.parametrize("kind", ["dense", "sparse", "tiny"])
def test_streaming_keeps_states_that_are_hardly_reached(k: int, kind: str) -> None:
    """A state whose probability is far below the range of a double may be the only one that survives."""
    rng = np.random.default_rng(k)
    transitions = rng.dirichlet(np.ones(k), k)
    if kind == "sparse":
        transitions = np.triu(transitions) + 1e-3 * np.eye(k)
    elif kind == "tiny":
        transitions = transitions ** rng.integers(1, 400, size=(k, k))  # down to nothing at all
        transitions += np.eye(k)
    transitions /= transitions.sum(axis=1, keepdims=True)
    means = 30.0 * np.arange(k)[:, None]  # far apart: the log-likelihoods of a step span thousands
    model = HMM(k, Gaussian("diag", means, np.ones((k, 1))), initial=np.eye(k)[0], transitions=transitions)
    x = np.sort(rng.uniform(0.0, 30.0 * k, size=(25, 1)), axis=0)
    stream = model.streaming_filter()
    for t, (row, expected) in enumerate(zip(x, model.filter(x), strict=True)):
        assert_allclose(stream.update(row), expected, rtol=1e-9, atol=1e-300)
        assert_allclose(stream.predict(), model.predict_next(x[: t + 1])[0], rtol=1e-9, atol=1e-300)
    assert stream.log_likelihood == pytest.approx(model.log_likelihood(x)[0], rel=1e-12)


def test_an_impossible_observation_is_not_taken() -> None:
    model = HMM(2, Categorical(2, np.eye(2)), initial=[1, 0], transitions=[[0.5, 0.5], [0, 1]])
    stream = model.streaming_filter()
    stream.update(0)
    stream.update(1)
    with pytest.raises(InfeasibleError, match="the observation at step 2 has probability zero"):
        stream.update(0)
    assert_allclose(stream.update(-1), [0, 1])
    with pytest.raises(InfeasibleError, match=r"sequence 1 has probability zero .*, from step 2 on"):
        model.filter([np.array([0, 1]), np.array([0, 1, 0, 0])])
    assert_array_equal(model.log_likelihood([np.array([0, 1, 0])]), [-np.inf])
    assert_array_equal(model.log_joint(np.array([0, 1, 0]), [0, 1, 0]), [-np.inf])


def test_states_are_matched_whatever_their_numbers() -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(scale=3.0, size=(4, 2))
    model = HMM(
        4, Gaussian("diag", means, np.ones((4, 2))), initial=rows(rng, 1, 4)[0], transitions=rows(rng, 4, 4)
    )
    X, _ = model.sample([500, 500], random_state=0)
    for order in itertools.islice(itertools.permutations(range(4)), 5, 12):
        other = model.permute(order)
        assert_allclose(other.log_likelihood(X), model.log_likelihood(X), rtol=1e-12)
        back = align_states(model, other, X)
        assert_array_equal(np.asarray(order)[back], np.arange(4))
        assert_allclose(other.permute(back).transitions_, model.parameters().transitions)
        assert distance(model, other, n_steps=1000) == pytest.approx(0.0, abs=1e-12)
    assert distance(model, random_like(model, rng), n_steps=1000) > 0.01
    assert_array_equal(align_states(model, model.permute([1, 0, 2, 3])), [1, 0, 2, 3])
    with pytest.raises(DataError, match="the models have 4 and 2 states"):
        align_states(model, random_hmm(0, 2))
    with pytest.raises(DataError, match="each of the states 0 to 3 once"):
        model.permute([0, 0, 1, 2])


def random_like(model: HMM, rng: np.random.Generator) -> HMM:
    p = model.parameters()
    return HMM(4, p.emission, initial=p.initial, transitions=rows(rng, 4, 4))


def test_save_and_load(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(30, 2)) for _ in range(3)]
    initial, transitions = left_right(3, jump=2)
    model = HMM(
        3, Gaussian("tied"), initial=initial, transitions=transitions, transition_pseudocount=0.5, max_iter=3,
        random_state=np.int64(4),
    )  # fmt: skip
    path = tmp_path / "m.trellis"
    with pytest.raises(NotFittedError, match="this HMM is not fitted"):
        model.save(path)
    model.fit(X)
    model.save(path)
    loaded = load(path)
    assert_array_equal(np.concatenate(loaded.smooth(X)), np.concatenate(model.smooth(X)))
    assert str(loaded.status_) == str(model.status_)
    assert loaded.history_ == model.history_
    assert (loaded.transition_pseudocount, loaded.random_state) == (0.5, 4)
    assert_array_equal(loaded.fit(X).transitions_, model.transitions_)
    given = random_hmm(0, 2)
    given.save(path)
    assert load(path).score(np.array([0, 1])) == given.score(np.array([0, 1]))


def test_forged_files_are_refused(tmp_path: Any) -> None:
    from trellis.core import storage

    path = tmp_path / "m.trellis"
    random_hmm(0, 2).partial_fit([np.array([0, 1, 2, 1])]).save(path)
    assert load(path).partial_fit([np.array([1, 1])]).online_.n_batches == 2
    kind, meta, arrays = storage.read(path)
    for name, bad in (
        ("transitions_", np.full((2, 2), 0.7)),
        ("transitions_", np.full((2, 2), 0.5, np.float32)),
        ("initial_", np.ones(3) / 3),
        ("initial_", np.array([np.nan, 1.0])),
        ("emission_.probabilities", np.full((3, 4), 0.25)),
        ("emission_.probabilities", np.ones((2, 4))),
        ("online_.pairs", np.ones((1, 2))),
    ):
        assert name in arrays
        storage.save(path, kind, meta, {**arrays, name: bad})
        with pytest.raises(ModelFileError, match="damaged or incomplete"):
            load(path)
    storage.save(path, kind, {**meta, "parameters": {**meta["parameters"], "n_states": 3}}, arrays)
    with pytest.raises(ModelFileError, match="damaged or incomplete"):
        load(path)


def test_scikit_learn_conventions() -> None:
    model = HMM(2, Categorical(3, pseudocount=1.0), tol=1e-3)
    assert clone(model).get_params()["tol"] == 1e-3
    assert model.set_params(n_states=3).n_states == 3
    with pytest.raises(NotFittedError, match="this HMM is not fitted"):
        model.smooth(np.array([0]))
    assert model.fit([np.array([0, 1, 2, 2])]) is model
    assert_array_equal(model.predict([np.array([0, 1])])[0], model.decode([np.array([0, 1])])[0])


X0 = [np.array([0, 1]), np.array([1, 0, 1])]
GIVEN = random_hmm(0, 2)
PLAIN = Categorical(2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: GIVEN.smooth([np.array([0, 1]), np.array([1, 7])]),
            "step 1 of sequence 1: symbol 7 is not valid",
        ),
        (lambda: GIVEN.smooth([0, 1]), "a list of single values"),
        (lambda: GIVEN.smooth(X0, lengths=[2, 3]), "lengths belong to one array"),
        (lambda: GIVEN.smooth(np.zeros(4, int), lengths=[2, 3]), "lengths add up to 5"),
        (lambda: GIVEN.smooth(np.array(3)), "the single value 3"),
        (lambda: GIVEN.fit([np.zeros(0, int)]), "no steps to learn from"),
        (lambda: GIVEN.fit(X0, [[0, 1]]), "1 sequences of states for 2"),
        (lambda: GIVEN.fit(X0, [[0, 1], [0, 1]]), "states of sequence 1 have shape"),
        (lambda: GIVEN.fit(X0, [[0, 1], [0, 2, 0]]), "state 2 at step 1 of sequence 1"),
        (lambda: GIVEN.fit(X0, [[0, 1], [0.5, 1, 0]]), "states must be whole numbers"),
        (lambda: GIVEN.fit(X0[1], [0, 1]), r"they must have shape \(3,\)"),
        (lambda: GIVEN.log_joint(X0, [[0, -1], None]), "step 1 of sequence 0 is not known"),
        (lambda: GIVEN.log_joint(X0, [None, None]), "step 0 of sequence 0 is not known"),
        (lambda: GIVEN.decode(X0, "best"), "give 'viterbi', 'max_marginal' or 'minimum_risk'"),
        (lambda: GIVEN.decode_k_best(X0, 0), "k is 0"),
        (lambda: GIVEN.predict_next(X0, 0), "steps is 0; give a whole number"),
        (lambda: clone(GIVEN).set_params(n_states=3).fit(X0), "initial has shape"),
        (lambda: HMM(3, Categorical(2, np.full((2, 2), 0.5))).fit(X0), "for 2 states, but n_states is 3"),
        (lambda: HMM(2, PLAIN, transitions=[[0.5, 0.6], [0, 1]]).fit(X0), "row 0 of transitions"),
        (lambda: HMM(2, PLAIN, initial=[-0.5, 1.5]).fit(X0), "initial is not a probability"),
        (
            lambda: HMM(2, PLAIN, transitions="left_right").fit(X0),
            r"transitions is 'left_right'; give a number, or an array",
        ),
        (lambda: HMM(2, PLAIN, tied_transitions=[0]).fit(X0), "one for each of the 2 states"),
        (lambda: HMM(2, PLAIN, transition_pseudocount=-1).fit(X0), "transition_pseudocount must be"),
        (lambda: HMM(2, "categorical").fit(X0), "give an object of trellis.emissions"),
        (lambda: HMM(0, PLAIN).fit(X0), "n_states is 0"),
        (lambda: HMM(2, PLAIN, tol=-1).fit(X0), "tol is -1"),
        (lambda: HMM(2, PLAIN, start="best").fit(X0), "start is 'best'"),
        (lambda: HMM(2, PLAIN, step_power=0.5).fit(X0), "step_power is 0.5"),
        (lambda: left_right(3, jump=0), "jump is 0; give a whole number"),
    ],
)
def test_what_is_wrong_is_said(call: Any, words: str) -> None:
    with pytest.raises((DataError, UnsupportedError), match=words):
        call()
