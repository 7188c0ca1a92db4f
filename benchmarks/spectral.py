"""Spectral learning: how its error shrinks with the sample, what it costs, and next to EM.

The truth is a hidden Markov model with 3 states and 5 symbols. The error is the sum of absolute errors of the
estimated probabilities of all sequences of 4 symbols, averaged over samples; its slope over the number of
sequences on a log-log scale should be near -1/2. Recovered matrices are measured by their largest error,
states matched. Then moments, moments with EM after them, and hmmlearn by 30 iterations of EM from one random
start learn from one sample (CPU, one thread), and both sides give the likelihood of the same sequences under
the same model.

    python benchmarks/spectral.py [--quick] [--picture spectral.png]
"""

from __future__ import annotations

import warnings
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np

from _common import Figures, check, fastest, parser
from trellis import SpectralHMM
from trellis.core.errors import NumericalError
from trellis.hmm.spectral import SpectralWarning

INITIAL = np.array([0.5, 0.3, 0.2])
TRANSITIONS = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.25, 0.05, 0.7]])
EMISSIONS = np.array([[0.6, 0.2, 0.1, 0.05, 0.05], [0.05, 0.1, 0.65, 0.1, 0.1], [0.1, 0.05, 0.05, 0.3, 0.5]])
N_STATES, N_SYMBOLS = EMISSIONS.shape
QUERIES = np.array(list(product(range(N_SYMBOLS), repeat=4)))


def sample(n: int, length: int, rng: np.random.Generator) -> np.ndarray:
    X = np.empty((n, length), np.int64)
    states = rng.choice(N_STATES, size=n, p=INITIAL)
    for t in range(length):
        if t:
            states = (np.cumsum(TRANSITIONS, axis=1)[states] < rng.random((n, 1))).sum(axis=1)
        X[:, t] = (np.cumsum(EMISSIONS, axis=1)[states] < rng.random((n, 1))).sum(axis=1)
    return np.minimum(X, N_SYMBOLS - 1)


def probabilities(initial: np.ndarray, transitions: np.ndarray, emissions: np.ndarray) -> np.ndarray:
    """Of all queries, by the forward recursion."""
    alpha = initial * emissions.T[QUERIES[:, 0]]
    for t in range(1, QUERIES.shape[1]):
        alpha = alpha @ transitions * emissions.T[QUERIES[:, t]]
    return alpha.sum(axis=1)


def matched_error(emissions: np.ndarray, transitions: np.ndarray) -> float:
    """The largest error of the matrices under the best matching of the states."""
    return min(
        max(
            np.abs(emissions[list(p)] - EMISSIONS).max(),
            np.abs(transitions[np.ix_(p, p)] - TRANSITIONS).max(),
        )
        for p in permutations(range(N_STATES))
    )


def spectral(X: np.ndarray, **options: Any) -> SpectralHMM:
    model = SpectralHMM(N_STATES, N_SYMBOLS, on_negative="keep", random_state=0, **options)
    return model.fit(X.ravel(), lengths=[X.shape[1]] * len(X))


def growth(quick: bool, picture: Path | None) -> None:
    sizes = [4**power for power in range(5, 9 if quick else 11)]
    repeats = 10 if quick else 20
    truth = probabilities(INITIAL, TRANSITIONS, EMISSIONS)
    figures = Figures(
        "Spectral learning: error against sample size (sequences of 10 symbols)",
        ("joint error", "matrix error", "negative", "exponent", "target", "met"),
    )
    errors, matrix_errors = np.empty(len(sizes)), np.empty(len(sizes))
    rng = np.random.default_rng(0)
    for i, n in enumerate(sizes):
        joint, matrices, negative = [], [], []
        for _ in range(repeats):
            model = spectral(sample(n, 10, rng))
            joint.append(np.abs(model.joint_probability(list(QUERIES)) - truth).sum())
            report = model.negative_probabilities(list(QUERIES))
            negative.append(report.n_negative / report.n_probabilities)
            try:
                found = model.recover()
                matrices.append(matched_error(found.emissions, found.transitions))
            except NumericalError:  # the rank is lost in noise: counted as the worst there can be
                matrices.append(1.0)
        errors[i], matrix_errors[i] = np.mean(joint), np.median(matrices)
        figures.row(
            f"{n:,} sequences", f"{errors[i]:.4f}", f"{matrix_errors[i]:.4f}", f"{np.mean(negative):.1%}", "",
            "", met=None,
        )  # fmt: skip
    slope = float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
    figures.row("all", "", "", "", f"{slope:.3f}", "-0.6 to -0.4", met=-0.6 <= slope <= -0.4)
    figures.print()
    if picture is not None:
        draw(picture, np.array(sizes), errors, matrix_errors)


def draw(path: Path, sizes: np.ndarray, errors: np.ndarray, matrix_errors: np.ndarray) -> None:
    from trellis.report.figures import new_figure

    figure = new_figure(5, 3.5)
    axis = figure.add_subplot()
    axis.loglog(sizes, errors, marker="o", label="probabilities of all sequences of 4 symbols")
    axis.loglog(sizes, matrix_errors, marker="s", label="recovered matrices, largest error")
    axis.loglog(sizes, errors[-1] * np.sqrt(sizes[-1] / sizes), "k:", label="slope -1/2")
    axis.set(xlabel="sequences of 10 symbols", ylabel="error")
    axis.legend(fontsize="small", loc="upper right")
    figure.savefig(path, dpi=100, bbox_inches="tight")
    print(f"picture written to {path}")


def against_em(quick: bool) -> None:
    try:
        from hmmlearn.hmm import CategoricalHMM
    except ImportError:
        print("not measured against EM: hmmlearn is not installed")
        return
    n, length = (2_000, 20) if quick else (20_000, 20)
    X = sample(n, length, np.random.default_rng(1))
    flat, lengths = X.reshape(-1, 1), [length] * n
    learned = {}

    def by_em() -> None:
        em = CategoricalHMM(N_STATES, n_iter=30, tol=0.0, random_state=0, implementation="scaling")
        em.n_features = N_SYMBOLS
        learned["em"] = em.fit(flat, lengths)

    def by_both() -> None:
        start = spectral(X).to_hmm(max_iter=30, tol=0.0)
        learned["both"] = start.fit(X.ravel(), lengths=lengths)

    ours = spectral(X)
    by_both()  # compiles
    learn = fastest(lambda: spectral(X), by_both, by_em, repeats=1 if quick else 2)

    truth = probabilities(INITIAL, TRANSITIONS, EMISSIONS)
    exact = CategoricalHMM(N_STATES, implementation="scaling")
    exact.startprob_, exact.transmat_, exact.emissionprob_ = INITIAL, TRANSITIONS, EMISSIONS
    exact.n_features = N_SYMBOLS
    triples = np.einsum(
        "a,aj,ab,bx,bc,ci->ixj", INITIAL, EMISSIONS, TRANSITIONS, EMISSIONS, TRANSITIONS, EMISSIONS
    )
    known = SpectralHMM(N_STATES).fit_moments(triples, INITIAL @ EMISSIONS)
    same = known.log_likelihood(X.ravel(), lengths=lengths).sum(), exact.score(flat, lengths)
    check(np.isclose(*same, rtol=1e-9), f"log-likelihoods of the same model: {same}")
    score = fastest(
        lambda: known.log_likelihood(X.ravel(), lengths=lengths),
        lambda: exact.score(flat, lengths),
        repeats=3,
    )

    figures = Figures(f"Spectral learning next to hmmlearn ({n:,} sequences of {length} symbols)")
    figures.times("learn: moments and SVD", learn[0], learn[2])
    figures.times("learn: moments and SVD, then 30 iterations of our EM", learn[1], learn[2])
    figures.times("likelihood of all sequences, same model", score[0], score[1])
    em, both = learned["em"], learned["both"]
    errors = [
        np.abs(estimate - truth).sum()
        for estimate in (
            ours.joint_probability(list(QUERIES)),
            probabilities(both.initial_, both.transitions_, both.emission_.probabilities),
            probabilities(em.startprob_, em.transmat_, em.emissionprob_),
        )
    ]
    figures.value("error of the probabilities: moments and SVD", f"{errors[0]:.4f}", f"{errors[2]:.4f}")
    figures.value("the same, with EM after it", f"{errors[1]:.4f}", f"{errors[2]:.4f}")
    figures.print()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--picture", type=Path, help="where to save a picture of the errors")
    given = options.parse_args()
    warnings.simplefilter("ignore", SpectralWarning)  # small samples are meant to be small
    growth(given.quick, given.picture)
    against_em(given.quick)


if __name__ == "__main__":
    main()
