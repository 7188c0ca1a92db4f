"""``trellis align run``: align recordings to their transcripts."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.align.choices import AlignmentFormat, Alphabet, Language, Silence, UnknownWords
from trellis.cli.console import STDOUT, note
from trellis.cli.options import Encoding, argument, option
from trellis.cli.places import Cluster, LocalCluster, chosen_place
from trellis.cli.process import stop_code
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.progress import terminal_bar

if TYPE_CHECKING:
    from trellis.cli.align.results import Results
    from trellis.speech.align.batch_alignment import Job, Outcome, Plan, Work
    from trellis.speech.corpus.dictionary import Dictionary

_MAX_NAMED = 10  # phones in a note

Model = Annotated[
    str, argument("MODEL", "Model that trellis align train wrote, or builtin, which comes with Trellis.")
]
Audio = Annotated[list[str], argument("AUDIO...", "Recordings, or folders of them.")]
Output = Annotated[str, option("-o --output DIR", "Folder for the results.")]
Phones = Annotated[
    str | None, option("--phones PHONES|FILE", "Phones spoken in every recording, or a file of them.")
]
Words = Annotated[
    str | None, option("--words WORDS|FILE", "Words spoken in every recording, or a file of them.")
]
Transcripts = Annotated[
    str | None, option("--transcripts DIR", "Folder of transcripts, if they are not beside the recordings.")
]
DictionaryFile = Annotated[
    str | None, option("-d --dictionary FILE", "Pronunciations of words, in the format of CMU or MFA.")
]
LanguageOption = Annotated[
    Language | None, option("--language", "Take pronunciations from CMU's dictionary and guess the others.")
]
StripStress = Annotated[
    bool, option("--strip-stress", "Remove stress digits from the dictionary's phones (AH0 becomes AH).")
]
Tiers = Annotated[
    str | None, option("--tiers NAMES", "Tiers of TextGrids to read, separated by commas; by default, all.")
]
KeepWords = Annotated[
    bool, option("--keep-words", "Keep the times of words in TextGrids, and align phones within each.")
]
Unknown = Annotated[
    UnknownWords,
    option("--unknown", "Words that are not in the dictionary: align them as noise, skip them, or fail."),
]
AlphabetOption = Annotated[
    Alphabet, option("--alphabet", "Alphabet of the phones and of the dictionary; auto guesses it.")
]
SilenceOption = Annotated[
    Silence, option("--silence", "Where pauses may be: at both ends and between words (auto), or nowhere.")
]
To = Annotated[str, option("--to FORMATS", f"Any of {', '.join(AlignmentFormat)}, separated by commas.")]
Page = Annotated[bool, option("--page", "Also write an HTML page on which to see and hear the result.")]
ReferenceOption = Annotated[
    str | None, option("--reference DIR", "Alignments with the same names, to show on the pages.")
]
Channel = Annotated[int | None, option("--channel N", "Channel to use, counted from 0.", min=0)]
Jobs = Annotated[int, option("-j --jobs N", "Number of processes.", min=1)]
Resume = Annotated[bool, option("--resume", "Skip recordings whose results exist and are up to date.")]
Quiet = Annotated[bool, option("-q --quiet", "Print nothing but problems.")]


def run(
    model: Model,
    audio: Audio,
    output: Output,
    phones: Phones = None,
    words: Words = None,
    transcripts: Transcripts = None,
    tiers: Tiers = None,
    keep_words: KeepWords = False,
    dictionary: DictionaryFile = None,
    language: LanguageOption = None,
    strip_stress: StripStress = False,
    unknown: Unknown = UnknownWords.noise,
    alphabet: AlphabetOption = Alphabet.auto,
    silence: SilenceOption = Silence.auto,
    to: To = "textgrid",
    page: Page = False,
    reference: ReferenceOption = None,
    channel: Channel = None,
    encoding: Encoding = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    local_cluster: LocalCluster = None,
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Align recordings to their transcripts.

    Unless you give one, the transcript of talk.wav is talk.phones, talk.txt, talk.lab (words) or
    talk.TextGrid (utterances, one tier for each speaker) beside it. A recording that cannot be aligned does
    not stop the others: it is listed at the end, and the exit code is 1.
    """
    from trellis.cli.align import models
    from trellis.cli.align.results import Results
    from trellis.core.output_files import check_folder
    from trellis.speech.align.batch_alignment import TranscriptOptions, Work, plan_jobs
    from trellis.speech.corpus.transcripts import parse_transcript

    transcript = parse_transcript(phones, words, encoding)
    if dictionary is not None and language is not None:
        raise UnsupportedError("--dictionary and --language cannot be combined; give only one of them")
    if words is not None and dictionary is None and language is None:
        raise UnsupportedError("--words needs a --dictionary, or --language english")
    if reference is not None and not page:
        raise UnsupportedError("--reference needs --page, because only pages show references")
    if output == STDOUT:
        raise UnsupportedError("each recording gets its own file; give -o a folder, not -")
    check_folder(output)
    formats = _formats(to)
    open_model = partial(models.open_aligner, model, dictionary, strip_stress, encoding, language)
    aligner, pronunciations = open_model()
    names = None if tiers is None else tuple(name.strip() for name in tiers.split(",") if name.strip())
    how = TranscriptOptions(encoding, names, keep_words, unknown, alphabet, _alphabet(aligner))
    plan = plan_jobs(audio, output, transcript, transcripts, pronunciations, how)
    results = Results(formats, page, _references(reference, encoding), channel)
    for job in plan.jobs:
        results.check(job)
    _report_unknown(plan, dictionary or language, unknown)
    if not quiet:
        _report_builtin(model, pronunciations)
    if hasattr(aligner, "model_"):
        from trellis.speech.align.plan_checks import check_phones

        plan = check_phones(plan, aligner, pronunciations, alphabet)
    if not plan.jobs:
        raise DataError(_first(plan.problems))
    if alphabet == Alphabet.auto:
        _report_ambiguous(aligner, [plan.phones, pronunciations.phones if pronunciations else ()])
    work = Work(open_model, results, channel, silence, unknown)
    where = {"n_jobs": jobs, "backend": chosen_place(cluster, local_cluster)}
    _align_all(plan, work, results, models.model_path(model), where, resume, quiet)


def _report_builtin(model: str, pronunciations: Dictionary | None) -> None:
    """How good the builtin model is, and which words were pronounced by the model of letters."""
    from trellis.speech import builtin

    if model == builtin.NAME:
        note(builtin.FIGURES.sentence())
    guessed = getattr(pronunciations, "guessed", ())
    if guessed:
        note(
            "these words are not in CMU's dictionary; their pronunciations are guessed from the spelling: "
            f"{' '.join(guessed)}; give a --dictionary if that is wrong"
        )


def _formats(names: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip()))
    for name in chosen or ("",):
        if name not in list(AlignmentFormat):
            raise UnsupportedError(
                f"--to {names}: there is no format {name!r}; choose from {', '.join(AlignmentFormat)}"
            )
    return chosen


def _references(path: str | None, encoding: str | None) -> Any:
    if path is None:
        return None
    from trellis.speech.evaluate.alignment_files import find_alignments

    return find_alignments(path, encoding=encoding)


def _alphabet(aligner: Any) -> str:
    """That of the labels which the model was trained on."""
    model = getattr(aligner, "model_", None)
    return "ipa" if model is None else str(model.acoustics.phones.alphabet)


def _report_ambiguous(aligner: Any, inventories: list[tuple[str, ...]]) -> None:
    """Say which phones are other sounds in another alphabet that they may be written in."""
    from trellis.speech.phones.alphabets import ambiguous, guess_alphabet

    model = getattr(aligner, "model_", None)
    if model is None or not model.acoustics.phones.articulated:
        return
    for phones in inventories:
        unclear = ambiguous(phones)
        if unclear:
            read = guess_alphabet(phones, _alphabet(aligner))
            named = " ".join(unclear[:_MAX_NAMED])
            note(f"these phones exist in several alphabets and are read as {read}: {named}; set --alphabet")


def _report_unknown(plan: Plan, dictionary: str | None, unknown: str) -> None:
    """Report unknown words before anything is aligned, so that the dictionary can be completed first."""
    if plan.unknown:
        count = "1 word is" if len(plan.unknown) == 1 else f"{len(plan.unknown)} words are"
        n = len(plan.problems)
        fate = {
            "noise": "aligned as noise (spn)",
            "skip": "skipped",
            "error": f"recordings that contain them are not aligned ({n} of {n + len(plan.jobs)})",
        }[unknown]
        note(f"{count} not in {dictionary}; {fate}: {' '.join(plan.unknown)}")


def _first(problems: tuple[Outcome, ...]) -> str:
    more = f" (and {len(problems) - 1} more recordings that cannot be aligned)" if len(problems) > 1 else ""
    return f"{problems[0].problem}{more}"


def _align_all(
    plan: Plan, work: Work, results: Results, model: str, where: dict[str, Any], resume: bool, quiet: bool
) -> None:
    from trellis.speech.align.batch_alignment import align_jobs
    from trellis.speech.align.folder_outcomes import judge_by_folder

    began = time.perf_counter()
    jobs: list[Job] = list(plan.jobs)
    if resume:
        jobs = [job for job in jobs if not job.is_done(results.paths(job), model)]
    problems, aligned, seconds = list(plan.problems), [], 0.0
    try:
        with terminal_bar("aligning", len(jobs), False if quiet else None) as update:
            for number, outcome in enumerate(align_jobs(work, jobs, **where), 1):
                seconds += outcome.seconds
                if outcome.problem is not None:
                    problems.append(outcome)
                else:
                    aligned.append(outcome)
                if update is not None:
                    update(number, "aligning")
    except KeyboardInterrupt:
        note("interrupted; the files written so far are complete, and --resume does the rest")
        raise typer.Exit(stop_code() or 130) from None
    if not quiet:
        _summarise(len(aligned), len(plan.jobs) - len(jobs), seconds, began)
    flagged = [outcome for outcome in judge_by_folder(aligned) if outcome.flags]
    for outcome in sorted(flagged, key=lambda o: o.audio):
        note(f"check {outcome.audio}: {'; '.join(outcome.flags)}")
    for outcome in sorted(problems, key=lambda o: o.audio):
        note(f"failed {outcome.audio}: {_without_name(outcome)}")
    if problems:
        raise typer.Exit(1)


def _summarise(aligned: int, skipped: int, seconds: float, began: float) -> None:
    took = time.perf_counter() - began
    before = f", {skipped} were up to date" if skipped else ""
    speed = f", {seconds / took:.0f} times faster than real time" if seconds > took else ""
    many = f"{aligned} recording{'s' * (aligned != 1)} ({seconds:.1f} s of sound)"
    note(f"aligned {many} in {took:.1f} s{speed}{before}")


def _without_name(outcome: Outcome) -> str:
    return str(outcome.problem).removeprefix(f"{outcome.audio}: ")
