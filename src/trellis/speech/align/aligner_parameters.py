"""The parameters of an aligner, declared once for the class and for the command line.

Nothing heavy is imported here: ``--help`` reads these lines.
"""

from __future__ import annotations

from trellis.core.parameters import Flag, Parameter, choice, integer, number
from trellis.objectives.records import names

OBJECTIVE = Parameter("direct", f"Training objective: {names('for_oracles')}.")
LOSS = Parameter(
    "tau_alignment",
    'Task loss: "tau_alignment" (share of boundaries off by more than ``tau_ms``) or "tau_insensitive" (mean '
    "excess over it).",
    choice("tau_alignment", "tau_insensitive", others="an alignment loss"),
)
TAU_MS = Parameter(10.0, "Tolerance of the loss in ms.", number(0.0))
CLASSIFIER = Parameter(
    "convolutional",
    "What recognises phones in frames: one convolutional network for everything, or a frame classifier.",
    choice("convolutional", "mlp", "linear", "passive_aggressive", "torch", others="a record of its options"),
)
BOUNDARIES = Parameter(
    None, "Options of the boundary classifier beside a frame classifier (``BoundaryOptions``)."
)
FEATURES = Parameter(
    "standard", 'Feature map: "standard", "paper" (the seven of 2007), "all", or a list of names.'
)
FOLD = Parameter(
    "none",
    "Which phones share a class: each its own, TIMIT's tables, or by articulation.",
    choice("none", "timit48", "timit39", "broad", "voiced", "detailed", others="a dict"),
)
ALPHABET = Parameter(
    "auto",
    "Alphabet of the labels; auto guesses it from all of them.",
    choice("auto", "ipa", "arpabet", "xsampa"),
)
UNKNOWN_PHONES = Parameter(
    "error",
    "What to do with labels that are not phones: an error, a class of their own (other), or noise.",
    choice("error", "other", "noise"),
)
STEP_MS = Parameter(10.0, "Time from frame to frame in ms.", number(0.0, above=True))
FRAMES = Parameter(None, "Frame options (``FrameOptions``); None takes those that suit the classifier.")
SHORTEST_MS = Parameter(10.0, "Minimum duration of a phone in ms.", number(0.0, above=True))
SOLVER = Parameter("auto", 'Solver: "auto", or one that suits the objective, such as "frank_wolfe".')
EPSILON = Parameter(
    "auto",
    'Step of the direct objective: "auto" (falls from a size measured on wrong alignments), a number, '
    '"decay", or "holdout" to search for the best number.',
)
MAX_ITER = Parameter(
    20, "Maximum number of passes over the utterances (batch solvers: at least 40 iterations).", integer(1)
)
L2 = Parameter(1e-3, "Weight of half the squared norm of the weights.", number(0.0))
AVERAGE = Parameter(True, "Whether online solvers average their weights.", Flag())
START = Parameter(
    "log",
    'Where a non-convex objective starts: "log" (warm start from the maximum likelihood) or "zero".',
    choice("log", "zero"),
)
SPLIT = Parameter(
    (0.7, 0.2, 0.1), "Fractions of the utterances, or their ids, for classifiers, weights and hold-out."
)
CROSS_FIT = Parameter(
    0, "Number of folds, so that every recording serves classifiers and weights; 0: none.", integer(0)
)
REFINE = Parameter(
    "auto",
    'Whether boundaries lie between frames: "always", "never", or "auto" (held-out references decide).',
    choice("auto", "always", "never", others="True or False"),
)
DECODING = Parameter(
    "tolerance",
    'Which boundaries are the answer: "tolerance" (each most probably within ``tolerances_ms``) or '
    '"best_path" (the most probable alignment as a whole).',
    choice("tolerance", "best_path"),
)
TOLERANCE = number(0.0, above=True)
TOLERANCES_MS = Parameter((10.0, 20.0), "Tolerances in ms that boundaries are to be within, on average.")
RANDOM_STATE = Parameter(0, "Seed of everything that is random.", integer(0))
