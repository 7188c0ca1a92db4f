"""Parameters that several estimators and the command line share, declared once.

Nothing heavy is imported here: ``--help`` reads these lines.
"""

from __future__ import annotations

from trellis.core.parameters import Flag, Parameter, choice, integer, number

SOLVER = Parameter(
    "auto", '"auto", a name in :data:`trellis.solvers.SOLVERS`, or a solver object of :mod:`trellis.solvers`.'
)
L2 = Parameter(1.0, "Weight of half the squared norm; the direct objective does not use it.", number(0.0))
L1 = Parameter(0.0, "Weight of the sum of absolute weights.", number(0.0))
MAX_ITER = Parameter(
    None,
    "Most iterations (for online solvers, passes over the data); None is the solver's own limit.",
    integer(1, none=True),
)
TOL = Parameter(
    None, "Precision at which the solver stops; None is the solver's own tolerance.", number(0.0, none=True)
)
DELTA = Parameter(
    None,
    "L-BFGS and OWL-QN stop when ``period`` iterations lower the objective by less than this share of it, "
    "as CRFsuite does at 1e-5; None is the solver's own value, 0 switches the rule off.",
    number(0.0, none=True),
)
PERIOD = Parameter(
    None,
    "The number of iterations that ``delta`` looks back; None is the solver's own.",
    integer(1, none=True),
)
N_JOBS = Parameter(
    None,
    "Number of threads; None is 1, -1 all cores. Results agree to rounding for any number.",
    integer(none=True),
)
RANDOM_STATE = Parameter(None, "Seed of everything that is random: an integer, a generator or None.")
VERBOSE = Parameter(None, "Whether to show a progress bar; None shows it on a terminal.", Flag(none=True))

BACKEND = Parameter(
    None,
    "Where shards of the data are worked on: None (this process; see :func:`trellis.config_context`), "
    '"threads", "processes" or "processes:4", the address of a Dask scheduler, or a Dask client. The model '
    "is the same, to rounding.",
)
MAX_MEMORY = Parameter(
    None,
    'Of training on files: about how much memory this process may take, such as "2GB"; None is half of what '
    "is free. What does not fit is kept in temporary files.",
)
CHECKPOINT = Parameter(
    None,
    "A folder in which training is stored now and then: if anything stops it, the same call with the same "
    "data goes on from there, and ends in the same model.",
)

HOLDOUT = Parameter(
    "auto",
    'A fraction of the examples, or a pair (X, y), for early stopping; "auto" holds examples out for the '
    "direct objective only, whose regulariser they are: a fifth (five parts in turn, where they are few), "
    "or a tenth where epsilon is given.",
)
PATIENCE = Parameter(
    5, "Iterations without a smaller hold-out loss before training stops.", integer(minimum=1)
)
WARM_START = Parameter(False, "Whether to start from the weights of the last ``fit``.", Flag())

CONSTRAINTS = Parameter(
    None,
    '"bio", "bioes", or the allowed pairs of labels: what may follow what, in training and in prediction.',
)
TRANSITIONS = Parameter(
    "all",
    'Which labels may follow each other: "all", "observed" (as they do in the training data, and in no other '
    "way), a list of allowed pairs (previous, next), or a SciPy sparse matrix (K, K) of them in the order of "
    'the labels. Anything but "all" makes time and memory grow with the allowed pairs, not with K x K: for '
    "hundreds or thousands of labels.",
)
TEMPLATE = Parameter(None, "CRF++ template (a path or a ``Template``) for inputs made of columns of strings.")
TRANSITION_FEATURES = Parameter(
    (), "Names of features (columns of arrays) that also score transitions; True for all."
)
MIN_COUNT = Parameter(1, "Drop features that occur fewer times than this.", integer(minimum=1))
HASHING = Parameter(
    None,
    "Number of buckets, a power of two, of hashed features: no vocabulary is learned, names are not kept, "
    "and features whose hashes agree share their weights. None keeps all features separate.",
)
WEIGHTS = Parameter(
    "auto",
    '"observed" gives weights to the pairs of feature and label that occur, "all" to every pair; "auto" '
    "takes all pairs for arrays.",
    choice("auto", "observed", "all"),
)
BOUNDARIES = Parameter(True, "Whether the first and the last label have scores of their own.", Flag())
LATENT_STATES = Parameter(
    1,
    "Hidden states that each label owns, a number or {label: number}. The chain runs over states, and "
    "prediction maximises over them; training is not convex then, and starts at random weights.",
)
CLASS_WEIGHT = Parameter(
    None,
    '"balanced" or {label: weight}. Multiplies the costs of the loss; for objectives without a loss each '
    "sequence counts by the mean weight of its labels.",
)
