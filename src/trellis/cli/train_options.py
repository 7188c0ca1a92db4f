"""The options of ``trellis train``: a type for each, annotated with the sentence that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.options import Jobs as Jobs
from trellis.cli.options import argument, declared_option, option
from trellis.data.file_formats import FileFormat
from trellis.objectives import OBJECTIVES
from trellis.solvers import SOLVERS
from trellis.training import declarations as declared

File = Annotated[str, argument("FILE", "Labelled file, plain or gzip; - reads standard input.")]
Output = Annotated[str, option("-o --output MODEL", "Where to write the model; - is standard output.")]
Quiet = Annotated[bool, option("-q --quiet", "Print nothing but errors.")]

# The input
Format = Annotated[
    FileFormat | None, option("--format", "Format of the file; detected from its first lines if not given.")
]
LabelColumn = Annotated[
    str | None,
    option("--label-column COLUMN", "Column of the labels, from 0 (-1: the last), or a CoNLL-U name."),
]
FeatureColumns = Annotated[
    str | None, option("--feature-columns COLUMNS", "Columns to predict from, for instance 0,1; else all.")
]
Tabs = Annotated[bool, option("--tabs", "Only tabs separate columns, so fields may contain spaces.")]
Encoding = Annotated[str, option("--encoding NAME", "Character encoding of the files.")]

# Features
TemplateFile = Annotated[
    str | None, option("-t --template FILE", "CRF++ template file; a built-in one if not given.")
]
OutOfBounds = Annotated[
    str,
    option("--out-of-bounds pad|omit", "Past the ends of a sequence: pad, as CRF++, or omit the feature."),
]
MinCount = Annotated[int, declared_option(declared.MIN_COUNT, "--min-count N")]
AllWeights = Annotated[
    bool, option("--all-weights", "Also weights for pairs of feature and label never seen together.")
]

# Learning
Objective = Annotated[str, option("--objective NAME", f"{', '.join(OBJECTIVES)}.")]
Loss = Annotated[str, option("--loss NAME", "Task loss: hamming, weighted_hamming, zero_one or span_f1.")]
SolverName = Annotated[str, option("--solver NAME", f"auto, {', '.join(SOLVERS)}.")]
L2 = Annotated[float, declared_option(declared.L2, "--l2 X")]
L1 = Annotated[float, declared_option(declared.L1, "--l1 X")]
Epsilon = Annotated[
    str | None,
    option("--epsilon X", "Direct objective: auto (by the scores, the default), a number, decay or holdout."),
]
Sign = Annotated[
    str | None,
    option(
        "--sign central|better|worse",
        "Direct objective: both at once (the default), toward better labellings, or away from worse ones.",
    ),
]
Average = Annotated[
    bool, option("--average/--no-average", "Average the weights, where the solver can.", show_default=False)
]
ConstraintsOption = Annotated[
    str | None, option("--constraints NAME|FILE", "bio, bioes, or a file of allowed label pairs, one a line.")
]
TransitionsOption = Annotated[
    str,
    option(
        "--transitions NAME|FILE",
        "Which labels may follow each other: all, observed (those that do in FILE), or a file of pairs, one "
        "a line. With hundreds of labels, anything but all is faster and smaller.",
    ),
]
LatentStates = Annotated[
    list[str] | None,
    option("--latent-states N|LABEL=N", "Hidden states of every label, or of one (may be repeated)."),
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
    float | None, option("--holdout X", "Fraction of the file to hold out for early stopping.")
]
DevFile = Annotated[str | None, option("--dev FILE", "Labelled file to hold out for early stopping instead.")]
Checkpoint = Annotated[
    str | None,
    option(
        "--checkpoint DIR",
        "Folder to store training in now and then: the same command goes on from there if anything stops it.",
    ),
]
Patience = Annotated[int, declared_option(declared.PATIENCE, "--patience N")]
