"""From samples to estimates of probabilities, with standard errors and intervals.

Independent particles with weights w (forward sampling), of which 1[t] says whether they are in a cell t:

    p = sum w 1[t] / sum w          P(evidence)  ~  mean w
    se^2 = sum w^2 (1[t] - p)^2 / (sum w)^2          effective sample size = (sum w)^2 / sum w^2

Chains (Gibbs sampling), each cut into batches; with c chains, batch means and chain means:

    se^2 = max(variance of the batch means / number of batches,  variance of the chain means / c)

with the effective sample size p (1 - p) / se^2: as many independent samples would be as exact. R-hat compares
the 2 c half-chains, of length n, mean variance W within and variance B / n of their means:

    R-hat^2 = ((n - 1) / n W + B / n) / W

A sampler that never met a cell (or met nothing else) would report an error of zero; for such cells the error
is that of a proportion under Jeffreys' prior instead,

    se = sqrt(q (1 - q) / (m + 2)),    q = (m p + 1/2) / (m + 1),    m = as many samples as the run is sure to
                                                                     be worth,

which is about 0.7 / m at p = 0.

Intervals do not rest on these errors, but on the weights inside and outside of a cell and on how large a
weight can be (:mod:`trellis.core.share_intervals`). Sweeps of chains are samples that count by
what they add to a cell, at most 1. With v the variance of that, s^2 that of their mean (the largest from
means over batches of several lengths, and larger where these means are few, by the square of the quantiles of
Student's t over those of the normal distribution), and n sweeps,

    tau = s^2 n / v      sweeps are worth one independent sample (at least one)
    r = v / (p (1 - p))  is the weight of such a sample, 1 if x is counted, less if p(x | others) is averaged
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.share_intervals import Tally, of_others

FEW = 100  # effective samples below which an estimate deserves a warning
LEAST_MEANS = 7  # of batches that make a variance
ROUNDING = 1e-14  # the spread that sums of a constant have


@dataclass(frozen=True, eq=False)
class Estimate:
    """Probabilities of the cells of a question, side by side. ``warning``: why not to rely on them."""

    values: FloatArray
    standard_errors: FloatArray
    report: str
    diagnostics: Mapping[str, Any]
    warning: bool = False
    tally: Tally | None = None


class WeightedSums(NamedTuple):
    """Sums over particles and, for each cell, over the particles in it; weights in units of exp(``top``)."""

    n_samples: int
    top: float
    weight: float
    weight_squared: float
    kept: int
    cell_weight: FloatArray
    cell_weight_squared: FloatArray

    @property
    def effective(self) -> float:
        return self.weight**2 / self.weight_squared

    def estimate(self, sure: float) -> tuple[FloatArray, FloatArray]:
        """The probability of each cell and its standard error; ``sure``: how many samples these are worth at
        least."""
        p = self.cell_weight / self.weight
        variance = self.cell_weight_squared * (1.0 - 2.0 * p) + p**2 * self.weight_squared
        errors = np.sqrt(np.maximum(variance, 0.0)) / self.weight
        return p, errors_of_unseen(p, errors, sure)

    def tally(self, bounds: FloatArray, starts: IntArray) -> Tally:
        """What intervals rest upon: ``bounds`` of the weight in each cell, and where scopes start."""
        inside = (self.cell_weight, self.cell_weight_squared, bounds)
        sums = (np.add, np.add, np.maximum)
        outside = (of_others(part, starts, total) for part, total in zip(inside, sums, strict=True))
        return Tally(*inside, *outside)

    def log_evidence(self) -> dict[str, float]:
        """log of the mean weight, and its standard error by the delta method: the spread of w over its mean.

        One sample tells nothing of the spread: NaN.
        """
        n, mean = self.n_samples, self.weight / self.n_samples
        spread = max(self.weight_squared / n - mean**2, 0.0)
        error = math.sqrt(spread / (n - 1)) / mean if n > 1 else math.nan
        return {"log_evidence": math.log(mean) + self.top, "log_evidence_standard_error": error}


class BatchEstimate(NamedTuple):
    """Probabilities, standard errors, the smallest effective sample size, and what intervals rest upon."""

    values: FloatArray
    errors: FloatArray
    effective: float
    tally: Tally


def estimate_from_batches(
    sums: FloatArray,
    squares: FloatArray,
    n_sweeps: int,
    known: BoolArray,
    possible: BoolArray,
    starts: IntArray,
) -> BatchEstimate:
    """From sums over the batches (chains, batches, cells) of chains of ``n_sweeps``, and squares over halves.

    ``known``: cells that are certain; ``possible``: those that do not contradict the evidence; ``starts``:
    where scopes start.
    """
    n_chains, n_batches, _ = sums.shape
    batch_means = sums / (n_sweeps / n_batches)
    p = batch_means.mean(axis=(0, 1))
    between_batches = batch_means.var(axis=(0, 1), ddof=1) / (n_chains * n_batches)
    between_chains = batch_means.mean(axis=1).var(axis=0, ddof=1) / n_chains
    errors = np.maximum(np.sqrt(np.maximum(between_batches, between_chains)), ROUNDING)
    uncertain = ~known & (errors > ROUNDING)
    sizes = (p * (1.0 - p))[uncertain] / errors[uncertain] ** 2
    effective = float(sizes.min()) if sizes.size else float(n_chains * n_sweeps)
    tally = _tally_of_chains(batch_means, squares, n_sweeps, uncertain, possible, starts)
    return BatchEstimate(p, errors_of_unseen(p, errors, effective), effective, tally)


def _tally_of_chains(
    batch_means: FloatArray,
    squares: FloatArray,
    n_sweeps: int,
    uncertain: BoolArray,
    possible: BoolArray,
    starts: IntArray,
) -> Tally:
    """Sweeps as samples of weight 1 at most, of which only every tau-th counts; tau and r as above."""
    n_chains, n_batches, n_cells = batch_means.shape
    n, p = n_chains * n_sweeps, batch_means.mean(axis=(0, 1))
    variance, length = np.zeros(n_cells), n_batches
    while n_chains * length > LEAST_MEANS:
        means = batch_means.reshape(n_chains, length, n_batches // length, n_cells).mean(axis=2)
        m = n_chains * length
        from scipy.special import ndtri, stdtrit  # here, for exact answers do without it

        surer = (stdtrit(m - 1, 0.975) / ndtri(0.975)) ** 2  # for a variance that is itself an estimate
        variance = np.maximum(variance, surer * means.var(axis=(0, 1), ddof=1) / m)
        if length % 2:
            break
        length //= 2
    apart = np.maximum(squares.sum(axis=(0, 1)) / n - p**2, 0.0)  # the variance of one sweep
    moving = uncertain & (apart > ROUNDING)
    tau = np.ones(n_cells)
    tau[moving] = np.maximum(1.0, variance[moving] * n / apart[moving])
    tau[~moving] = tau.max(initial=1.0)
    spread = p * (1.0 - p)
    r = np.clip(apart / np.where(spread > 0.0, spread, 1.0), 1.0 / n, 1.0)
    hits, misses = p * n / tau, of_others(p, starts, np.add) * n / tau
    bounds = possible.astype(np.float64)
    return Tally(hits, r * hits, bounds, misses, r * misses, of_others(bounds, starts, np.maximum))


def split_r_hat(sums: FloatArray, squares: FloatArray, n_sweeps: int) -> FloatArray:
    """R-hat of each cell from the sums over batches (chains, batches, cells) and the squares of halves."""
    n = n_sweeps // 2
    halves = sums.reshape(len(sums), 2, sums.shape[1] // 2, sums.shape[2]).sum(axis=2)
    means = halves / n
    within = np.maximum(squares / n - means**2, 0.0) * (n / (n - 1))
    W = within.mean(axis=(0, 1))
    between = means.var(axis=(0, 1), ddof=1)
    still = W <= ROUNDING
    ratio = ((n - 1) / n * W + between) / np.where(still, 1.0, W)
    moved = np.where(between > ROUNDING, np.inf, 1.0)
    r_hat: FloatArray = np.where(still, moved, np.sqrt(ratio))
    return r_hat


def errors_of_unseen(values: FloatArray, errors: FloatArray, effective: float) -> FloatArray:
    """``errors``, with the formula above at cells of probability 0 or 1."""
    q = (effective * values + 0.5) / (effective + 1.0)
    bound = np.sqrt(q * (1.0 - q) / (effective + 2.0))
    return np.where((values <= 0.0) | (values >= 1.0), bound, errors)
