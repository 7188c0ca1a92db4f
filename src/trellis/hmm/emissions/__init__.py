"""Emissions: what the states of a hidden Markov model emit, each with its own M-step.

``Categorical``, ``Multinomial``, ``Poisson``, ``Gaussian``, ``GaussianMixture``, ``Product`` of several, and
``Emission``, the interface for your own (:func:`register` makes models that use it loadable).

Examples
--------
>>> from trellis import emissions
>>> coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
>>> coins.log_likelihood(coins.check([0])).round(3).tolist()
[[-0.105, -1.609]]
"""

from __future__ import annotations

from trellis.core.registration import register
from trellis.hmm.emissions.categorical import Categorical
from trellis.hmm.emissions.emission import Emission, Statistics
from trellis.hmm.emissions.gaussian import Gaussian
from trellis.hmm.emissions.gaussian_mixture import GaussianMixture
from trellis.hmm.emissions.multinomial import Multinomial
from trellis.hmm.emissions.poisson import Poisson
from trellis.hmm.emissions.product import Product

__all__ = [
    "Categorical",
    "Emission",
    "Gaussian",
    "GaussianMixture",
    "Multinomial",
    "Poisson",
    "Product",
    "Statistics",
    "register",
]
