"""Batches of recordings, one after the other or in several processes; a bad one does not stop the rest.

A *job* is one recording, its transcript, and where its results go. Results appear under their names only when
they are complete, so an interrupted run can be resumed: a job is done if all its files exist and none is
older than the recording, the transcript or the model.

Each process loads the model once. At most two jobs per process are in flight, so memory does not grow with
their number. If a process dies (out of memory, say), the jobs in flight run again, each in a process of its
own, and the one that kills it is reported as failed.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from trellis.core.errors import DataError, TrellisError
from trellis.core.output_files import PathLike, remove_partial
from trellis.speech.align.piece_alignment import align_pieces
from trellis.speech.audio.recordings import AUDIO_SUFFIXES
from trellis.speech.corpus.corpus_files import find_files
from trellis.speech.corpus.transcripts import Transcript, find_transcript
from trellis.speech.corpus.unknown_words import check_unknown_words
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.conversation import Conversation
from trellis.speech.phones.alphabets import check_alphabet, guess_alphabet

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner
    from trellis.speech.corpus.dictionary import Dictionary

_IN_FLIGHT = 2  # jobs per process
_DIED = "the process that aligned it died (out of memory?); align it on a machine with more memory"


@dataclass(frozen=True)
class Job:
    """``target`` is the path of the results without their suffix; ``alphabet`` is that of phones given."""

    audio: Path
    target: Path
    transcript: Transcript
    alphabet: str = "auto"

    def is_done(self, outputs: Iterable[Path], model: PathLike) -> bool:
        """Whether all ``outputs`` exist and none is older than what it was made from."""
        sources = [self.audio, Path(model), *filter(None, [self.transcript.path])]
        newest = max(os.stat(path).st_mtime_ns for path in sources)
        try:
            return min(os.stat(path).st_mtime_ns for path in outputs) >= newest
        except FileNotFoundError:
            return False


@dataclass(frozen=True)
class Outcome:
    """The result of a job: ``problem`` says why it failed, if so; ``flags`` and ``match`` are those of its
    alignment (a conversation has no match)."""

    audio: Path
    problem: str | None = None
    flags: tuple[str, ...] = ()
    seconds: float = 0.0
    match: float | None = None


@dataclass(frozen=True)
class Work:
    """How every job is done. It is sent to other processes, so all of it can be pickled.

    ``open_model()`` loads the aligner and the dictionary, ``write(job, result)`` writes the results.
    """

    open_model: Callable[[], tuple[Aligner, Dictionary | None]]
    write: Callable[[Job, Any], None]  # an alignment, or a conversation if the transcript has pieces
    channel: int | None = None
    silence: Any = "auto"
    unknown: Any = "noise"


@dataclass(frozen=True)
class Plan:
    """``problems``: recordings that cannot be aligned; ``unknown``: words without an entry, and in how many
    transcripts they occur; ``phones``: all that transcripts give."""

    jobs: tuple[Job, ...]
    problems: tuple[Outcome, ...]
    unknown: dict[str, int]
    phones: tuple[str, ...] = ()


@dataclass(frozen=True)
class TranscriptOptions:
    """How transcripts are read: their ``encoding``; of TextGrids, the ``tiers`` (None: all) and whether the
    times of words are kept; what becomes of ``unknown`` words; the ``alphabet`` of phones, or ("auto") the
    one that is ``preferred`` where they do not tell."""

    encoding: str | None = None
    tiers: tuple[str, ...] | None = None
    keep_words: bool = False
    unknown: str = "noise"
    alphabet: str = "auto"
    preferred: str = "ipa"


def plan_jobs(
    recordings: Sequence[PathLike],
    output: PathLike,
    transcript: Transcript | None = None,
    transcripts: PathLike | None = None,
    dictionary: Dictionary | None = None,
    options: TranscriptOptions | None = None,
) -> Plan:
    """The jobs for files and folders of recordings.

    Results go to ``output``, in the same places as in the given folders. ``transcript`` applies to every
    recording; otherwise each has its own beside it, or in the same place under ``transcripts``.
    """
    how = options or TranscriptOptions()
    check_unknown_words(how.unknown)
    jobs, problems = [], []
    unknown: Counter[str] = Counter()
    taken: dict[Path, Path] = {}
    for audio, place in _recordings(recordings):
        target = Path(output, place)
        if target in taken:
            raise DataError(
                f"{taken[target]} and {audio} would both be written to {target}; write them to two folders"
            )
        taken[target] = audio
        base = audio.with_suffix("") if transcripts is None else Path(transcripts, place)
        try:
            said = transcript or find_transcript(
                base, dictionary is not None, how.encoding, how.tiers, how.keep_words
            )
            if dictionary is not None:
                missing = dictionary.missing(said.all_words)
                unknown.update(missing)
                if missing and how.unknown == "error":
                    dictionary.require(missing)
        except DataError as error:
            problems.append(Outcome(audio, str(error)))
        else:
            jobs.append(Job(audio, target, said))
    if not taken:
        raise DataError(
            f"{', '.join(str(path) for path in recordings)}: no recordings here ({' '.join(AUDIO_SUFFIXES)})"
        )
    phones = tuple(dict.fromkeys(phone for job in jobs for phone in job.transcript.all_phones))
    return Plan(_with_alphabets(jobs, phones, how), tuple(problems), dict(unknown.most_common()), phones)


def _with_alphabets(jobs: Sequence[Job], phones: Sequence[str], how: TranscriptOptions) -> tuple[Job, ...]:
    """Jobs with the alphabets of their phones: each tells its own, or else all together."""
    if how.alphabet != "auto":
        return tuple(replace(job, alphabet=check_alphabet(how.alphabet)) for job in jobs)
    usual = guess_alphabet(phones, how.preferred)
    return tuple(
        replace(job, alphabet=guess_alphabet(job.transcript.all_phones, usual))
        if job.transcript.all_phones
        else job
        for job in jobs
    )


def _recordings(paths: Sequence[PathLike]) -> Iterator[tuple[Path, Path]]:
    """Each recording and its place in the output: without suffix, below the given folder."""
    for path in map(Path, paths):
        if path.is_dir():
            for audio in find_files(path, AUDIO_SUFFIXES):
                yield audio, audio.relative_to(path).with_suffix("")
        elif path.exists():
            yield path, Path(path.stem)
        else:
            raise DataError(f"{path}: no such file or folder; give recordings or a folder of them")


def align_jobs(work: Work, jobs: Sequence[Job], n_jobs: int = 1) -> Iterator[Outcome]:
    """Align and write every job; outcomes come as they are ready, in no particular order."""
    waiting = iter(jobs)
    processes = max(1, min(n_jobs, len(jobs)))
    while True:
        suspects: list[Job] = []
        yield from _run(work, waiting, processes, suspects)
        if not suspects:
            return
        for job in suspects:
            deadly: list[Job] = []
            remove_partial(job.target)  # processes that outlived the dead one were ended while writing
            yield from _run(work, iter([job]), 1, deadly, alone=True)
            if deadly:
                remove_partial(job.target)
                yield Outcome(job.audio, _DIED)


def _run(
    work: Work, waiting: Iterator[Job], processes: int, lost: list[Job], alone: bool = False
) -> Iterator[Outcome]:
    """Run jobs until there are no more, or until the pool breaks; the jobs in flight are then ``lost``."""
    with _pool(work, processes, alone) as (pool, align):
        running: dict[Future[Outcome], Job] = {}
        while True:
            for job in islice(waiting, 0 if lost else _IN_FLIGHT * processes - len(running)):
                try:
                    running[pool.submit(align, job)] = job
                except BrokenProcessPool:
                    lost.append(job)
                    break
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                problem = future.exception()
                if isinstance(problem, BrokenProcessPool):
                    lost.append(job)
                elif problem is not None:
                    yield Outcome(job.audio, _describe(problem))
                else:
                    yield future.result()


@contextmanager
def _pool(work: Work, processes: int, alone: bool) -> Iterator[tuple[Executor, Callable[[Job], Outcome]]]:
    """A pool, and its function for a job. One job at a time needs no other process, unless ``alone``."""
    pool: Executor
    if processes == 1 and not alone:
        pool, align = ThreadPoolExecutor(1), _Worker(work).align
    else:
        # Fresh interpreters: forking a process that has threads (those of BLAS, ours) can hang it.
        context = get_context("spawn")
        pool = ProcessPoolExecutor(processes, context, initializer=_start_worker, initargs=(work,))
        align = _align
    with threadpool_limits(1):  # as in the processes: sums are the same, to the last digit, for any number
        try:
            yield pool, align
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _describe(problem: BaseException) -> str:
    if isinstance(problem, TrellisError | OSError):
        return str(problem)
    return f"{type(problem).__name__}: {problem} (this is a defect of Trellis; please report it)"


class _Worker:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._aligner, self._dictionary = work.open_model()

    def align(self, job: Job) -> Outcome:
        said, work = job.transcript, self._work
        how: dict[str, Any] = {"silence": work.silence, "unknown": work.unknown, "alphabet": job.alphabet}
        result: Alignment | Conversation
        if said.pieces:
            how["dictionary"] = self._dictionary
            result = align_pieces(self._aligner, job.audio, said.pieces, channel=work.channel, **how)
        else:
            how["dictionary"] = None if said.words is None else self._dictionary
            result = self._aligner.align(
                job.audio, phones=said.phones, words=said.words, channel=work.channel, **how
            )
        job.target.parent.mkdir(parents=True, exist_ok=True)
        work.write(job, result)
        match = result.match if isinstance(result, Alignment) else None
        return Outcome(job.audio, None, result.flags, float(result.duration or 0.0), match)


_workers: list[_Worker] = []  # the only one of a process of the pool


def _start_worker(work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the run; the current job is finished
    _workers.append(_Worker(work))
    threadpool_limits(1)  # after the libraries are loaded; the processes share the cores


def _align(job: Job) -> Outcome:
    return _workers[0].align(job)
