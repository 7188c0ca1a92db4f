"""What ``trellis align run`` writes for each recording: alignments in the chosen formats, and a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trellis.core.errors import DataError, UnsupportedError
from trellis.speech.align.batch_alignment import Job
from trellis.speech.formats import FORMATS
from trellis.speech.formats.alignment import Alignment

_READ_AS_TRANSCRIPT = ("lab", "audacity")  # .lab and .txt beside a recording


@dataclass(frozen=True)
class Results:
    """Writes the alignment of a job when called; a record rather than a closure, to be sent to processes."""

    formats: tuple[str, ...]
    page: bool = False
    references: Mapping[str, Callable[[], Alignment]] | None = None
    channel: int | None = None

    def paths(self, job: Job) -> list[Path]:
        """The files of a job: one per format, TIMIT's words beside its phones, and the page."""
        suffixes = [FORMATS[name].suffixes[0] for name in self.formats]
        if "phn" in self.formats and job.transcript.words is not None:
            suffixes.append(".wrd")
        if self.page:
            suffixes.append(".html")
        return [job.target.with_name(job.target.name + suffix) for suffix in suffixes]

    def check(self, job: Job) -> None:
        """Refuse formats whose files would be read as the transcript, or replace it, and ambiguous
        references."""
        self._reference(job)
        said = job.transcript.path
        beside = {job.audio.with_suffix("").resolve(), *([said.with_suffix("").resolve()] if said else [])}
        clash = [name for name in self.formats if name in _READ_AS_TRANSCRIPT]
        if clash and job.target.resolve() in beside:
            raise UnsupportedError(
                f"{job.audio}: {clash[0]} files here would be read as transcripts; choose another folder"
            )

    def __call__(self, job: Job, alignment: Alignment) -> None:
        for path in self.paths(job):
            if path.suffix != ".html":
                alignment.write(path)
                continue
            from trellis.report.alignment_page import write_alignment_page

            title = job.audio.name
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
                f"{job.audio}: several references are called {job.target.name} ({', '.join(named)}); give "
                "folders below which the names are the same"
            )
        return references[max(named, key=len)] if named else None
