"""Where things are: the kinds of model files, their pages, and records that are imported on first use.

A file can name one of these, or what running code has registered
(:func:`trellis.core.registration.register`), and nothing else.
"""

from __future__ import annotations

# kind of a model file, which is the name of a class -> the module that defines it
KINDS = {
    "Aligner": "trellis.speech.align.aligner",
    "BayesianNetwork": "trellis.bayesnet.models",
    "FactorGraph": "trellis.bayesnet.models",
    "GraphLabeler": "trellis.structures.graph.labeler.graph_labeler",
    "HMM": "trellis.hmm.hidden_markov_model",
    "IOHMM": "trellis.hmm.input_output.io_hmm",
    "LinearGaussian": "trellis.statespace.linear_gaussian",
    "MEMM": "trellis.structures.chain.labeler.memm",
    "NeuralSequenceLabeler": "trellis.neural.labeler.neural_labeler",
    "SequenceLabeler": "trellis.structures.chain.labeler.sequence_labeler",
    "SpectralHMM": "trellis.hmm.spectral.spectral_hmm",
}

# kind of a model -> the module whose function of the same name writes its page
PAGES = {
    "Aligner": "trellis.report.pages.aligner_page",
    "BayesianNetwork": "trellis.report.pages.network_page",
    "GraphLabeler": "trellis.report.pages.graph_page",
    "HMM": "trellis.report.pages.hmm_page",
    "IOHMM": "trellis.report.pages.hmm_page",
    "LinearGaussian": "trellis.report.pages.kalman_page",
    "MEMM": "trellis.report.pages.labeler_page",
    "NeuralSequenceLabeler": "trellis.report.pages.labeler_page",
    "SequenceLabeler": "trellis.report.pages.labeler_page",
}

# records that a model may hold although its own module does not import them -> their module
RECORDS = {
    "solvers.AdaGrad": "trellis.solvers.online.stochastic",
    "solvers.Adam": "trellis.solvers.online.stochastic",
    "solvers.CCCP": "trellis.solvers.dc.cccp",
    "solvers.CuttingPlane": "trellis.solvers.planes.cutting_plane",
    "solvers.FineTuning": "trellis.solvers.online.fine_tuning",
    "solvers.FrankWolfe": "trellis.solvers.planes.frank_wolfe",
    "solvers.LBFGS": "trellis.solvers.quasi_newton.lbfgs",
    "solvers.MiniBatch": "trellis.solvers.online.minibatch",
    "solvers.OWLQN": "trellis.solvers.quasi_newton.owlqn",
    "solvers.PassiveAggressive": "trellis.solvers.online.passive_aggressive",
    "solvers.Perceptron": "trellis.solvers.online.perceptron",
    "solvers.SAG": "trellis.solvers.online.sag",
    "solvers.SGD": "trellis.solvers.online.stochastic",
    "solvers.Subgradient": "trellis.solvers.online.stochastic",
}
