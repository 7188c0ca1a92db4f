"""Sampling forwards: particles that run through a network, parents first.

*Rejection sampling* keeps the particles that agree with the evidence, each with weight 1; the share that is
kept estimates P(evidence). *Likelihood weighting* holds observed variables at their states and gives each
particle the weight w = product of P(observed state | sampled parents), so that none is thrown away.
:mod:`trellis.bayesnet.inference.estimates` makes probabilities and their errors of the weights.

Only ancestors of targets and evidence are sampled: the tables of all other variables sum to one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.inference.estimates import FEW, Estimate, WeightedSums
from trellis.bayesnet.inference.question import Evidence, Families, Question
from trellis.bayesnet.inference.sampling.forward_sampling_kernels import (
    BLOCK,
    cumulate,
    draw_rows,
    estimate,
)
from trellis.bayesnet.inference.sampling.weight_bounds import log_weight_bounds
from trellis.bayesnet.model.data_frames import Output, decode_frame
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.core.arguments import RandomState, check_int, generator
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.shards import over_shards
from trellis.core.share_intervals import LARGEST

SURE = 10  # particles of the largest possible weight; where all are worth less, intervals say little
PARTS = 64  # sums are kept by part, and parts do not depend on threads: neither does their total
ROUND = 2**25  # states of particles that are drawn at a time where some are rejected
ENOUGH = 10**6  # particles after which it is known how many will be needed
MOST_TRIED = 10**9  # particles: minutes


def rejection(
    question: Question, *, n_samples: int = 100_000, random_state: RandomState = None, n_jobs: int = 1
) -> Estimate:
    """Forward samples, those that contradict the evidence rejected.

    Diagnostics: ``n_samples``, ``n_accepted``, ``rejected`` (a share), ``effective_sample_size``,
    ``log_evidence`` and its standard error.
    """
    sums = _run(question, True, n_samples, random_state, n_jobs)
    if sums.kept == 0:
        raise InfeasibleError(
            f"none of {n_samples:,} samples agrees with the evidence, which is impossible or too rare for "
            "rejection; use method='likelihood_weighting' or an exact method"
        )
    rejected = 1.0 - sums.kept / sums.n_samples
    report = f"{sums.kept:,} of {n_samples:,} samples agreed with the evidence; {rejected:.2%} were rejected"
    advice = "few are left: use more samples, method='likelihood_weighting' or an exact method"
    log_bounds = np.where(question.possible_cells(), 0.0, -np.inf)
    figures = {"n_accepted": sums.kept, "rejected": rejected}
    return _estimate(question, sums, log_bounds, report, advice, figures)


def likelihood_weighting(
    question: Question, *, n_samples: int = 100_000, random_state: RandomState = None, n_jobs: int = 1
) -> Estimate:
    """Samples with the evidence held fixed, weighted by its probability given the sampled parents.

    Diagnostics: ``n_samples``, ``effective_sample_size``, ``log_evidence`` and its standard error.
    """
    sums = _run(question, False, n_samples, random_state, n_jobs)
    if sums.kept == 0:
        raise InfeasibleError(
            f"all of {n_samples:,} samples give the evidence probability zero: it is impossible, or happens "
            "only where no sample came; use an exact method"
        )
    report = f"{n_samples:,} weighted samples are worth {sums.effective:,.0f} (effective sample size)"
    advice = "the evidence is unlikely under the sampled causes: use more samples or an exact method"
    return _estimate(question, sums, log_weight_bounds(question), report, advice, {})


def _estimate(
    question: Question,
    sums: WeightedSums,
    log_bounds: FloatArray,
    report: str,
    advice: str,
    figures: dict[str, float],
) -> Estimate:
    bounds = np.exp(np.minimum(log_bounds - sums.top, np.log(LARGEST)))
    sure = float(sums.weight / bounds.max(initial=1.0))
    few = sums.effective < FEW
    if few:
        report += f"; {advice}"
    elif sure < SURE:
        report += (
            f", but one that was not drawn could outweigh all of them {1 / sure:.2g} times, so that "
            f"intervals are wide: {advice}"
        )
    values, errors = sums.estimate(sure)
    diagnostics = {
        "n_samples": sums.n_samples,
        **figures,
        "effective_sample_size": sums.effective,
        "sure_sample_size": sure,
        **sums.log_evidence(),
    }
    tally = sums.tally(bounds, question.cells.value_start)
    return Estimate(values, errors, report, diagnostics, warning=few or sure < SURE, tally=tally)


def sample(
    network: DirectedModel,
    n: int,
    *,
    evidence: Evidence = None,
    random_state: RandomState = None,
    output: Output = "columns",
    n_jobs: int = 1,
) -> Any:
    """``n`` independent rows: a dictionary of columns, which makes a frame of any library, or ``output``.

    ``evidence`` (``{variable: state}``): rows of the distribution given it, by rejection. ``output``:
    "columns", "pandas", "polars", or "codes" for an array of the numbers of the states. One seed gives the
    same rows for any ``n_jobs``, and the first rows of a longer sample.
    """
    return decode_frame(network.variables, sample_codes(network, n, random_state, n_jobs, evidence), output)


def sample_codes(
    network: DirectedModel,
    n: int,
    random_state: RandomState = None,
    n_jobs: int = 1,
    evidence: Evidence = None,
) -> NDArray[np.int32]:
    """``n`` independent rows (rows, variables) of numbers of states, from the distribution given evidence.

    Rows that contradict the evidence are rejected: the first ``n`` that do not are the sample, however many
    are drawn at a time.
    """
    n = check_int("n", n, 0)
    question = Question(network, None, evidence)
    everything, key = question.families(), random_key(random_state)
    if not question.evidence:
        return _draw(everything, key, 0, n, len(network.names), n_jobs)
    found, tried, kept = [np.empty((0, len(network.names)), dtype=np.int32)], 0, 0
    while kept < n:
        more = min(max(n, tried, BLOCK), ENOUGH, ROUND // len(network.names))
        found.append(_draw(everything, key, tried, tried + more, len(network.names), n_jobs))
        tried, kept = tried + more, kept + len(found[-1])
        if tried >= ENOUGH and n * tried > kept * MOST_TRIED:
            raise UnsupportedError(
                f"{kept:,} of {tried:,} samples agree with the evidence, which is impossible or too rare for "
                f"{n:,} by rejection; ask for fewer rows or less evidence"
            )
    return np.concatenate(found)[:n]


def _draw(
    everything: Families, key: np.uint64, first: int, last: int, n_variables: int, n_jobs: int
) -> NDArray[np.int32]:
    """The particles ``first`` .. ``last - 1`` that agree with the evidence, in their order."""
    cumulative, bounds = cumulative_tables(everything), first + _bounds(last - first)
    rows = np.empty((last - first, n_variables), dtype=np.int32)

    def shard(begin: int, end: int) -> NDArray[np.int32]:
        part = rows[bounds[begin] - first : bounds[end] - first]
        return part[: draw_rows(everything, cumulative, key, bounds[begin], bounds[end], part)]

    parts = over_shards(shard, np.arange(len(bounds)), n_jobs)
    return rows if sum(len(part) for part in parts) == len(rows) else np.concatenate(parts)


def random_key(random_state: RandomState) -> np.uint64:
    """Where the sequence of uniform numbers of a run starts."""
    return generator(random_state).integers(2**63, dtype=np.uint64)


def cumulative_tables(everything: Families) -> FloatArray:
    """Running sums along the rows of all tables."""
    factors = everything.factors
    own = factors.cardinalities[factors.scope[factors.scope_start[1:] - 1]]
    out = np.empty_like(factors.values)
    cumulate(factors.values, factors.value_start, own, out)
    return out


def _run(
    question: Question, reject: bool, n_samples: int, random_state: RandomState, n_jobs: int
) -> WeightedSums:
    n_samples = check_int("n_samples", n_samples, 1)
    relevant, key = question.families(), random_key(random_state)
    cumulative, cells, bounds = cumulative_tables(relevant), question.cells, _bounds(n_samples)
    sums = np.zeros((len(bounds) - 1, question.n_cells))
    squares, totals = np.zeros_like(sums), np.zeros((len(bounds) - 1, 4))

    def shard(first: int, last: int) -> None:
        for part in range(first, last):
            estimate(
                relevant, cumulative, reject, cells, key, bounds[part], bounds[part + 1],
                sums[part], squares[part], totals[part],
            )  # fmt: skip

    over_shards(shard, np.arange(len(bounds)), n_jobs)
    top, weight, weight_squared, kept = totals.T
    highest = top.max()
    scale = np.exp(top - highest) if highest > -np.inf else np.zeros(len(totals))
    return WeightedSums(
        n_samples, float(highest), float(scale @ weight), float(scale**2 @ weight_squared),
        int(kept.sum()), scale @ sums, scale**2 @ squares,
    )  # fmt: skip


def _bounds(n: int) -> IntArray:
    """The cuts between parts: whole blocks of particles, the same for any number of threads."""
    blocks = -(-n // BLOCK)
    cuts = np.linspace(0, blocks, min(PARTS, blocks) + 1).astype(np.int64) * BLOCK
    return np.minimum(cuts, n)
