"""Small models of most kinds of files, and what they answer: files of released versions are read for ever.

    PYTHONPATH=src:tests/support python tests/support/released_models.py     # before a minor release, once

writes ``tests/model_files/VERSION/KIND.trellis`` and their answers. Those of earlier versions are never made
again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import trellis
from trellis import HMM, MEMM, Graph, GraphLabeler, LinearGaussian, SequenceLabeler, SpectralHMM, emissions
from trellis.bayesnet import NetworkBuilder

FOLDER = Path(__file__).resolve().parent.parent / "model_files"
WORDS = [[["Ada", "title"], ["met"], ["Charles", "title"]], [["They"], ["left"]]]
TAGS = [["PER", "O", "PER"], ["O", "O"]]
SIGNAL = np.round(np.sin(np.arange(40.0) / 3.0), 3)[:, None]
SYMBOLS = [[(i * j) % 3 for j in range(20)] for i in range(1, 6)]
PIXELS = np.array([[0.1, 0.9, 1.1], [-0.2, 0.8, 1.0]])


def network() -> Any:
    builder = NetworkBuilder().variable("Rain", ["yes", "no"], [0.2, 0.8])
    return builder.variable("Wet", ["yes", "no"], {"yes": [0.9, 0.1], "no": [0.1, 0.9]}, given="Rain").build()


MAKERS: dict[str, Callable[[], Any]] = {
    "SequenceLabeler": lambda: SequenceLabeler("log", l2=0.1).fit(WORDS, TAGS),
    "MEMM": lambda: MEMM(l2=0.1).fit(WORDS, TAGS),
    "HMM": lambda: HMM(n_states=2, emission=emissions.Gaussian("diag"), max_iter=5, random_state=0).fit(
        [SIGNAL]
    ),
    "LinearGaussian": lambda: LinearGaussian(n_states=1, max_iter=3, random_state=0).fit([SIGNAL]),
    "SpectralHMM": lambda: SpectralHMM(n_states=2).fit(SYMBOLS),
    "GraphLabeler": lambda: GraphLabeler("margin", l2=1.0, random_state=0).fit(
        [Graph.grid(PIXELS)], [(PIXELS > 0.5).astype(int)]
    ),
    "BayesianNetwork": network,
}
ANSWERS: dict[str, Callable[[Any], Any]] = {
    "SequenceLabeler": lambda model: [row.tolist() for row in model.predict_marginals(WORDS)],
    "MEMM": lambda model: [row.tolist() for row in model.predict_marginals(WORDS)],
    "HMM": lambda model: [row.tolist() for row in model.smooth([SIGNAL])],
    "LinearGaussian": lambda model: float(np.sum(model.score([SIGNAL]))),
    "SpectralHMM": lambda model: float(np.sum(model.score(SYMBOLS))),
    "GraphLabeler": lambda model: np.asarray(model.predict([Graph.grid(PIXELS)])[0]).tolist(),
    "BayesianNetwork": lambda model: np.asarray(model.query("Rain", evidence={"Wet": "yes"}).values).tolist(),
}


def main() -> None:
    folder = FOLDER / ".".join(trellis.__version__.split(".")[:2])
    folder.mkdir(parents=True, exist_ok=True)
    answers = {}
    for kind, make in MAKERS.items():
        path = folder / f"{kind}.trellis"
        model = make()
        model.save(path)
        answers[kind] = ANSWERS[kind](trellis.load(path))
        print(kind, path.stat().st_size, str(answers[kind])[:80])
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
