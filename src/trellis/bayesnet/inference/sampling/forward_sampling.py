"""Sampling forwards: P(targets | evidence) from particles that run through the network, parents first.

*Rejection sampling* keeps the particles that agree with the evidence, each with weight 1; the share that is
kept estimates P(evidence). *Likelihood weighting* holds observed variables at their states and gives each
particle the weight w = product of P(observed state | sampled parents), so that none is thrown away:

    P(t | e)  ~  p = sum w 1[t] / sum w          P(e)  ~  mean w
    se(p)^2 = sum w^2 (1[t] - p)^2 / (sum w)^2   effective sample size = (sum w)^2 / sum w^2

Only ancestors of targets and evidence are sampled: the tables of all other variables sum to one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

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
from trellis.bayesnet.inference.model_factors import Families, Model, families
from trellis.bayesnet.inference.sampling.forward_sampling_kernels import (
    BLOCK,
    cumulate,
    draw_rows,
    estimate,
)
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.core.arguments import RandomState, check_int, generator
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.shards import over_shards

PARTS = 64  # sums are kept by part, and parts do not depend on threads: neither does their total
ROUND = 2**25  # states of particles that are drawn at a time where some are rejected
ENOUGH = 10**6  # particles after which it is known how many will be needed
MOST_TRIED = 10**9  # particles: minutes
FEW = 100  # effective samples below which an answer deserves a warning


def rejection(
    network: Model,
    targets: Targets,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    n_samples: int = 100_000,
    random_state: RandomState = None,
    n_jobs: int = 1,
) -> Answer:
    """Forward samples, those that contradict the evidence rejected.

    ``targets``: a variable, several jointly, or None for each unobserved variable by itself (a dictionary).
    ``likelihoods`` is soft evidence. Diagnostics: ``n_samples``, ``n_accepted``, ``rejected`` (a share),
    ``log_evidence`` and its standard error.
    """
    n_samples = check_int("n_samples", n_samples, 1)
    sums = _run(network, targets, evidence, likelihoods, True, n_samples, random_state, n_jobs)
    accepted = int(sums.kept)
    if accepted == 0:
        raise InfeasibleError(
            f"none of {n_samples:,} samples agrees with the evidence, which is impossible or too rare for "
            "rejection; use method='likelihood_weighting' or an exact method"
        )
    share = accepted / n_samples
    report = f"{accepted:,} of {n_samples:,} samples agreed with the evidence; {1 - share:.2%} were rejected"
    if accepted < FEW:
        report += "; few are left: take more samples, method='likelihood_weighting' or an exact method"
        warnings.warn(f"rejection: {report}", ApproximationWarning, stacklevel=2)
    diagnostics = {
        "n_samples": n_samples,
        "n_accepted": accepted,
        "rejected": 1.0 - share,
        "effective_sample_size": float(accepted),
        **_log_evidence(sums, n_samples),
    }
    return _answer(sums, "rejection", report, diagnostics)


def likelihood_weighting(
    network: Model,
    targets: Targets,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    n_samples: int = 100_000,
    random_state: RandomState = None,
    n_jobs: int = 1,
) -> Answer:
    """Samples with the evidence held fixed, weighted by its probability given the sampled parents.

    Arguments as for :func:`rejection`. Diagnostics: ``n_samples``, ``effective_sample_size``,
    ``log_evidence`` and its standard error.
    """
    n_samples = check_int("n_samples", n_samples, 1)
    sums = _run(network, targets, evidence, likelihoods, False, n_samples, random_state, n_jobs)
    if sums.kept == 0:
        raise InfeasibleError(
            f"all of {n_samples:,} samples give the evidence probability zero: it is impossible, or happens "
            "only where no sample came; use an exact method"
        )
    report = f"{n_samples:,} weighted samples are worth {sums.effective:,.0f} (effective sample size)"
    if sums.effective < FEW:
        report += "; the evidence is unlikely under the sampled causes: take more samples or an exact method"
        warnings.warn(f"likelihood weighting: {report}", ApproximationWarning, stacklevel=2)
    diagnostics = {
        "n_samples": n_samples,
        "effective_sample_size": sums.effective,
        **_log_evidence(sums, n_samples),
    }
    return _answer(sums, "likelihood_weighting", report, diagnostics)


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
    observed = network.variables.encode(evidence or {})
    everything, key = families(network, None, observed), random_key(random_state)
    if not observed:
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
    factors = everything.factors
    own = factors.cardinalities[factors.scope[factors.scope_start[1:] - 1]]
    out = np.empty_like(factors.values)
    cumulate(factors.values, factors.value_start, own, out)
    return out


class _Sums(NamedTuple):
    """Weights added up, in units of exp(top)."""

    question: Question
    top: float
    weight: float
    weight_squared: float
    kept: float
    sums: FloatArray
    squares: FloatArray

    @property
    def effective(self) -> float:
        return self.weight**2 / self.weight_squared


def _run(
    network: Model,
    targets: Targets,
    evidence: Evidence,
    likelihoods: Likelihoods,
    reject: bool,
    n_samples: int,
    random_state: RandomState,
    n_jobs: int,
) -> _Sums:
    if not isinstance(network, DirectedModel):
        raise UnsupportedError(
            "the factors of a factor graph have no order to sample in; use method='gibbs', 'loopy' or an "
            "exact one"
        )
    question = Question(network, targets, evidence, likelihoods)
    relevant = families(network, question.targets, question.evidence, question.likelihoods)
    cumulative, key = cumulative_tables(relevant), random_key(random_state)
    bounds = _bounds(n_samples)
    sums = np.zeros((len(bounds) - 1, question.n_cells))
    squares, totals = np.zeros_like(sums), np.zeros((len(bounds) - 1, 4))

    def shard(first: int, last: int) -> None:
        for part in range(first, last):
            estimate(
                relevant, cumulative, reject, question.cells, key, bounds[part], bounds[part + 1],
                sums[part], squares[part], totals[part],
            )  # fmt: skip

    over_shards(shard, np.arange(len(bounds)), n_jobs)
    top = totals[:, 0].max()
    scale = np.exp(totals[:, 0] - top) if top > -np.inf else np.zeros(len(totals))
    return _Sums(
        question, float(top), float(scale @ totals[:, 1]), float(scale**2 @ totals[:, 2]),
        float(totals[:, 3].sum()), scale @ sums, scale**2 @ squares,
    )  # fmt: skip


def _answer(sums: _Sums, method: str, report: str, diagnostics: Mapping[str, Any]) -> Answer:
    p = sums.sums / sums.weight
    variance = sums.squares * (1.0 - 2.0 * p) + p**2 * sums.weight_squared
    errors = np.sqrt(np.maximum(variance, 0.0)) / sums.weight
    return sums.question.answer(p, unseen_cells(p, errors, sums.effective), method, report, diagnostics)


def _log_evidence(sums: _Sums, n_samples: int) -> dict[str, float]:
    """log of the mean weight, and its standard error by the delta method: the spread of w over its mean.

    One sample tells nothing of the spread: NaN.
    """
    mean = sums.weight / n_samples
    spread = max(sums.weight_squared / n_samples - mean**2, 0.0)
    return {
        "log_evidence": float(np.log(mean)) + sums.top,
        "log_evidence_standard_error": float(np.sqrt(spread / (n_samples - 1)) / mean)
        if n_samples > 1
        else np.nan,
    }


def _bounds(n: int) -> IntArray:
    """The cuts between parts: whole blocks of particles, the same for any number of threads."""
    blocks = -(-n // BLOCK)
    cuts = np.linspace(0, blocks, min(PARTS, blocks) + 1).astype(np.int64) * BLOCK
    return np.minimum(cuts, n)
