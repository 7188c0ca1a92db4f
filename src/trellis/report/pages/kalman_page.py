"""The page of a linear-Gaussian state space on observations: smoothed states with their bands, matrices, and
the curve of EM."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.report.pages.page_parts import counted, facts_list, page
from trellis.report.pages.sections.stage_sections import PageStages
from trellis.report.pages.sections.state_sections import (
    MOST_STEPS,
    SHOWN_SEQUENCES,
    em_section,
    likelihood_facts,
    matrix_table,
    wide_figure,
)
from trellis.report.state_plots import BANDS, plot_smoothed
from trellis.statespace import LinearGaussian

_MATRICES = ("transition", "observation", "transition_noise", "observation_noise")


def kalman_page(
    model: LinearGaussian, X: Any, y: None = None, *, title: str, stages: PageStages | None = None
) -> str:
    """The text of the page; ``X`` is one array or a list of arrays, of a model without controls."""
    if X is None or y is not None:
        raise DataError("the page of a LinearGaussian needs observations and no labels; give X alone")
    stages = PageStages() if stages is None else stages
    sequences = list(X) if isinstance(X, list | tuple) else [X]
    with stages.measure("smoothing", f"sequences: {len(sequences):,}"):
        found = model.smooth(sequences)
    n_steps = sum(map(len, found.means))
    likelihood = float(model.log_likelihood(sequences).sum())
    sections = [
        ("summary", "Summary", facts_list(likelihood_facts(model, likelihood, n_steps))),
        ("states", "States over time", _states(found.means, found.covariances)),
        ("matrices", "Matrices", _matrices(model)),
        ("learning", "Learning", em_section(model)),
        ("stages", "Cost of each stage", stages.section(model)),
    ]
    words = (
        f"<b>LinearGaussian</b> · {counted(model.n_states, 'state')} · "
        f"{counted(len(sequences), 'sequence')} · {counted(n_steps, 'step')}"
    )
    return page(title, words, sections)


def _states(means: Any, covariances: Any) -> str:
    """A figure for each component, since bands on top of each other hide what is below."""
    figures = []
    for i, (mean, spread) in enumerate(zip(means[:SHOWN_SEQUENCES], covariances, strict=False)):
        every = max(-(-len(mean) // MOST_STEPS), 1)
        some, sizes = mean[::every], np.diagonal(spread[::every], axis1=1, axis2=2)
        few = f", at one of {every} steps" if every > 1 else ""
        for k in _told(some, sizes) if len(some) else []:
            label = f"Component {k} of the state given all of sequence {i + 1}, with its band of 95 %{few}."
            draw = partial(plot_smoothed, some, sizes, components=[k], every=every)
            figures.append(wide_figure(f"states-{i}-{k}", draw, label, f"Sequence {i + 1}, component {k}"))
    left = max((mean.shape[1] for mean in means), default=0) - BANDS
    more = (
        f'<p class="dim">{counted(left, "component")} more, which the observations tell less about.</p>'
        if left > 0
        else ""
    )
    return f'<div class="wide">{"".join(figures)}</div>{more}'


def _told(means: FloatArray, variances: FloatArray) -> list[int]:
    """The components that observations tell most about: whose means vary most, in units of their bands."""
    ratio = means.var(axis=0) / np.maximum(variances.mean(axis=0), 1e-300)
    return sorted(np.argsort(-ratio, kind="stable")[:BANDS].tolist())


def _matrices(model: LinearGaussian) -> str:
    """The parameters that do not vary with time."""
    blocks = []
    for name in _MATRICES:
        values = getattr(model, f"{name}_", None)
        values = getattr(model, name) if values is None else values
        if values is not None and np.ndim(values) == 2:
            rows = np.asarray(values, np.float64)
            blocks.append(matrix_table(name.replace("_", " "), rows, range(len(rows))))
    return f'<div class="columns">{"".join(blocks)}</div>'
