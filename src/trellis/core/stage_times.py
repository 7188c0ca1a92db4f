"""What the stages of a piece of work took: wall-clock seconds by name, in the order of the work.

Stages of ``fit`` follow one another without gaps, so that each is named when it is done, and together they
are nearly all of the time of the call. Stages of a page are blocks; what happens between them belongs to
none. Both are a handful of calls: nothing is measured inside an iteration.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# the stages of ``fit`` and of commands that train
STAGES = {
    "reading": "files, before fit",
    "encoding": "data checked and turned into arrays",
    "reading and encoding": "files or recordings read, checked and turned into arrays",
    "arranging": "weights laid out, data held out, the problem set up for the solver",
    "classifiers": "the acoustic model trained, features computed for the weights",
    "training": "all iterations, from the choice of a start on",
    "calibrating": "confidences calibrated, options chosen that follow from the weights",
    "checking": "predictions for a sample, how exact inference was",
}
SAID = 0.01  # share of the whole time from which on a stage is mentioned in a sentence


class StageTimes:
    """``seconds`` by stage, to which ``done`` adds; a model may keep them before its last stage, whose
    warnings may be errors. The clock starts with the object."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def done(self, stage: str) -> None:
        """All since the last stage was this one; the parts of a stage that comes again add up."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """The block is this stage; what came before it belongs to none."""
        self._last = time.perf_counter()
        yield
        self.done(stage)


def after(first: Mapping[str, float], then: Mapping[str, float]) -> dict[str, float]:
    """The stages of two pieces of work, one after the other."""
    return {name: first.get(name, 0.0) + then.get(name, 0.0) for name in {**first, **then}}


def stages_in_words(seconds: Mapping[str, float]) -> str:
    """``"encoding 812 ms, training 3.9 s"``, without stages that hardly count."""
    least = SAID * sum(seconds.values())
    return ", ".join(f"{stage} {duration(spent)}" for stage, spent in seconds.items() if spent >= least)


def duration(seconds: float) -> str:
    """A time with its unit: ``"812 ms"``."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} minutes"
