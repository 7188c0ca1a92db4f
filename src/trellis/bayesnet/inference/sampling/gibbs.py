"""Gibbs sampling: several chains that redraw one variable at a time given all others.

Chains start at different places and run for ``burn_in`` sweeps before they count. Each is cut into batches,
from which :mod:`trellis.bayesnet.inference.estimates` makes probabilities, their errors and R-hat. Values of
R-hat above 1.01 or so say that the chains have not forgotten where they started. They *cannot* forget it if
impossible configurations (zeros in tables) separate the possible ones from each other. Whether they do is
hard to decide, so zeros are an error unless they are accepted; zeros that merely rule out single states, such
as those that evidence leaves behind, are found first (arc consistency) and do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from trellis.bayesnet.inference.estimates import FEW, Estimate, estimate_from_batches, split_r_hat
from trellis.bayesnet.inference.question import Question
from trellis.bayesnet.inference.sampling.forward_sampling import cumulative_tables, random_key
from trellis.bayesnet.inference.sampling.forward_sampling_kernels import BLOCK, forward
from trellis.bayesnet.inference.sampling.gibbs_kernels import run_chain
from trellis.core.arguments import RandomState, check_choice, check_int, generator
from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.shards import over_shards
from trellis.factors.flat_factors import FlatFactors, flatten, merge_nested
from trellis.factors.possible_states import ContradictionError, PossibleStates
from trellis.factors.tables import Table

BATCHES = 32  # of each chain; even, for R-hat compares halves
MIXED = 1.05  # R-hat above it is worth a warning
START_TRIES = 1000


def gibbs(
    question: Question,
    *,
    n_chains: int = 8,
    n_sweeps: int = 4096,
    burn_in: int = 512,
    zeros: Literal["refuse", "accept"] = "refuse",
    random_state: RandomState = None,
    n_jobs: int = 1,
) -> Estimate:
    """Gibbs sampling, for Bayesian networks and factor graphs.

    ``n_sweeps`` per chain is rounded up to a multiple of 32. ``zeros="accept"`` runs in spite of impossible
    configurations, which may make the chains miss parts of the distribution. Diagnostics: ``r_hat``
    (largest), ``effective_sample_size`` (smallest), ``n_chains``, ``n_sweeps``, ``burn_in``.
    """
    n_chains = check_int("n_chains", n_chains, 2)  # R-hat compares chains
    n_sweeps, burn_in = check_int("n_sweeps", n_sweeps, 1), check_int("burn_in", burn_in, 0)
    check_choice("zeros", zeros, ("refuse", "accept"))
    n_sweeps = -(-n_sweeps // BATCHES) * BATCHES
    tables, free = question.reduced_factors()
    try:
        allowed = PossibleStates(question.model.cardinalities.tolist(), tables).without_evidence
    except ContradictionError as error:
        raise question.impossible(error) from error
    if zeros == "refuse":
        _refuse_zeros(question, tables, allowed)
    rng = generator(random_state)
    factors = flatten(question.model.cardinalities, merge_nested(tables)[0])
    if question.model.directed:
        starts = _network_starts(question, n_chains, rng)
    else:
        starts = _graph_starts(question, factors, free, allowed, n_chains, rng)
    sums, squares = _run(question, factors, free, starts, burn_in, n_sweeps, rng, n_jobs)
    return _estimate(question, sums, squares, n_sweeps, burn_in)


def _refuse_zeros(question: Question, tables: Sequence[Table], allowed: Sequence[BoolArray]) -> None:
    for variables, values in tables:
        left = values[np.ix_(*(allowed[v] for v in variables))] if variables else values
        if not left.all():
            names = ", ".join(repr(question.variables.names[v]) for v in variables)
            raise UnsupportedError(
                f"the table over {names} holds zeros, so that Gibbs sampling may never leave the part of the "
                "distribution it starts in; use an exact method or likelihood weighting, or zeros='accept'"
            )


def _network_starts(question: Question, n_chains: int, rng: np.random.Generator) -> IntArray:
    """A possible state for each chain (n_chains, variables), spread wider than the distribution itself."""
    families = question.families()
    codes = np.zeros((len(families.observed), BLOCK), dtype=np.int32)
    log_weight, alive = np.empty(BLOCK), np.empty(BLOCK, dtype=np.int64)
    cumulative, key = cumulative_tables(families), random_key(rng)
    n = forward(families, cumulative, False, key, 0, BLOCK, codes, log_weight, alive)
    if n == 0:
        raise InfeasibleError(
            f"none of {BLOCK:,} samples makes the evidence possible, so that no chain can start: it is "
            "impossible or needs a rare state; use an exact method"
        )
    chosen = rng.choice(alive[:n], size=n_chains, replace=n < n_chains)
    return codes[: len(question.variables), chosen].T.astype(np.int64)


def _graph_starts(
    question: Question,
    factors: FlatFactors,
    free: Sequence[int],
    allowed: Sequence[BoolArray],
    n_chains: int,
    rng: np.random.Generator,
) -> IntArray:
    """The same for a factor graph: random states until none of its factors is zero."""
    starts = np.zeros((n_chains, len(question.variables)), dtype=np.int64)
    for v, state in question.evidence.items():
        starts[:, v] = state
    for start in starts:
        for _ in range(START_TRIES):
            for v in free:
                start[v] = rng.choice(np.flatnonzero(allowed[v]))
            if _is_possible(factors, start):
                break
        else:
            raise InfeasibleError(
                f"{START_TRIES:,} random assignments are all impossible, so that no chain can start; use "
                "an exact method"
            )
    return starts


def _is_possible(factors: FlatFactors, state: IntArray) -> bool:
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
    """Sums over the batches of all chains (chains, batches, cells), and squares over their halves."""
    n_chains, cells = len(starts), question.cells
    own_cell = np.full(starts.shape[1], -1)
    for scope, cell in zip(question.scopes, cells.value_start, strict=False):
        if len(scope) == 1 and scope[0] not in question.evidence:
            own_cell[scope[0]] = cell
    sums = np.zeros((n_chains, BATCHES, question.n_cells))
    squares = np.zeros((n_chains, 2, question.n_cells))
    order, key = np.array(free, dtype=np.int64), random_key(rng)

    def shard(first: int, last: int) -> None:
        for chain in range(first, last):
            stuck = run_chain(
                factors, order, cells, own_cell, key, chain, burn_in, n_sweeps, BATCHES,
                starts[chain], sums[chain], squares[chain],
            )  # fmt: skip
            if stuck >= 0:
                raise question.impossible(ContradictionError(stuck))

    over_shards(shard, np.arange(n_chains + 1), n_jobs)
    return sums, squares


def _estimate(
    question: Question, sums: FloatArray, squares: FloatArray, n_sweeps: int, burn_in: int
) -> Estimate:
    r_hat = float(split_r_hat(sums, squares, n_sweeps).max(initial=1.0))
    p, errors, effective = estimate_from_batches(sums, n_sweeps, question.known_cells())
    report = (
        f"{len(sums)} chains of {n_sweeps:,} sweeps after {burn_in:,}: R-hat at most {r_hat:.3f}, effective "
        f"sample size at least {effective:,.0f}"
    )
    mixed = r_hat <= MIXED
    if not mixed:
        report += "; the chains disagree, and the answer is not to be trusted: run longer, or an exact method"
    elif effective < FEW:
        report += "; that is little: run longer, or an exact method"
    diagnostics = {
        "r_hat": r_hat,
        "effective_sample_size": effective,
        "n_chains": len(sums),
        "n_sweeps": n_sweeps,
        "burn_in": burn_in,
    }
    return Estimate(p, errors, report, diagnostics, warning=not mixed or effective < FEW)
