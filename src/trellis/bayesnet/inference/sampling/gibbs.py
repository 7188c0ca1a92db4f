"""Gibbs sampling: several chains that redraw one variable at a time given all others.

Chains start at different places and run for ``burn_in`` sweeps before they count. Each is cut into 32
batches. With c chains, batch means m_b and chain means, the standard error of a probability p is

    se^2 = max( variance of the batch means / number of batches,  variance of the chain means / c )

and its effective sample size p (1 - p) / se^2: as many independent samples would be as exact. R-hat compares
the 2 c half-chains, of length n, mean variance W within and variance B / n of their means:

    R-hat^2 = ((n - 1) / n W + B / n) / W

Values above 1.01 or so say that the chains have not forgotten where they started. They *cannot* forget it if
impossible configurations (zeros in tables) separate the possible ones from each other. Whether they do is
hard to decide, so zeros are an error unless they are accepted; zeros that merely rule out single states, such
as those that evidence leaves behind, are found first (arc consistency) and do no harm.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.inference.approximate_posterior import (
    Answer,
    ApproximationWarning,
    Evidence,
    Likelihoods,
    Question,
    Targets,
    unseen_cells,
)
from trellis.bayesnet.inference.model_factors import Model, families, impossible_evidence, reduced_factors
from trellis.bayesnet.inference.sampling.forward_sampling import FEW, cumulative_tables, random_key
from trellis.bayesnet.inference.sampling.forward_sampling_kernels import BLOCK, forward
from trellis.bayesnet.inference.sampling.gibbs_kernels import run_chain
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.core.arguments import RandomState, check_int, generator
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.core.shards import over_shards
from trellis.factors.flat_factors import FlatFactors, flatten, merge_nested
from trellis.factors.possible_states import ContradictionError, PossibleStates
from trellis.factors.tables import Table

BATCHES = 32
MIXED = 1.05  # R-hat above it is worth a warning
START_TRIES = 1000
ROUNDING = 1e-14  # the error left where p(x_v | all others) never changes


def gibbs(
    model: Model,
    targets: Targets,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    n_chains: int = 8,
    n_sweeps: int = 4096,
    burn_in: int = 512,
    zeros: Literal["refuse", "accept"] = "refuse",
    random_state: RandomState = None,
    n_jobs: int = 1,
) -> Answer:
    """P(targets | evidence) by Gibbs sampling, for Bayesian networks and factor graphs.

    ``targets``: a variable, several jointly, or None for each unobserved variable by itself (a dictionary).
    ``n_sweeps`` per chain is rounded up to a multiple of 32. ``zeros="accept"`` runs in spite of impossible
    configurations, which may make the chains miss parts of the distribution. Diagnostics: ``r_hat``
    (largest), ``effective_sample_size`` (smallest), ``n_chains``, ``n_sweeps``, ``burn_in``.
    """
    n_chains = check_int("n_chains", n_chains, 2)  # R-hat compares chains
    n_sweeps, burn_in = check_int("n_sweeps", n_sweeps, 1), check_int("burn_in", burn_in, 0)
    if zeros not in ("refuse", "accept"):
        raise DataError(f"zeros must be 'refuse' or 'accept', got {zeros!r}")
    n_sweeps = -(-n_sweeps // BATCHES) * BATCHES
    question = Question(model, targets, evidence, likelihoods)
    tables, free = reduced_factors(model, question.targets, question.evidence, question.likelihoods)
    allowed = possible_states(model, tables)
    if zeros == "refuse":
        _refuse_zeros(model, tables, allowed)
    rng = generator(random_state)
    factors = flatten(model.cardinalities, merge_nested(tables)[0])
    starts = _starts(model, question, factors, free, allowed, n_chains, rng)
    sums, squares = _run(question, factors, free, starts, burn_in, n_sweeps, rng, n_jobs)
    return _answer(question, sums, squares, n_sweeps, burn_in)


def possible_states(model: Model, tables: Sequence[Table]) -> list[NDArray[np.bool_]]:
    """The states of each variable that arc consistency leaves."""
    try:
        return PossibleStates(model.cardinalities.tolist(), tables).without_evidence
    except ContradictionError as error:
        raise impossible_evidence(model, error) from error


def _refuse_zeros(model: Model, tables: Sequence[Table], allowed: Sequence[NDArray[np.bool_]]) -> None:
    for variables, values in tables:
        left = values[np.ix_(*(allowed[v] for v in variables))] if variables else values
        if not left.all():
            names = ", ".join(repr(model.names[v]) for v in variables)
            raise UnsupportedError(
                f"the table over {names} holds zeros, so that Gibbs sampling may never leave the part of the "
                "distribution it starts in; use an exact method or likelihood weighting, or zeros='accept'"
            )


def _starts(
    model: Model,
    question: Question,
    factors: FlatFactors,
    free: Sequence[int],
    allowed: Sequence[NDArray[np.bool_]],
    n_chains: int,
    rng: np.random.Generator,
) -> IntArray:
    """A possible state for each chain (n_chains, variables), spread wider than the distribution itself."""
    if isinstance(model, DirectedModel):
        relevant = families(model, question.targets, question.evidence, question.likelihoods)
        codes = np.zeros((len(relevant.observed), BLOCK), dtype=np.int32)
        log_weight, alive = np.empty(BLOCK), np.empty(BLOCK, dtype=np.int64)
        n = forward(
            relevant, cumulative_tables(relevant), False, random_key(rng), 0, BLOCK, codes, log_weight, alive
        )
        if n == 0:
            raise InfeasibleError(
                f"none of {BLOCK:,} samples makes the evidence possible, so that no chain can start: it is "
                "impossible or needs a rare state; use an exact method"
            )
        chosen = rng.choice(alive[:n], size=n_chains, replace=n < n_chains)
        return codes[: len(model.names), chosen].T.astype(np.int64)
    starts = np.zeros((n_chains, len(model.names)), dtype=np.int64)
    for v, state in question.evidence.items():
        starts[:, v] = state
    for start in starts:
        for _ in range(START_TRIES):
            for v in free:
                start[v] = rng.choice(np.flatnonzero(allowed[v]))
            if _possible(factors, start):
                break
        else:
            raise InfeasibleError(
                f"{START_TRIES:,} random assignments are all impossible, so that no chain can start; use "
                "an exact method"
            )
    return starts


def _possible(factors: FlatFactors, state: IntArray) -> bool:
    steps = factors.stride * state[factors.scope]
    n_factors = len(factors.value_start) - 1
    places = factors.value_start[:-1] + np.bincount(factors.factor_of, steps, n_factors).astype(np.int64)
    return bool((factors.values[places] > -np.inf).all())


def _run(
    question: Question,
    factors: FlatFactors,
    free: Sequence[int],
    starts: IntArray,
    burn_in: int,
    n_sweeps: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> tuple[FloatArray, FloatArray]:
    n_chains = len(starts)
    own_cell = np.full(starts.shape[1], -1)
    for scope, cell in zip(question.scopes, question.cells.value_start, strict=False):
        if len(scope) == 1 and scope[0] not in question.evidence:
            own_cell[scope[0]] = cell
    sums = np.zeros((n_chains, BATCHES, question.n_cells))
    squares = np.zeros((n_chains, 2, question.n_cells))
    order, key = np.array(free, dtype=np.int64), random_key(rng)

    def shard(first: int, last: int) -> None:
        for chain in range(first, last):
            stuck = run_chain(
                factors, order, question.cells, own_cell, key, chain, burn_in, n_sweeps, BATCHES,
                starts[chain], sums[chain], squares[chain],
            )  # fmt: skip
            if stuck >= 0:
                raise InfeasibleError(
                    f"no state of {question.variables.names[stuck]!r} is possible given the others: the "
                    "evidence is impossible; change it"
                )

    over_shards(shard, np.arange(n_chains + 1), n_jobs)
    return sums, squares


def _answer(question: Question, sums: FloatArray, squares: FloatArray, n_sweeps: int, burn_in: int) -> Answer:
    n_chains = len(sums)
    r_hat = float(split_r_hat(sums, squares, n_sweeps).max(initial=1.0))
    batch_means = np.divide(sums, n_sweeps / BATCHES, out=sums)
    p = batch_means.mean(axis=(0, 1))
    between_batches = batch_means.var(axis=(0, 1), ddof=1) / (n_chains * BATCHES)
    between_chains = batch_means.mean(axis=1).var(axis=0, ddof=1) / n_chains
    errors = np.maximum(np.sqrt(np.maximum(between_batches, between_chains)), ROUNDING)
    uncertain = ~question.certain() & (errors > ROUNDING)
    sizes = (p * (1.0 - p))[uncertain] / errors[uncertain] ** 2
    effective = float(sizes.min()) if sizes.size else float(n_chains * n_sweeps)
    report = (
        f"{n_chains} chains of {n_sweeps:,} sweeps after {burn_in:,}: R-hat at most {r_hat:.3f}, effective "
        f"sample size at least {effective:,.0f}"
    )
    if not r_hat <= MIXED:
        report += "; the chains disagree, and the answer is not to be trusted: run longer, or an exact method"
    elif effective < FEW:
        report += "; that is little: run longer, or an exact method"
    if not r_hat <= MIXED or effective < FEW:
        warnings.warn(f"Gibbs sampling: {report}", ApproximationWarning, stacklevel=3)
    diagnostics = {
        "r_hat": r_hat,
        "effective_sample_size": effective,
        "n_chains": n_chains,
        "n_sweeps": n_sweeps,
        "burn_in": burn_in,
    }
    return question.answer(p, unseen_cells(p, errors, effective), "gibbs", report, diagnostics)


def split_r_hat(sums: FloatArray, squares: FloatArray, n_sweeps: int) -> FloatArray:
    """R-hat of each cell from the sums of batches (chains, batches, cells) and the squares of halves."""
    n = n_sweeps // 2
    halves = sums.reshape(len(sums), 2, BATCHES // 2, sums.shape[2]).sum(axis=2)
    means = halves / n
    within = np.maximum(squares / n - means**2, 0.0) * (n / (n - 1))
    W = within.mean(axis=(0, 1))
    between = means.var(axis=(0, 1), ddof=1)
    # sums of constants differ by rounding only
    still = W <= 1e-14
    ratio = ((n - 1) / n * W + between) / np.where(still, 1.0, W)
    moved = np.where(between > 1e-14, np.inf, 1.0)
    r_hat: FloatArray = np.where(still, moved, np.sqrt(ratio))
    return r_hat
