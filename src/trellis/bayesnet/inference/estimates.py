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

    se = sqrt(q (1 - q) / (m + 2)),    q = (m p + 1/2) / (m + 1),    m = effective sample size,

which is about 0.7 / m at p = 0. Two standard errors to both sides are too little for a cell that was met a
few times only. The interval is Wilson's instead, of a proportion p of as many independent samples as have the
same standard error:

    (p + z^2 / 2m  +-  z sqrt(p (1 - p) / m + z^2 / 4m^2)) / (1 + z^2 / m),      m = p (1 - p) / se^2

with m = the effective sample size where p is 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray

FEW = 100  # effective samples below which an estimate deserves a warning
ROUNDING = 1e-14  # the spread that sums of a constant have


@dataclass(frozen=True, eq=False)
class Estimate:
    """Probabilities of the cells of a question, side by side. ``warning``: why not to rely on them."""

    values: FloatArray
    standard_errors: FloatArray
    report: str
    diagnostics: Mapping[str, Any]
    warning: bool = False


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

    def estimate(self) -> tuple[FloatArray, FloatArray]:
        """The probability of each cell and its standard error."""
        p = self.cell_weight / self.weight
        variance = self.cell_weight_squared * (1.0 - 2.0 * p) + p**2 * self.weight_squared
        errors = np.sqrt(np.maximum(variance, 0.0)) / self.weight
        return p, errors_of_unseen(p, errors, self.effective)

    def log_evidence(self) -> dict[str, float]:
        """log of the mean weight, and its standard error by the delta method: the spread of w over its mean.

        One sample tells nothing of the spread: NaN.
        """
        n, mean = self.n_samples, self.weight / self.n_samples
        spread = max(self.weight_squared / n - mean**2, 0.0)
        error = math.sqrt(spread / (n - 1)) / mean if n > 1 else math.nan
        return {"log_evidence": math.log(mean) + self.top, "log_evidence_standard_error": error}


def estimate_from_batches(
    sums: FloatArray, n_sweeps: int, known: BoolArray
) -> tuple[FloatArray, FloatArray, float]:
    """Probabilities, standard errors and the smallest effective sample size, from sums over the batches
    (chains, batches, cells) of chains of ``n_sweeps``. ``known``: cells that are certain."""
    n_chains, n_batches, _ = sums.shape
    batch_means = sums / (n_sweeps / n_batches)
    p = batch_means.mean(axis=(0, 1))
    between_batches = batch_means.var(axis=(0, 1), ddof=1) / (n_chains * n_batches)
    between_chains = batch_means.mean(axis=1).var(axis=0, ddof=1) / n_chains
    errors = np.maximum(np.sqrt(np.maximum(between_batches, between_chains)), ROUNDING)
    uncertain = ~known & (errors > ROUNDING)
    sizes = (p * (1.0 - p))[uncertain] / errors[uncertain] ** 2
    effective = float(sizes.min()) if sizes.size else float(n_chains * n_sweeps)
    return p, errors_of_unseen(p, errors, effective), effective


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


def wilson_interval(p: float, error: float, effective: float, z: float) -> tuple[float, float]:
    """The interval of a probability with this standard error; everything if the error is not known (NaN)."""
    if math.isnan(error):
        return 0.0, 1.0
    if error == 0.0:
        return p, p
    spread = p * (1.0 - p)
    m = spread / error**2 if spread > 0.0 else effective
    centre, half = p + z**2 / (2 * m), z * math.sqrt(spread / m + (z / (2 * m)) ** 2)
    return max(0.0, (centre - half) / (1 + z**2 / m)), min(1.0, (centre + half) / (1 + z**2 / m))
