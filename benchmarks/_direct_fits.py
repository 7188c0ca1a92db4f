"""How each column of the direct-loss benchmark learns: all of them from the same examples, in the same way.

A fifth of the training examples is held out, the same for every method. Of the values in ``L2`` the hold-out
loss (the loss of the row, of the method's own decoding) chooses one, and the method then learns from all
examples with it. Direct loss by its default recipe does this by itself, with three values around l2 = 1.
Direct loss as published chooses epsilon and when to stop on the held-out examples, and never learns from
them. Whatever the row, a method has the same settings.

The margin is trained to a relative duality gap of 1 %, or for ``PASSES`` passes. CRFs go down the values of
l2, each from the weights of the last. What several rows have in common is fitted once.

With outliers the CRF takes the largest l2 that there is. Larger ones, by ``--l2``, bring it near direct loss.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple, Protocol

import numpy as np

from _alignment import held_out_loss
from _common import SPEECH
from _direct_tasks import Data, Sizes, Task
from trellis import GraphLabeler, SequenceLabeler
from trellis.core.errors import UnsupportedError
from trellis.data.labels import flatten_labels
from trellis.losses import CandidateLoss, Hamming, Loss
from trellis.objectives import Direct
from trellis.speech import Aligner, synthetic_corpus
from trellis.speech.corpus.synthetic import VOICES
from trellis.training.fit import TrainingWarning
from trellis.training.holdout import hold_out
from trellis.training.options import draw_seed

HELD_OUT = 0.2
L2 = (3000.0, 300.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
ALIGNER_L2 = (10.0, 1.0, 0.1, 0.01, 0.001)
PASSES = 100
PAPER = Direct("holdout", sign="better", start="zero")
RECIPE = Direct()

CRF, MINIMUM_RISK, MARGIN, PUBLISHED, DIRECT = "CRF", "CRF + min risk", "margin", "as published", "direct"
METHODS = (CRF, MINIMUM_RISK, MARGIN, PUBLISHED, DIRECT)
MORE_METHODS = ("softmax_margin", "risk", "ramp")


class Figure(NamedTuple):
    """The test loss in per cent, None where a method does not know the structure or the loss; and what was
    chosen on the way to it."""

    loss: float | None
    chosen: Mapping[str, Any]


class Structure(Protocol):
    """What fits need to know about chains, or about graphs."""

    def new(self, objective: Any, loss: Loss, **options: Any) -> Any:
        """An estimator that is not fitted."""

    def loss(self, model: Any, data: Data, loss: Loss, decoding: str) -> float:
        """In per cent: of steps or nodes for losses that are sums over them, otherwise of examples."""


class Chains:
    def new(self, objective: Any, loss: Loss, **options: Any) -> SequenceLabeler:
        return SequenceLabeler(objective, loss, verbose=False, n_jobs=1, **options)

    def loss(self, model: SequenceLabeler, data: Data, loss: Loss, decoding: str) -> float:
        codes, offsets = model.set_params(loss=loss).predict_codes(data.X, decoding=decoding)
        flat = flatten_labels(data.y)
        names = model.labels_.extended(flat)  # labels that training never saw are wrong, whatever is said
        losses = loss.per_sequence(names.encode(flat), codes, names)
        return 100.0 * float(losses.sum()) / (len(codes) if loss.kind == "costs" else len(offsets) - 1)


class Graphs:
    """``inference``: how best labellings are found. ``likelihood``: "log", or what stands for it where sums
    over all labellings of so many training graphs cost too much. Marginals are exact."""

    def __init__(self, inference: str, likelihood: str) -> None:
        self.inference, self.likelihood = inference, likelihood

    def new(self, objective: Any, loss: Loss, **options: Any) -> GraphLabeler:
        sums = objective == "log"
        objective, inference = (self.likelihood, "auto") if sums else (objective, self.inference)
        return GraphLabeler(objective, loss, inference, verbose=False, n_jobs=1, **options)

    def loss(self, model: GraphLabeler, data: Data, loss: Loss, decoding: str) -> float:
        """Of the Hamming loss: the share of wrong nodes among those with a label."""
        inference = "auto" if decoding == "minimum_risk" else self.inference
        found = model.predict(data.X, decoding=decoding, inference=inference)
        wrong = [
            truth != guess
            for gold, guesses in zip(data.y, found, strict=True)
            for truth, guess in zip(np.ravel(gold), np.ravel(guesses), strict=True)
            if truth is not None
        ]
        return 100.0 * float(np.mean(wrong))


_kept: dict[tuple[Any, ...], Any] = {}


class Fits:
    """The methods on one task."""

    def __init__(self, structure: Structure, task: Task, seed: int, sizes: Sizes) -> None:
        self.structure, self.task, self.seed, self.key = structure, task, seed, (task.data, seed, sizes)
        parts = hold_out(HELD_OUT, len(task.train.X), "example", draw_seed(seed))
        self.learned, self.held = task.train.take(parts.kept), task.train.take(parts.held)

    def measure(self, method: str) -> Figure:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)  # of an l2 that is far too large, for one
            if method in (PUBLISHED, DIRECT):
                return self._direct(PAPER if method == PUBLISHED else RECIPE)
            if method == MINIMUM_RISK:
                return self._chosen(self._crf, "minimum_risk")
            if method not in MORE_METHODS:
                return self._chosen(self._crf if method == CRF else self._margin, "best")
            try:
                return self._chosen(lambda data, part: self._fit(method, self.task.loss, data, part), "best")
            except UnsupportedError as reason:
                return Figure(None, {"status": str(reason)})

    def _chosen(self, fits: Callable[[Data, str], Callable[[float], Any]], decoding: str) -> Figure:
        fit = fits(self.learned, "learned")
        held = {l2: self._loss(fit(l2), self.held, decoding) for l2 in L2}
        best = min(held, key=lambda l2: held[l2])
        model = fits(self.task.train, "all")(best)
        chosen = {"l2": best, "status": str(model.status_)}
        return Figure(self._loss(model, self.task.test, decoding), chosen)

    def _loss(self, model: Any, data: Data, decoding: str = "best") -> float:
        return self.structure.loss(model, data, self.task.loss, decoding)

    def _crf(self, data: Data, part: str) -> Callable[[float], Any]:
        return self._fit("log", None, data, part, warm_start=True)

    def _margin(self, data: Data, part: str) -> Callable[[float], Any]:
        """For a loss that only candidates know, with the Hamming loss: its hinge needs every output."""
        loss = Hamming() if isinstance(self.task.loss, CandidateLoss) else self.task.loss
        return self._fit("margin", loss, data, part, tol=0.01, max_iter=PASSES)

    def _fit(
        self, objective: str, loss: Loss | None, data: Data, part: str, **options: Any
    ) -> Callable[[float], Any]:
        """Fits with one l2 after another; those with a warm start go on from the last."""
        last: Any = None

        def fit(l2: float) -> Any:
            nonlocal last
            key = (*self.key, part, objective, loss and loss.name, l2)
            if key not in _kept:
                new = self.structure.new(objective, loss or Hamming(), random_state=self.seed, **options)
                model = copy(last) if last is not None and options.get("warm_start") else new
                _kept[key] = model.set_params(l2=l2).fit(*data)
            last = _kept[key]
            return last

        return fit

    def _direct(self, objective: Direct) -> Figure:
        new = self.structure.new(objective, self.task.loss, random_state=self.seed, holdout=HELD_OUT)
        model = new.fit(*self.task.train)
        return Figure(self._loss(model, self.task.test), what_was_chosen(model))


def what_was_chosen(model: Any) -> dict[str, Any]:
    history = {key: model.history_.get(key, []) for key in ("update_share", "relative_norm")}
    ends = {key: [round(values[i], 3) for i in (0, -1)] for key, values in history.items() if values}
    return {"epsilon": model.epsilon_, "status": str(model.status_), **ends}


class Alignments:
    """The aligner on the synthetic corpus: one voice by a model of the other three, voice after voice with
    the seeds. Methods share its classifiers. The loss is the share of boundaries off by more than 10 ms. The
    aligner learns weights from a fifth of the utterances and holds out a tenth, on which all methods choose;
    only direct loss by its recipe learns from both in the end.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.voice = seed, VOICES[seed % len(VOICES)]
        others = [voice for voice in VOICES if voice != self.voice]
        self.prepared = self._new().prepare(synthetic_corpus(others, SPEECH))

    def measure(self, method: str) -> Figure:
        asked: dict[str, list[dict[str, Any]]] = {
            CRF: [{"objective": "log", "l2": l2} for l2 in ALIGNER_L2],
            MARGIN: [{"objective": "margin", "solver": "frank_wolfe", "l2": l2} for l2 in ALIGNER_L2],
            PUBLISHED: [{"objective": PAPER, "start": "zero"}],
            DIRECT: [{"objective": RECIPE}],
        }
        if method not in asked:
            return Figure(None, {"status": "the aligner does not have it"})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            models = [self._new(**options).fit(self.prepared) for options in asked[method]]
        model = min(models, key=lambda one: held_out_loss(one, self.prepared))
        found = model.evaluate(synthetic_corpus([self.voice], SPEECH))
        chosen = {"voice": self.voice, "l2": model.l2, **what_was_chosen(model)}
        return Figure(100.0 * (1.0 - found.within[10.0].value), chosen)

    def _new(self, **options: Any) -> Aligner:
        return Aligner(fold="voiced", random_state=self.seed, n_jobs=1, **options)
