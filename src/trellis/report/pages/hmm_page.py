"""The page of a hidden Markov model on observations: learning, states over time, durations and emissions.

An ``IOHMM`` has the same page on observations ``X`` and inputs ``y``. Its transitions depend on the input, so
their mean over all inputs is shown, and no law of durations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.hmm import HMM
from trellis.hmm.input_output import IOHMM
from trellis.report.pages.page_parts import counted, facts_list, page
from trellis.report.pages.sections.stage_sections import PageStages
from trellis.report.pages.sections.state_sections import (
    SHOWN_SEQUENCES,
    durations_section,
    em_section,
    emission_tables,
    likelihood_facts,
    states_section,
    transitions_table,
)
from trellis.report.state_plots import state_durations


def hmm_page(
    model: HMM | IOHMM, X: Any, y: Any = None, *, title: str, stages: PageStages | None = None
) -> str:
    """The text of the page; ``X`` is one array or a list of arrays, and so are the inputs ``y``."""
    driven = isinstance(model, IOHMM)
    if X is None or driven == (y is None):
        needs = (
            "observations and their inputs; give X and y"
            if driven
            else "observations and no labels; give X alone"
        )
        raise DataError(f"the page of an {type(model).__name__} needs {needs}")
    stages = PageStages() if stages is None else stages
    sequences = list(X) if isinstance(X, list | tuple) else [X]
    inputs = list(y) if isinstance(y, list | tuple) else [y]
    emission: Any = model.emission_ if isinstance(model, IOHMM) else model.parameters().emission
    n_states = model.n_states
    given = (inputs,) if driven else ()
    with stages.measure("best paths", f"sequences: {len(sequences):,}"):
        paths = model.predict(sequences, *given)
    first = [part[:SHOWN_SEQUENCES] for part in (sequences, *given)]
    with stages.measure("probabilities of states", f"sequences: {len(first[0])}, which are shown"):
        posteriors = model.smooth(*first)
    likelihood = float(model.log_likelihood(sequences, *given).sum())
    lengths = state_durations(paths, n_states)
    n_steps = sum(map(len, paths))
    facts = [("emission", type(emission).__name__), *likelihood_facts(model, likelihood, n_steps)]
    shares, stay, caption = _transitions(model, inputs)
    sections = [
        ("summary", "Summary", facts_list(facts)),
        ("states", "States over time", states_section(posteriors)),
        ("durations", "Durations", durations_section(lengths, n_steps, stay)),
        ("transitions", "Transitions", transitions_table(caption, shares)),
        ("emissions", "Emissions", emission_tables(emission, n_states)),
        ("learning", "Learning", em_section(model)),
        ("stages", "Cost of each stage", stages.section(model)),
    ]
    words = (
        f"<b>{type(model).__name__}</b> · {counted(n_states, 'state')} · "
        f"{counted(len(sequences), 'sequence')} · {counted(n_steps, 'step')}"
    )
    return page(title, words, sections)


def _transitions(model: HMM | IOHMM, inputs: list[Any]) -> tuple[FloatArray, FloatArray | None, str]:
    """The matrix that is shown, the probabilities of staying if they are constant, and a caption."""
    if isinstance(model, IOHMM):
        shares = model.transition_matrix(np.concatenate(inputs)).mean(axis=0)
        return shares, None, "Probabilities of transitions from the row to the column, mean over all inputs"
    shares = model.parameters().transitions
    return shares, np.diagonal(shares), "Probabilities of transitions from the row to the column"
