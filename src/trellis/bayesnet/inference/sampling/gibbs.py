"""Gibbs sampling: several chains that redraw one variable, or one block of variables, given all others.

Chains start at different places and run for ``burn_in`` sweeps before they count. Each is cut into batches,
from which :mod:`trellis.bayesnet.inference.estimates` makes probabilities, their errors and R-hat. Values of
R-hat above 1.01 or so say that the chains have not forgotten where they started. Impossible configurations
(zeros in tables) could keep them from forgetting it, and R-hat from noticing. So variables between which
there are zeros are drawn in blocks (:mod:`.gibbs_blocks`), which makes every chain irreducible. Where a block
would be too large, zeros are an error unless they are accepted; then there is always a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.inference.estimates import FEW, Estimate, estimate_from_batches, split_r_hat
from trellis.bayesnet.inference.question import Question
from trellis.bayesnet.inference.sampling.forward_sampling import cumulative_tables, random_key
from trellis.bayesnet.inference.sampling.forward_sampling_kernels import BLOCK, forward
from trellis.bayesnet.inference.sampling.gibbs_blocks import Grouping, group_variables, lay_out_blocks
from trellis.bayesnet.inference.sampling.gibbs_kernels import run_chain
from trellis.core.arguments import RandomState, check_choice, check_int, generator
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.shards import over_shards
from trellis.core.share_intervals import of_others
from trellis.factors.flat_factors import FlatFactors, flatten, merge_nested
from trellis.factors.possible_states import Allowed, ContradictionError, PossibleStates

BATCHES = 32  # of each chain; even, for R-hat compares halves
MIXED = 1.05  # R-hat above it is worth a warning
START_TRIES = 100


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

    ``n_sweeps`` per chain is rounded up to a multiple of 32. ``zeros="accept"`` runs, with a warning, even
    where zeros tie too many variables to each other for a block, and chains may miss parts of the
    distribution. Diagnostics: ``r_hat`` (largest), ``effective_sample_size`` (smallest), ``n_chains``,
    ``n_sweeps``, ``burn_in``, ``largest_block`` (variables), ``irreducible`` (known to be).
    """
    n_chains = check_int("n_chains", n_chains, 2)  # R-hat compares chains
    n_sweeps, burn_in = check_int("n_sweeps", n_sweeps, 1), check_int("burn_in", burn_in, 0)
    check_choice("zeros", zeros, ("refuse", "accept"))
    n_sweeps = -(-n_sweeps // BATCHES) * BATCHES
    tables, free = question.reduced_factors()
    possible = PossibleStates(question.model.cardinalities.tolist(), tables)
    try:
        allowed = possible.without_evidence
    except ContradictionError as error:
        raise question.impossible(error) from error
    grouping = group_variables(
        question.model.cardinalities, tables, free, allowed, all_zeros=zeros == "refuse"
    )
    if grouping.apart and zeros == "refuse":
        raise UnsupportedError(
            f"zeros tie {_names(question, grouping.apart)} to so many other variables that they cannot be "
            "drawn at once, and Gibbs sampling may never leave the part of the distribution it starts in; "
            "use an exact method or likelihood weighting, or zeros='accept'"
        )
    rng = generator(random_state)
    factors = flatten(question.model.cardinalities, merge_nested(tables)[0])
    starts = _starts(question, possible, free, bool(grouping.apart), n_chains, rng)
    sums, squares = _run(question, factors, grouping, starts, burn_in, n_sweeps, rng, n_jobs)
    return _estimate(question, grouping, sums, squares, n_sweeps, burn_in)


def _names(question: Question, variables: Sequence[int]) -> str:
    return ", ".join(repr(question.variables.names[v]) for v in variables)


def _starts(
    question: Question,
    possible: PossibleStates,
    free: Sequence[int],
    must_be_possible: bool,
    n_chains: int,
    rng: np.random.Generator,
) -> IntArray:
    """A state for each chain (n_chains, variables), spread wider than the distribution itself.

    Forward samples in a network, else random states. A block is drawn without regard to what it was, so that
    with blocks for all zeros the first sweep makes any start possible; else a start is looked for that is.
    """
    if question.model.directed:
        codes, alive = _forward(question, rng)
        if len(alive):
            chosen = rng.choice(alive, size=n_chains, replace=len(alive) < n_chains)
            return codes[: len(question.variables), chosen].T.astype(np.int64)
    starts = np.zeros((n_chains, len(question.variables)), dtype=np.int64)
    for v, state in question.evidence.items():
        starts[:, v] = state
    for start in starts:
        allowed = _possible_start(possible, free, rng) if must_be_possible else possible.without_evidence
        for v in free:
            start[v] = rng.choice(np.flatnonzero(allowed[v]))
    return starts


def _possible_start(possible: PossibleStates, free: Sequence[int], rng: np.random.Generator) -> Allowed:
    """One state for each variable: random ones, each with all that follows from it by arc consistency."""
    for _ in range(START_TRIES):
        allowed = possible.without_evidence
        try:
            for v in rng.permutation(free).tolist():
                states = np.flatnonzero(allowed[v])
                if len(states) > 1:
                    allowed = possible.narrowed(allowed, v, int(rng.choice(states)))
        except ContradictionError:
            continue
        return allowed
    raise InfeasibleError(
        f"no possible assignment was found in {START_TRIES} attempts, so no chain can start; use an exact "
        "method"
    )


def _forward(question: Question, rng: np.random.Generator) -> tuple[NDArray[np.int32], IntArray]:
    """A block of forward samples (variables, samples), and which of them make the evidence possible."""
    families = question.families()
    codes = np.zeros((len(families.observed), BLOCK), dtype=np.int32)
    log_weight, alive = np.empty(BLOCK), np.empty(BLOCK, dtype=np.int64)
    cumulative, key = cumulative_tables(families), random_key(rng)
    n = forward(families, cumulative, False, key, 0, BLOCK, codes, log_weight, alive)
    return codes, alive[:n]


def _run(
    question: Question,
    factors: FlatFactors,
    grouping: Grouping,
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
    blocks, numbers, key = lay_out_blocks(factors, grouping.groups), np.exp(factors.values), random_key(rng)

    def shard(first: int, last: int) -> None:
        for chain in range(first, last):
            stuck = run_chain(
                factors, numbers, blocks, cells, own_cell, key, chain, burn_in, n_sweeps, BATCHES,
                starts[chain], sums[chain], squares[chain],
            )  # fmt: skip
            if stuck >= 0:
                raise question.impossible(ContradictionError(stuck))

    over_shards(shard, np.arange(n_chains + 1), n_jobs)
    return sums, squares


def _estimate(
    question: Question, grouping: Grouping, sums: FloatArray, squares: FloatArray, n_sweeps: int, burn_in: int
) -> Estimate:
    cells, apart = split_r_hat(sums, squares, n_sweeps), bool(grouping.apart)
    r_hat = float(cells.max(initial=1.0))
    starts = question.cells.value_start
    found = estimate_from_batches(
        sums, squares, n_sweeps, question.known_cells(), question.possible_cells(), starts
    )
    refused = (np.maximum(cells, of_others(cells, starts, np.maximum)) > MIXED) | apart
    report = (
        f"{len(sums)} chains of {n_sweeps:,} sweeps after {burn_in:,}: R-hat at most {r_hat:.3f}, effective "
        f"sample size at least {found.effective:,.0f}"
    )
    mixed, doubtful = r_hat <= MIXED, grouping.apart or grouping.loose
    if not mixed:
        report += "; the chains disagree, so do not trust the answer: run longer, or use an exact method"
    elif doubtful:
        report += (
            f"; (nearly) deterministic tables, such as one over {_names(question, doubtful)}, may keep all "
            "chains in the same part of the distribution, which none of these figures shows: compare with an "
            "exact method or likelihood weighting"
        )
    elif found.effective < FEW:
        report += "; that is few: run longer, or use an exact method"
    diagnostics = {
        "r_hat": r_hat,
        "effective_sample_size": found.effective,
        "n_chains": len(sums),
        "n_sweeps": n_sweeps,
        "burn_in": burn_in,
        "largest_block": max(map(len, grouping.groups), default=0),
        "irreducible": not apart,
    }
    warning = not mixed or bool(doubtful) or found.effective < FEW
    return Estimate(
        found.values, found.errors, report, diagnostics, warning=warning, tally=found.tally.without(refused)
    )
