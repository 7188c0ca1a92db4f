"""Long work beside the page: aligning what nobody has corrected, and learning from what people have.

One thread does one task at a time; the page asks how far it is. A task can be cancelled between two
recordings, and wherever learning reports its progress. Learning begins from the given model every time, with
all corrections so far, so that it does not drift; it never touches what a person corrected.
"""

from __future__ import annotations

import hashlib
import json
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trellis.core.errors import DataError, TrellisError
from trellis.core.output_files import atomic_text
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.batch_alignment import Job, Outcome, Work, align_jobs
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.formats.alignment import Alignment
from trellis.studio.worker_processes import open_given
from trellis.studio.workspace import Workspace

SUFFIX = ".alignment"  # JSON, under a suffix that no reader of corpora takes for labels
MOVED = 0.010  # seconds: boundaries that moved by more are counted
LEARNED = 0.7  # of the task of learning; the rest is aligning anew
_STAGES = {"reading": (0.0, 0.05), "leaving out": (0.05, 0.5), "learning": (0.5, LEARNED)}


class CancelledError(TrellisError):
    """Somebody asked the task to end."""


@dataclass(frozen=True)
class Moved:
    """What learning did to one recording: boundaries moved by more than 10 ms, and the mean of all in ms."""

    id: int
    name: str
    n_boundaries: int
    n_moved: int
    mean_ms: float
    largest_ms: float


@dataclass(frozen=True)
class Task:
    """``kind`` is "align", "learn" or "" for none; ``share`` of it is done."""

    kind: str = ""
    stage: str = ""
    share: float = 0.0
    is_running: bool = False
    problem: str | None = None
    status: str | None = None
    moved: tuple[Moved, ...] = ()
    number: int = 0
    changes: int = field(default=0)  # grows whenever a recording got another alignment


def result_path(job: Job) -> Path:
    return job.target.with_name(job.target.name + SUFFIX)


def write_result(job: Job, alignment: Alignment) -> None:
    """What a process does with an alignment."""
    alignment.write(result_path(job), "json")


class Background:
    """The tasks of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock, self._cancel = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self.task = Task()

    def start_aligning(self) -> None:
        self._start("align", self._align_new)

    def start_learning(self) -> None:
        self._workspace.corrected()  # an error if there is nothing to learn from
        self._start("learn", self._learn)

    def cancel(self) -> None:
        self._cancel.set()

    def close(self, seconds: float) -> bool:
        """Cancel, and wait for a while; whether nothing runs any more."""
        self.cancel()
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    @property
    def uses_adapted(self) -> bool:
        """Whether new recordings are aligned by a model that learned from these corrections."""
        return self._model_path() != self._workspace.settings.model

    def _start(self, kind: str, work: Callable[[], None]) -> None:
        with self._lock:
            if self.task.is_running:
                raise DataError("another task is still running; wait for it, or cancel it")
            self._cancel.clear()
            number, changes = self.task.number + 1, self.task.changes
            self.task = Task(kind, "starting", is_running=True, number=number, changes=changes)
            self._thread = threading.Thread(
                target=self._run, args=(work,), daemon=True, name=f"studio-{kind}"
            )
            self._thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        problem = None
        try:
            work()
        except CancelledError:
            problem = "cancelled"
        except TrellisError as error:
            problem = str(error)
        except BaseException as error:  # a defect must not leave the page waiting for ever
            traceback.print_exc()
            problem = f"{type(error).__name__}: {error} (this is a defect of Trellis; please report it)"
        self._update(is_running=False, problem=problem, share=1.0)

    def _update(self, **changes: Any) -> None:
        with self._lock:
            self.task = replace(self.task, **changes)

    def _progress(self, stage: str, share: float) -> None:
        if self._cancel.is_set():
            raise CancelledError("cancelled")
        self._update(stage=stage, share=min(1.0, max(0.0, share)))

    # --- aligning -----------------------------------------------------------------------------------------

    def _align_new(self) -> None:
        model = self._model_path()
        jobs = []
        for job in self._workspace.to_align():
            if not (job.is_done([result_path(job)], model) and self._take(Outcome(job.audio)) is not None):
                jobs.append(job)
        self._align(jobs, model, lambda outcome: self._take(outcome), 0.0)

    def _align(
        self, jobs: Sequence[Job], model: str, take: Callable[[Outcome], object], begun: float
    ) -> None:
        if not jobs:
            return
        self._progress("aligning", begun)
        settings = self._workspace.settings
        work = Work(partial(open_given, settings.open_model, model), write_result, settings.channel)
        outcomes = align_jobs(work, jobs, settings.n_jobs)
        for number, outcome in enumerate(outcomes, 1):
            take(outcome)
            self._progress(f"aligning {number} of {len(jobs)}", begun + (1 - begun) * number / len(jobs))

    def _take(self, outcome: Outcome) -> Moved | None:
        """Bring a finished alignment to its desk; how it moved, or None if a person was faster."""
        workspace = self._workspace
        name = workspace.folder.name(outcome.audio)
        number = workspace.numbers[name]
        desk = workspace.desks[number]
        problem, moved = outcome.problem, None
        if problem is None:
            try:
                new = Alignment.read(result_path(workspace.jobs[name]), "json")
                before = desk.align(new)
                moved = None if before is None else _compare(number, name, before, desk.alignment or before)
            except DataError as error:
                problem = str(error)
        if problem is not None:
            desk.fail(problem.removeprefix(f"{outcome.audio}: "))
        self._update(changes=self.task.changes + 1)
        return moved

    # --- learning -----------------------------------------------------------------------------------------

    def _model_path(self) -> str:
        """The adapted model, if it was adapted from the given one."""
        given, saved = self._workspace.settings.model, self._workspace.save_model
        try:
            note = json.loads(_note(saved).read_text("utf-8"))
            if saved.is_file() and note["moved"] and note["base"] == _fingerprint(given):
                return str(saved)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return given

    def _learning_progress(self, stage: str, share: float) -> None:
        begin, end = _STAGES.get(stage, (0.0, LEARNED))
        self._progress(stage, max(self.task.share, begin + (end - begin) * share))

    def _learn(self) -> None:
        workspace = self._workspace
        settings = workspace.settings
        self._progress("loading the model", 0.0)
        aligner, _ = settings.open_model(settings.model)
        corpus, left_out = _usable(aligner, workspace.corrected())
        adapted = aligner.adapt(corpus, progress=self._learning_progress)
        before, has_moved = self._model_path(), adapted.status_.n_iter > 0
        workspace.save_model.parent.mkdir(parents=True, exist_ok=True)
        adapted.save(workspace.save_model)
        with atomic_text(_note(workspace.save_model)) as file:
            json.dump({"base": _fingerprint(settings.model), "moved": has_moved}, file)
        more = f"; left out: {'; '.join(left_out)}" if left_out else ""
        self._update(status=f"{adapted.status_.reason}{more}")
        if not has_moved and before == settings.model:
            return  # everything would be aligned as it is
        moved: list[Moved] = []

        def take(outcome: Outcome) -> None:
            found = self._take(outcome)
            if found is not None:
                moved.append(found)
                self._update(moved=tuple(sorted(moved, key=lambda m: -m.n_moved)))

        self._align(workspace.to_align(), str(workspace.save_model), take, LEARNED)


def _usable(aligner: Aligner, corpus: Corpus) -> tuple[Corpus, list[str]]:
    """The utterances whose phones the model knows, and why others are left out; an error if all are."""
    kept, left_out = [], []
    for utterance in corpus:
        try:
            aligner.model_.acoustics.phones.encode(utterance.phones, utterance.id)
            kept.append(utterance)
        except DataError as error:
            left_out.append(str(error))
    if not kept:
        raise DataError(left_out[0])
    return Corpus(tuple(kept)), left_out


def _compare(number: int, name: str, before: Alignment, after: Alignment) -> Moved:
    """Boundaries of the same phones before and after; silences may come and go."""
    old, new = ([p for p in a.phones if p.label and p.label != "sil"] for a in (before, after))
    if [p.label for p in old] != [p.label for p in new]:  # another pronunciation was chosen
        return Moved(number, name, len(new), len(new), float("nan"), float("nan"))
    shifts = 1e3 * np.abs(np.array([p.start for p in new]) - np.array([p.start for p in old]))
    n_moved = int((shifts > 1e3 * MOVED).sum())
    mean, largest = (float(shifts.mean()), float(shifts.max())) if len(shifts) else (0.0, 0.0)
    return Moved(number, name, len(shifts), n_moved, mean, largest)


def _note(model: Path) -> Path:
    """Where it is kept which model an adapted one comes from."""
    return model.with_name(model.name + ".from")


def _fingerprint(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
