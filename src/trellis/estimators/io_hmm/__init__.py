"""Input-output hidden Markov models: the estimator, and what its states emit."""

from trellis.estimators.io_hmm.gaussian_regression import GaussianRegression
from trellis.estimators.io_hmm.io_hmm import IOHMM
from trellis.estimators.io_hmm.softmax_emission import SoftmaxEmission

__all__ = ["IOHMM", "GaussianRegression", "SoftmaxEmission"]
