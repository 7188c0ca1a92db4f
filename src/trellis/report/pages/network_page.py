"""The page of a Bayesian network: click evidence and see the marginals move; ask what separates variables.

Small networks are computed in the page, by variable elimination in plain JavaScript: any evidence, exactly.
For larger ones the page holds the answers for each single observed state, which the junction tree gave. The
d-separation explorer takes what is observed as given, and colours and explains the paths.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from trellis.bayesnet import BayesianNetwork
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.report.pages.network_drawing import network_drawing
from trellis.report.pages.page_parts import details, escaped, isolated, page, table
from trellis.report.pages.sections.stage_sections import PageStages

MOST_MULTIPLICATIONS = 2e7  # of all marginals in the page: some tenths of a second
MOST_NUMBERS = 300_000  # of tables or answers in the page: some megabytes
_MOST_ROWS = 64


def network_page(
    network: BayesianNetwork,
    X: None = None,
    y: None = None,
    *,
    title: str,
    stages: PageStages | None = None,
) -> str:
    """The text of the page; a network takes no data."""
    if X is not None or y is not None:
        raise DataError("the page of a BayesianNetwork takes no data; leave out X and y")
    stages = PageStages() if stages is None else stages
    with stages.measure("all marginals", "without evidence, by the junction tree"):
        prior = _marginals(network, {})
    content: dict[str, Any] = {
        "names": network.names,
        "states": network.states,
        "parents": network.parent_indices,
        "tables": None,
    }
    live = can_compute_in_page(network)
    if live:
        content["tables"] = [values.ravel().tolist() for values in network.tables]
    else:
        content["prior"] = [shares.tolist() for shares in prior]
        with stages.measure("answers in the page", "for each single observed state"):
            content["answers"] = _single_answers(network, prior)
    facts = (
        f"<b>{len(network.names)}</b> variables · <b>{network.graph.n_edges}</b> edges · "
        f"<b>{network.n_parameters:,}</b> free parameters"
    )
    sections = [
        ("network", "The network", _explorer(network, prior, live)),
        ("tables", "Tables", "".join(_table(network, i) for i in network.order)),
        ("stages", "Cost of each stage", stages.section(network)),
    ]
    return page(
        title,
        facts,
        sections,
        data=content,
        styles=["network.css"],
        scripts=["exact_inference.js", "separation.js", "network.js"],
    )


def can_compute_in_page(network: BayesianNetwork) -> bool:
    """Whether a browser computes all marginals at once: one elimination for each variable."""
    work = network.forecast().multiplications * len(network.names)
    return work <= MOST_MULTIPLICATIONS and sum(values.size for values in network.tables) <= MOST_NUMBERS


def _marginals(network: BayesianNetwork, evidence: dict[str, str]) -> list[FloatArray]:
    found = network.query(None, evidence)
    shares = []
    for name, states in zip(network.names, network.states, strict=True):
        if name in evidence:
            shares.append(np.array([float(state == evidence[name]) for state in states]))
        else:
            shares.append(np.asarray(found[name].values))
    return shares


def _single_answers(network: BayesianNetwork, prior: list[FloatArray]) -> list[list[Any]]:
    """For each state of each variable all marginals given it, None where it is impossible."""
    numbers = int(network.cardinalities.sum()) ** 2
    if numbers > MOST_NUMBERS:
        raise UnsupportedError(
            f"a page of this network would contain {numbers:,} answers, and the limit is {MOST_NUMBERS:,}; "
            "ask it with trellis net query, or report on a part of it (BayesianNetwork.ancestral_network)"
        )
    answers: list[list[Any]] = []
    for name, states, shares in zip(network.names, network.states, prior, strict=True):
        row: list[Any] = []
        for state, share in zip(states, shares.tolist(), strict=True):
            found = _marginals(network, {name: state}) if share > 0 else None
            row.append(None if found is None else [one.tolist() for one in found])
        answers.append(row)
    return answers


def _explorer(network: BayesianNetwork, prior: list[FloatArray], live: bool) -> str:
    names = "".join(f'<option value="{i}">{escaped(name)}</option>' for i, name in enumerate(network.names))
    choices = "".join(
        f'<label>{text} <select id="{name}"><option value="">–</option>{names}</select></label>'
        for name, text in (("x", "Separate"), ("y", "from"))
    )
    how = (
        "Answers are exact, and computed in this page."
        if live
        else "This network is large: the page holds the exact answers for one observed state at a time."
    )
    return (
        '<p id="evidence" role="status"></p>'
        f'<div class="bar"><button type="button" id="clear">Clear the evidence</button>{choices}'
        '<label>Size <input type="range" id="zoom" min="30" max="130" value="100"></label></div>'
        '<div id="board" tabindex="0" role="region" aria-label="Drawing of the network">'
        f"{network_drawing(network, prior)}</div>"
        '<p id="key"><span><i class="prior"></i>share before any evidence</span><span><i></i>open path</span>'
        '<span><i class="blocked"></i>blocked path, or where it is blocked</span></p>'
        '<p id="verdict" role="status"></p><ul id="paths" aria-label="Paths"></ul>'
        f'<p class="dim">{how} What is observed is what separation is given.</p>'
    )


def _table(network: BayesianNetwork, i: int) -> str:
    """P(variable | parents), folded."""
    name = isolated(network.names[i])
    parents = [isolated(network.names[p]) for p in network.parent_indices[i]]
    caption = f"P({name} | {', '.join(parents)})" if parents else f"P({name})"
    rows = network.tables[i].reshape(-1, len(network.states[i]))
    keys = product(*(network.states[p] for p in network.parent_indices[i]))
    shown = [
        (", ".join(map(isolated, key)) or "always", *(f"{x:.6g}" for x in row))
        for key, row, _ in zip(keys, rows.tolist(), range(_MOST_ROWS), strict=False)
    ]
    if len(rows) > _MOST_ROWS:
        caption += f", the first {_MOST_ROWS} of {len(rows):,} rows"
    return details(caption, table(caption, [", ".join(parents) or "given", *network.states[i]], shown))
