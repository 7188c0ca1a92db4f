"""``write_report``: one HTML page about a model, which needs nothing else."""

from __future__ import annotations

from typing import Any

from trellis.bayesnet.models import BayesianNetwork
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.output_files import PathLike, atomic_writer
from trellis.hmm import HMM
from trellis.report.pages.hmm_page import hmm_page
from trellis.report.pages.labeler_page import labeler_page
from trellis.report.pages.network_page import network_page
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor


def report_page(model: Any, X: Any = None, y: Any = None, *, title: str | None = None) -> str:
    """The text of the page of a model.

    A labeller of sequences (``SequenceLabeler``, ``MEMM``, ``NeuralSequenceLabeler``) is reported on labelled
    sequences ``X``, ``y``; an ``HMM`` on observations ``X``; a ``BayesianNetwork`` takes no data. ``title``
    is the heading, by default the name of the class.
    """
    title = type(model).__name__ if title is None else title
    if isinstance(model, BayesianNetwork):
        if X is not None or y is not None:
            raise DataError("the page of a BayesianNetwork takes no data; leave out X and y")
        return network_page(model, title=title)
    if isinstance(model, HMM):
        if X is None or y is not None:
            raise DataError("the page of an HMM needs observations and no labels; give X alone")
        return hmm_page(model, X, title=title)
    if isinstance(model, ChainPredictor):
        if X is None or y is None:
            raise DataError(f"the page of a {type(model).__name__} needs labelled sequences; give X and y")
        return labeler_page(model, X, y, title=title)
    raise UnsupportedError(
        f"there is no page for a {type(model).__name__}; there is one for labellers of sequences, "
        "hidden Markov models and Bayesian networks"
    )


def write_report(
    model: Any, path: PathLike, X: Any = None, y: Any = None, *, title: str | None = None
) -> None:
    """Write :func:`report_page` to a file."""
    text = report_page(model, X, y, title=title)
    with atomic_writer(path) as file:
        file.write(text.encode())
