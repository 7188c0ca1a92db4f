"""Input-output hidden Markov models: the estimator, and what its states emit."""

from trellis.hmm.input_output.gaussian_regression import GaussianRegression
from trellis.hmm.input_output.io_hmm import IOHMM
from trellis.hmm.input_output.softmax_emission import SoftmaxEmission

__all__ = ["IOHMM", "GaussianRegression", "SoftmaxEmission"]
