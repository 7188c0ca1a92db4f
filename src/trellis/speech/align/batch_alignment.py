"""Batches of recordings, here, in several processes or on a cluster; a bad one does not stop the rest.

A *job* is one recording, its transcript, and where its results go. Results appear under their names only when
they are complete, so an interrupted run can be resumed: a job is done if all its files exist and none is
older than the recording, the transcript or the model.

Where they run, and what becomes of those that a dead process had, is for :mod:`trellis.core.backends`: a job
that kills its process (out of memory, say) is reported as failed, and the others are not.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trellis.core.backends import as_backend
from trellis.core.backends.item_map import Failure, map_items
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
            f"{', '.join(str(path) for path in recordings)}: there are no recordings here "
            f"({' '.join(AUDIO_SUFFIXES)})"
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


def align_jobs(work: Work, jobs: Sequence[Job], n_jobs: int = 1, backend: Any = None) -> Iterator[Outcome]:
    """Align and write every job; outcomes come as they are ready, in no particular order.

    In ``n_jobs`` processes of this machine, each of which loads the model and writes results; or where
    ``backend`` says (:func:`trellis.core.backends.as_backend`): the model travels there once, and results
    come back to be written here, so that workers need to see nothing but the recordings.
    """
    place = as_backend(backend)
    if place is not None:
        opened = work.open_model()
        make = partial(_Worker, replace(work, open_model=partial(_given, *opened), write=_nothing))
    else:
        make = partial(_Worker, work)
    for i, answer in map_items(make, jobs, n_processes=n_jobs, backend=place):
        job = jobs[i]
        if isinstance(answer, Failure):
            remove_partial(job.target)  # of processes that died while writing
            yield Outcome(job.audio, _DIED if answer.error is None else _describe(answer.error))
            continue
        outcome, result = answer
        if place is not None:
            try:
                _write(work, job, result)
            except (TrellisError, OSError) as error:
                outcome = Outcome(job.audio, _describe(error))
        yield outcome


def _describe(problem: BaseException) -> str:
    if isinstance(problem, TrellisError | OSError):
        return str(problem)
    return f"{type(problem).__name__}: {problem} (this is a defect of Trellis; please report it)"


def _given(aligner: Aligner, dictionary: Dictionary | None) -> tuple[Aligner, Dictionary | None]:
    return aligner, dictionary


def _nothing(job: Job, result: Any) -> None:
    """Results are written where they are asked for."""


def _write(work: Work, job: Job, result: Any) -> None:
    job.target.parent.mkdir(parents=True, exist_ok=True)
    work.write(job, result)


class _Worker:
    """Aligns jobs; what comes back is the outcome, and the result where it is not written yet."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._aligner, self._dictionary = work.open_model()

    def __call__(self, job: Job) -> tuple[Outcome, Alignment | Conversation | None]:
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
        match = result.match if isinstance(result, Alignment) else None
        outcome = Outcome(job.audio, None, result.flags, float(result.duration or 0.0), match)
        if work.write is _nothing:
            return outcome, result
        _write(work, job, result)
        return outcome, None
