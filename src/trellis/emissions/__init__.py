"""Emissions: what the states of a hidden Markov model emit, each with its own M-step.

``Categorical``, ``Poisson``, ``Gaussian``, ``GaussianMixture``, ``Product`` of several, and ``Emission``, the
interface for your own (:func:`register` makes models that use it loadable).
"""

from __future__ import annotations

from trellis.emissions.categorical import Categorical
from trellis.emissions.emission import Emission, Statistics
from trellis.emissions.gaussian import Gaussian
from trellis.emissions.gaussian_mixture import GaussianMixture
from trellis.emissions.poisson import Poisson
from trellis.emissions.product import Product
from trellis.emissions.registry import emission_from_state, emission_to_state, register

__all__ = [
    "Categorical",
    "Emission",
    "Gaussian",
    "GaussianMixture",
    "Poisson",
    "Product",
    "Statistics",
    "emission_from_state",
    "emission_to_state",
    "register",
]

for _kind in (Categorical, Gaussian, GaussianMixture, Poisson, Product):
    register(_kind)
