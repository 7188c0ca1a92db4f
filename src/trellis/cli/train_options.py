"""The options of ``trellis train``: a type for each, annotated with the sentence that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.formats import FileFormat
from trellis.cli.options import declared_option, option
from trellis.training import declarations as declared

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="Labelled file, plain or gzip; - reads standard input.", show_default=False
    ),
]
Output = Annotated[str, option("-o", "--output", metavar="MODEL", help="Where to write the model.")]
Quiet = Annotated[bool, option("-q", "--quiet", help="Print nothing but errors.")]

# The input
Format = Annotated[
    FileFormat | None, option("--format", help="Format of the file; told from its first lines if not given.")
]
LabelColumn = Annotated[
    str | None,
    option(
        "--label-column",
        metavar="COLUMN",
        help="Column of the labels, from 0 (-1: the last), or a CoNLL-U name.",
    ),
]
FeatureColumns = Annotated[
    str | None,
    option(
        "--feature-columns", metavar="COLUMNS", help="Columns to predict from, for instance 0,1; else all."
    ),
]
Tabs = Annotated[bool, option("--tabs", help="Only tabs separate columns, so that fields may hold blanks.")]
Encoding = Annotated[str, option("--encoding", metavar="NAME", help="Character encoding of the files.")]

# Features
TemplateFile = Annotated[
    str | None,
    option("-t", "--template", metavar="FILE", help="CRF++ template file; a built-in one if not given."),
]
Border = Annotated[
    str,
    option(
        "--border",
        metavar="pad|omit",
        help="Beyond the ends of a sequence: pad, as CRF++, or omit the feature.",
    ),
]
MinCount = Annotated[int, declared_option(declared.MIN_COUNT, "--min-count", metavar="N")]
AllWeights = Annotated[
    bool, option("--all-weights", help="Also weights for pairs of feature and label never seen together.")
]

# Learning
Objective = Annotated[
    str,
    option(
        "--objective",
        metavar="NAME",
        help="perceptron, margin, slack, log, softmax_margin, direct, ramp or risk.",
    ),
]
Loss = Annotated[
    str, option("--loss", metavar="NAME", help="Task loss: hamming, weighted_hamming, zero_one or span_f1.")
]
SolverName = Annotated[
    str,
    option(
        "--solver",
        metavar="NAME",
        help="auto, perceptron, subgradient, sgd, adagrad, adam, sag, lbfgs, owlqn, cutting_plane, "
        "cccp, frank_wolfe or minibatch.",
    ),
]
L2 = Annotated[float, declared_option(declared.L2, "--l2", metavar="X")]
L1 = Annotated[float, declared_option(declared.L1, "--l1", metavar="X")]
Epsilon = Annotated[
    str | None,
    option("--epsilon", metavar="X", help="Direct objective: a number, decay or holdout."),
]
Sign = Annotated[
    str | None,
    option(
        "--sign",
        metavar="better|worse",
        help="Direct objective: toward better or away from worse labellings.",
    ),
]
Average = Annotated[
    bool,
    option("--average/--no-average", help="Average the weights, where the solver can.", show_default=False),
]
ConstraintsOption = Annotated[
    str | None,
    option(
        "--constraints", metavar="NAME|FILE", help="bio, bioes, or a file of allowed label pairs, one a line."
    ),
]
LatentStates = Annotated[
    list[str] | None,
    option(
        "--latent-states",
        metavar="N|LABEL=N",
        help="Hidden states of every label, or of one (may be repeated).",
    ),
]
ClassWeight = Annotated[
    list[str] | None,
    option("--class-weight", metavar="LABEL=X", help="Weight of a label (may be repeated), or balanced."),
]
Seed = Annotated[int, option("--seed", metavar="N", help="Seed of all that is random.")]
Jobs = Annotated[
    int | None, option("-j", "--jobs", metavar="N", min=1, help="Threads; all cores if not given.")
]

# Stopping
MaxIter = Annotated[int | None, declared_option(declared.MAX_ITER, "--max-iter", metavar="N")]
Tol = Annotated[float | None, declared_option(declared.TOL, "--tol", metavar="X")]
Holdout = Annotated[
    float | None,
    option("--holdout", metavar="X", help="Fraction of the file to hold out for early stopping."),
]
DevFile = Annotated[
    str | None, option("--dev", metavar="FILE", help="Labelled file to hold out for early stopping instead.")
]
Patience = Annotated[int, declared_option(declared.PATIENCE, "--patience", metavar="N")]
