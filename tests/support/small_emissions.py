"""One small example of every emission: parameters, a record, and values with missing entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.hmm.emissions import (
    Categorical,
    Emission,
    Gaussian,
    GaussianMixture,
    Multinomial,
    Poisson,
    Product,
)

COVARIANCES = ("diag", "spherical", "full", "tied")
NAMES = (
    "categorical",
    "categorical map",
    "multinomial",
    "multinomial map",
    "poisson",
    "poisson map",
    *COVARIANCES,
    *(f"{kind} map" for kind in COVARIANCES),
    *(f"{kind} mean" for kind in COVARIANCES),
    *(f"mixture {kind}" for kind in (*COVARIANCES, "state")),
    "mixture diag mean",
    "mixture state mean",
    "product",
)


def definite(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    a = rng.normal(size=(n, d, d))
    return a @ a.transpose(0, 2, 1) / d + 0.4 * np.eye(d)


def covariances_of(kind: str, rng: np.random.Generator, k: int, d: int) -> np.ndarray:
    if kind == "diag":
        return rng.gamma(3.0, 0.4, (k, d))
    if kind == "spherical":
        return rng.gamma(3.0, 0.4, k)
    return definite(rng, k, d) if kind == "full" else definite(rng, 1, d)[0]


def gaussian(kind: str, rng: np.random.Generator, k: int = 3, d: int = 3, **options: Any) -> Gaussian:
    return Gaussian(kind, rng.normal(scale=2.0, size=(k, d)), covariances_of(kind, rng, k, d), **options)


def mixture(
    kind: str, rng: np.random.Generator, k: int = 3, c: int = 2, d: int = 3, **options: Any
) -> GaussianMixture:
    flat = covariances_of("full" if kind == "state" else kind, rng, k if kind == "state" else k * c, d)
    return GaussianMixture(
        c,
        kind,
        weights=rng.dirichlet(np.ones(c), k),
        means=rng.normal(scale=2.0, size=(k, c, d)),
        covariances=flat if kind in ("tied", "state") else flat.reshape(k, c, *flat.shape[1:]),
        **options,
    )


def example(name: str, seed: int = 0, n: int = 150) -> tuple[Emission, np.ndarray]:
    """A record with parameters, and checked values drawn from it with a fifth of the entries missing."""
    rng = np.random.default_rng(seed)
    kind = name.split()[0]
    prior: dict[str, Any] = {"prior_weight": 3.0, "prior_variance": 0.7} if "map" in name else {}
    if "mean" in name:
        shape = (3, 2, 3) if kind == "mixture" else (3, 3)
        prior = {"prior_mean": rng.normal(size=shape), "prior_mean_weight": 4.0, "prior_weight": 2.0}
    emission: Emission
    if kind == "categorical":
        emission = Categorical(5, rng.dirichlet(np.ones(5), 3), pseudocount=0.5 if "map" in name else 0.0)
    elif kind == "multinomial":
        pseudocount = 0.5 if "map" in name else 0.0
        emission = Multinomial(4, rng.dirichlet(np.ones(4), 3), pseudocount, n_trials=7)
    elif kind == "poisson":
        gamma = {"prior_shape": 2.0, "prior_rate": 0.5} if "map" in name else {}
        emission = Poisson(rng.gamma(3.0, 1.0, (3, 2)), **gamma)
    elif kind == "mixture":
        emission = mixture(name.split()[1], rng, **prior)
    elif kind == "product":
        emission = Product(
            {
                2: Categorical(4, rng.dirichlet(np.ones(4), 3)),
                (0, 3): gaussian("full", rng, d=2),
                1: Poisson(rng.gamma(3.0, 1.0, 3)),
            }
        )
    else:
        emission = gaussian(kind, rng, **prior)
    values = emission.sample(rng.integers(0, 3, n), rng).astype(float)
    rows = kind == "multinomial"  # whose rows are missing as a whole
    values[rng.random(values.shape[: 1 if rows else None]) < 0.2] = np.nan
    values[0] = np.nan
    return emission, emission.check(values)


def posterior_of(n: int, k: int = 3, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(k), n)


def add(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    assert a.keys() == b.keys()
    return {name: a[name] + b[name] for name in a}


def entropy_of(statistics: dict[str, np.ndarray]) -> float:
    return float(statistics.get("entropy", 0.0))
