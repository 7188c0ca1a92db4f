"""The options of ``trellis train``: a type for each, annotated with the sentence that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.options import Jobs as Jobs
from trellis.cli.options import argument, declared_option, option
from trellis.cli.places import Cluster as Cluster
from trellis.cli.places import LocalCluster as LocalCluster
from trellis.cli.places import MaxMemory as MaxMemory
from trellis.core.file_formats import FileFormat
from trellis.objectives import OBJECTIVES
from trellis.solvers import SOLVERS
from trellis.training import declarations as declared

Files = Annotated[
    list[str],
    argument("FILE...", "Labelled files, plain or gzip, or folders of them; - is standard input."),
]
Output = Annotated[str, option("-o --output MODEL", "Where to write the model; - is standard output.")]
Quiet = Annotated[bool, option("-q --quiet", "Print nothing but errors.")]

# The input
Format = Annotated[
    FileFormat | None, option("--format", "Format of the files; by default, detected from the first lines.")
]
LabelColumn = Annotated[
    str | None,
    option("--label-column COLUMN", "Column of the labels, counted from 0 (-1: last), or a CoNLL-U name."),
]
FeatureColumns = Annotated[
    str | None, option("--feature-columns COLUMNS", "Columns to predict from, such as 0,1; by default, all.")
]
Tabs = Annotated[bool, option("--tabs", "Only tabs separate columns, so fields may contain spaces.")]
Encoding = Annotated[str, option("--encoding NAME", "Character encoding of the files.")]

# Features
TemplateFile = Annotated[
    str | None, option("-t --template FILE", "CRF++ template file; by default, a built-in template.")
]
OutOfBounds = Annotated[
    str,
    option("--out-of-bounds pad|omit", "Past the ends of a sequence: pad as CRF++ does, or omit features."),
]
MinCount = Annotated[int, declared_option(declared.MIN_COUNT, "--min-count N")]
Hashing = Annotated[int | None, declared_option(declared.HASHING, "--hashing N")]
AllWeights = Annotated[
    bool, option("--all-weights", "Also learn weights for features and labels never seen together.")
]

# Learning
Objective = Annotated[str, option("--objective NAME", f"What to minimise: {', '.join(OBJECTIVES)}.")]
Loss = Annotated[str, option("--loss NAME", "Task loss: hamming, weighted_hamming, zero_one or span_f1.")]
SolverName = Annotated[str, option("--solver NAME", f"How to minimise it: auto, {', '.join(SOLVERS)}.")]
L2 = Annotated[float, declared_option(declared.L2, "--l2 X")]
L1 = Annotated[float, declared_option(declared.L1, "--l1 X")]
Epsilon = Annotated[
    str | None,
    option("--epsilon X", "Direct objective: auto (from the scores; default), a number, decay or holdout."),
]
Sign = Annotated[
    str | None,
    option(
        "--sign central|better|worse",
        "Direct objective: toward better labellings, away from worse ones, or both (central; default).",
    ),
]
Average = Annotated[
    bool, option("--average/--no-average", "Average the weights, if the solver can.", show_default=False)
]
ConstraintsOption = Annotated[
    str | None,
    option("--constraints NAME|FILE", "bio, bioes, or a file of allowed label pairs, one per line."),
]
TransitionsOption = Annotated[
    str,
    option(
        "--transitions NAME|FILE",
        "Which labels may follow each other: all, observed (those that do in the files), or a file of pairs, "
        "one per line. With hundreds of labels, anything but all is faster and smaller.",
    ),
]
LatentStates = Annotated[
    list[str] | None,
    option(
        "--latent-states N|LABEL=N", "Number of hidden states of every label, or of one (may be repeated)."
    ),
]
ClassWeight = Annotated[
    list[str] | None, option("--class-weight LABEL=X", "Weight of a label (may be repeated), or balanced.")
]
Seed = Annotated[int, option("--seed N", "Random seed.")]

# Stopping
MaxIter = Annotated[int | None, declared_option(declared.MAX_ITER, "--max-iter N")]
Tol = Annotated[float | None, declared_option(declared.TOL, "--tol X")]
Delta = Annotated[float | None, declared_option(declared.DELTA, "--delta X")]
Period = Annotated[int | None, declared_option(declared.PERIOD, "--period N")]
Holdout = Annotated[
    float | None, option("--holdout X", "Fraction of the sequences to hold out for early stopping.")
]
DevFile = Annotated[
    str | None, option("--dev FILE", "Labelled file for early stopping, instead of --holdout.")
]
Checkpoint = Annotated[
    str | None,
    option(
        "--checkpoint DIR",
        "Folder for the state of training: if anything stops it, the same command resumes from there.",
    ),
]
Patience = Annotated[int, declared_option(declared.PATIENCE, "--patience N")]
