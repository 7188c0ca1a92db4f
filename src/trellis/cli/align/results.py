"""What ``trellis align run`` writes for each recording: alignments in the chosen formats, and a page.

Several speakers share one TextGrid; each has a file of every other format, and a page: ``talk - anna.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trellis.core.errors import DataError, UnsupportedError
from trellis.speech.align.batch_alignment import Job
from trellis.speech.formats import FORMATS
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.conversation import Conversation

_READ_AS_TRANSCRIPT = ("lab", "audacity")  # .lab and .txt beside a recording
_TEXTGRID = FORMATS["textgrid"].suffixes[0]
_NOT_IN_NAMES = re.compile(r'[\\/:*?"<>|\x00-\x1f]')


@dataclass(frozen=True)
class Results:
    """Writes the alignment of a job when called; a record rather than a closure, to be sent to processes."""

    formats: tuple[str, ...]
    page: bool = False
    references: Mapping[str, Callable[[], Alignment]] | None = None
    channel: int | None = None

    def paths(self, job: Job) -> list[Path]:
        """The files of a job: one per format, TIMIT's words beside its phones, and the page."""
        names = [_file_name(job, speaker) for speaker in job.transcript.speakers or ("",)]
        shared = [_TEXTGRID] if "textgrid" in self.formats else []
        return [
            *(job.target.with_name(job.target.name + suffix) for suffix in shared),
            *(job.target.with_name(name + suffix) for name in names for suffix in self._suffixes(job)),
        ]

    def _suffixes(self, job: Job) -> list[str]:
        """Those of the files of one speaker, TextGrids apart."""
        suffixes = [FORMATS[name].suffixes[0] for name in self.formats if name != "textgrid"]
        if "phn" in self.formats and job.transcript.all_words:
            suffixes.append(".wrd")
        return [*suffixes, ".html"] if self.page else suffixes

    def check(self, job: Job) -> None:
        """Refuse formats whose files would be read as the transcript, or replace it, and ambiguous
        references."""
        self._reference(job)
        said = job.transcript.path
        if self.references is not None and any(job.transcript.speakers):
            raise UnsupportedError(
                f"{job.audio}: --reference is for one speaker, and this recording has several; leave it out"
            )
        replaced = said and said.resolve() in [path.resolve() for path in self.paths(job)]
        if replaced:
            raise UnsupportedError(
                f"{said}: the result would overwrite the transcript; choose another folder with -o"
            )
        beside = {job.audio.with_suffix("").resolve(), *([said.with_suffix("").resolve()] if said else [])}
        clash = [name for name in self.formats if name in _READ_AS_TRANSCRIPT]
        if clash and job.target.resolve() in beside:
            raise UnsupportedError(
                f"{job.audio}: {clash[0]} files in this folder would be read as transcripts; choose another "
                "folder with -o"
            )

    def __call__(self, job: Job, result: Alignment | Conversation) -> None:
        if "textgrid" in self.formats:
            result.to_textgrid(job.target.with_name(job.target.name + _TEXTGRID))
        speakers = result.speakers if isinstance(result, Conversation) else {"": result}
        for speaker, alignment in speakers.items():
            for suffix in self._suffixes(job):
                path = job.target.with_name(_file_name(job, speaker) + suffix)
                if suffix == ".html":
                    self._write_page(path, job, alignment, speaker)
                else:
                    alignment.write(path)

    def _write_page(self, path: Path, job: Job, alignment: Alignment, speaker: str) -> None:
        from trellis.report.alignment_page import write_alignment_page

        title = f"{job.audio.name} - {speaker}" if speaker else job.audio.name
        read = self._reference(job)
        reference = None if read is None else read()
        write_alignment_page(path, job.audio, alignment, reference, title=title, channel=self.channel)

    def _reference(self, job: Job) -> Callable[[], Alignment] | None:
        """The reader of the reference at the same place, or else of the only one with the same name."""
        references = self.references or {}
        here = [key for key in references if f"/{job.target.as_posix()}".endswith(f"/{key}")]
        named = here or [key for key in references if key.rpartition("/")[2] == job.target.name]
        if len(named) > 1 and not here:
            raise DataError(
                f"{job.audio}: several references are named {job.target.name} ({', '.join(named)}); arrange "
                "the references in the same folders as the recordings"
            )
        return references[max(named, key=len)] if named else None


def _file_name(job: Job, speaker: str) -> str:
    """Without suffix; a speaker's name may hold what no file's can."""
    return f"{job.target.name} - {_NOT_IN_NAMES.sub('_', speaker)}" if speaker else job.target.name
