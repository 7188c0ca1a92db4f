"""The options of ``trellis train``: a type for each, annotated with the sentence that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trellis.cli.formats import FileFormat


def _option(*names: str, metavar: str | None = None, **settings: Any) -> Any:
    return typer.Option(*names, metavar=metavar, **settings)


File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="Labelled file, plain or gzip; - reads standard input.", show_default=False
    ),
]
Output = Annotated[str, _option("-o", "--output", metavar="MODEL", help="Where to write the model.")]
Quiet = Annotated[bool, _option("-q", "--quiet", help="Print nothing but errors.")]

# The input
Format = Annotated[
    FileFormat | None, _option("--format", help="Format of the file; told from its first lines if not given.")
]
LabelColumn = Annotated[
    str | None,
    _option(
        "--label-column",
        metavar="COLUMN",
        help="Column of the labels, from 0 (-1: the last), or a CoNLL-U name.",
    ),
]
FeatureColumns = Annotated[
    str | None,
    _option(
        "--feature-columns", metavar="COLUMNS", help="Columns to predict from, for instance 0,1; else all."
    ),
]
Tabs = Annotated[bool, _option("--tabs", help="Only tabs separate columns, so that fields may hold blanks.")]
Encoding = Annotated[str, _option("--encoding", metavar="NAME", help="Character encoding of the files.")]

# Features
TemplateFile = Annotated[
    str | None,
    _option("-t", "--template", metavar="FILE", help="CRF++ template file; a built-in one if not given."),
]
Border = Annotated[
    str,
    _option(
        "--border",
        metavar="pad|omit",
        help="Beyond the ends of a sequence: pad, as CRF++, or omit the feature.",
    ),
]
MinCount = Annotated[
    int, _option("--min-count", metavar="N", min=1, help="Drop features seen fewer times than this.")
]
AllWeights = Annotated[
    bool, _option("--all-weights", help="Also weights for pairs of feature and label never seen together.")
]

# Learning
Objective = Annotated[
    str,
    _option(
        "--objective",
        metavar="NAME",
        help="perceptron, margin, slack, log, softmax_margin, direct, ramp or risk.",
    ),
]
Loss = Annotated[
    str, _option("--loss", metavar="NAME", help="Task loss: hamming, weighted_hamming, zero_one or span_f1.")
]
SolverName = Annotated[
    str,
    _option(
        "--solver",
        metavar="NAME",
        help="auto, perceptron, subgradient, sgd, adagrad, adam, sag, lbfgs, owlqn, cutting_plane, "
        "cccp, frank_wolfe or minibatch.",
    ),
]
L2 = Annotated[float, _option("--l2", metavar="X", min=0.0, help="Weight of half the squared norm.")]
L1 = Annotated[float, _option("--l1", metavar="X", min=0.0, help="Weight of the sum of absolute weights.")]
Epsilon = Annotated[
    str | None,
    _option("--epsilon", metavar="X", help="Direct objective: a number, decay or holdout."),
]
Sign = Annotated[
    str | None,
    _option(
        "--sign",
        metavar="better|worse",
        help="Direct objective: toward better or away from worse labellings.",
    ),
]
Average = Annotated[
    bool,
    _option("--average/--no-average", help="Average the weights, where the solver can.", show_default=False),
]
ConstraintsOption = Annotated[
    str | None,
    _option(
        "--constraints", metavar="NAME|FILE", help="bio, bioes, or a file of allowed label pairs, one a line."
    ),
]
LatentStates = Annotated[
    list[str] | None,
    _option(
        "--latent-states",
        metavar="N|LABEL=N",
        help="Hidden states of every label, or of one (may be repeated).",
    ),
]
ClassWeight = Annotated[
    list[str] | None,
    _option("--class-weight", metavar="LABEL=X", help="Weight of a label (may be repeated), or balanced."),
]
Seed = Annotated[int, _option("--seed", metavar="N", help="Seed of all that is random.")]
Jobs = Annotated[
    int | None, _option("-j", "--jobs", metavar="N", min=1, help="Threads; all cores if not given.")
]

# Stopping
MaxIter = Annotated[
    int | None, _option("--max-iter", metavar="N", min=1, help="At most so many iterations or passes.")
]
Tol = Annotated[
    float | None, _option("--tol", metavar="X", min=0.0, help="Precision at which the solver is done.")
]
Holdout = Annotated[
    float | None,
    _option("--holdout", metavar="X", help="Fraction of the file to hold out for early stopping."),
]
DevFile = Annotated[
    str | None, _option("--dev", metavar="FILE", help="Labelled file to hold out for early stopping instead.")
]
Patience = Annotated[
    int,
    _option(
        "--patience", metavar="N", min=1, help="Stop after N iterations without a smaller hold-out loss."
    ),
]
