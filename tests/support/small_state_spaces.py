"""Small random linear-Gaussian models, and every answer about them by conditioning one big Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis import LinearGaussian


def random_covariance(rng: np.random.Generator, k: int, rank: int | None = None) -> np.ndarray:
    root = rng.normal(size=(k, k if rank is None else rank))
    return root @ root.T / k


def random_parameters(
    rng: np.random.Generator, n: int, m: int, p: int = 0, steps: int | None = None, rank: int | None = None
) -> dict[str, Any]:
    """The ten parameters; with ``steps`` all that may vary with time do. ``rank`` is that of the noise Q."""

    def each(draw: Any) -> np.ndarray:
        return draw() if steps is None else np.array([draw() for _ in range(steps)])

    parameters = {
        "transition": each(lambda: rng.normal(size=(n, n)) * 0.7 / np.sqrt(n)),
        "observation": each(lambda: rng.normal(size=(m, n))),
        "transition_noise": each(lambda: random_covariance(rng, n, rank)),
        "observation_noise": each(lambda: random_covariance(rng, m) + 0.1 * np.eye(m)),
        "initial_mean": rng.normal(size=n),
        "initial_covariance": random_covariance(rng, n, rank),
        "transition_offset": each(lambda: rng.normal(size=n)),
        "observation_offset": each(lambda: rng.normal(size=m)),
    }
    if p:
        parameters["transition_control"] = each(lambda: rng.normal(size=(n, p)))
        parameters["observation_control"] = each(lambda: rng.normal(size=(m, p)))
    return parameters


@dataclass
class Dense:
    """The joint law of z_1 .. z_T and x_1 .. x_T, written down in full."""

    model: LinearGaussian
    length: int
    controls: np.ndarray

    def __post_init__(self) -> None:
        n, T = self.model.n_states, self.length
        m = np.shape(self.at("observation", 0))[0]
        z_mean, z_cov = np.zeros((T, n)), np.zeros((T, n, T, n))
        x_mean, H, R = np.zeros((T, m)), np.zeros((T, m, T, n)), np.zeros((T, m, T, m))
        for t in range(T):
            u = self.controls[t]
            if t == 0:
                z_mean[0], z_cov[0, :, 0] = self.at("initial_mean", 0), self.at("initial_covariance", 0)
            else:
                A, before = self.at("transition", t - 1), self.controls[t - 1]
                z_mean[t] = A @ z_mean[t - 1] + self.at("transition_control", t - 1) @ before
                z_mean[t] += self.at("transition_offset", t - 1)
                for s in range(t):
                    z_cov[t, :, s] = A @ z_cov[t - 1, :, s]
                    z_cov[s, :, t] = z_cov[t, :, s].T
                z_cov[t, :, t] = A @ z_cov[t - 1, :, t - 1] @ A.T + self.at("transition_noise", t - 1)
            H[t, :, t] = self.at("observation", t)
            R[t, :, t] = self.at("observation_noise", t)
            x_mean[t] = H[t, :, t] @ z_mean[t] + self.at("observation_control", t) @ u
            x_mean[t] += self.at("observation_offset", t)
        self.shape = T, n, m
        big_h = H.reshape(T * m, T * n)
        self.z_mean, self.z_cov = z_mean.ravel(), z_cov.reshape(T * n, T * n)
        self.x_mean = x_mean.ravel()
        self.zx_cov = self.z_cov @ big_h.T
        self.x_cov = big_h @ self.zx_cov + R.reshape(T * m, T * m)

    def at(self, name: str, t: int) -> np.ndarray:
        value = getattr(self.model, name)
        n, p = self.model.n_states, self.controls.shape[1]
        if value is None:
            m = np.shape(self.model.observation)[-2]
            rows = n if name.startswith("transition") else m
            return np.zeros((rows, p) if "control" in name else rows)
        value = np.asarray(value)
        base = 1 if "offset" in name or "mean" in name else 2
        return value[t] if value.ndim > base else value

    def log_density(self, x: np.ndarray) -> float:
        seen = ~np.isnan(x.ravel())
        gap = (x.ravel() - self.x_mean)[seen]
        cov = self.x_cov[np.ix_(seen, seen)]
        log_det = np.linalg.slogdet(2 * np.pi * cov)[1] if seen.any() else 0.0
        return float(-0.5 * (log_det + gap @ np.linalg.solve(cov, gap)))

    def states(self, x: np.ndarray, until: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean (T, n) and covariance (T, n, T, n) of all states given x_1 .. x_until."""
        T, n, _ = self.shape
        mean, cov = self._given(x, until, self.z_mean, self.z_cov, self.zx_cov)
        return mean.reshape(T, n), cov.reshape(T, n, T, n)

    def observations(self, x: np.ndarray, until: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean (T, m) and covariance (T, m, T, m) of all observations given x_1 .. x_until."""
        T, _, m = self.shape
        mean, cov = self._given(x, until, self.x_mean, self.x_cov, self.x_cov)
        return mean.reshape(T, m), cov.reshape(T, m, T, m)

    def _given(
        self, x: np.ndarray, until: int | None, mean: np.ndarray, cov: np.ndarray, with_x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        x = x.copy()
        if until is not None:
            x[until:] = np.nan
        seen = ~np.isnan(x.ravel())
        gain = np.linalg.solve(self.x_cov[np.ix_(seen, seen)], with_x[:, seen].T).T
        return mean + gain @ (x.ravel() - self.x_mean)[seen], cov - gain @ with_x[:, seen].T
