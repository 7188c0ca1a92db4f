"""All recordings of a folder with their alignments, sounds and pictures."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from trellis.core.errors import DataError
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.batch_alignment import Job, TranscriptOptions, plan_jobs
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.phones.silence import SILENCE
from trellis.studio.folder import Folder
from trellis.studio.picture_tiles import PictureTiles
from trellis.studio.recording_desk import RecordingDesk
from trellis.studio.sound_pieces import PieceCache, SoundPieces

_OPEN = 12  # recordings whose sound and pictures are kept
_SHORTEST_SILENCE = 0.02  # seconds; a shorter gap cannot be aligned
OpenModel = Callable[[str], tuple[Aligner, Dictionary | None]]


@dataclass(frozen=True)
class Settings:
    """``open_model(path)`` loads an aligner and the dictionary in any process; the rest is as in ``run``."""

    model: str
    folder: Path
    open_model: OpenModel
    transcripts: Path | None = None
    channel: int | None = None
    n_jobs: int = 1
    encoding: str | None = None
    save_model: Path | None = None


@dataclass(frozen=True)
class Media:
    """The sound of a recording and the pictures of it."""

    sound: SoundPieces
    tiles: PictureTiles = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiles", PictureTiles(self.sound))


class Workspace:
    """Recordings by their numbers, which are all that a page can ask for."""

    def __init__(self, settings: Settings, dictionary: Dictionary | None) -> None:
        self.settings = settings
        self.folder = Folder(settings.folder)
        self.save_model = settings.save_model or self.folder.model
        plan = plan_jobs(
            [self.folder.root],
            self.folder.aligned,
            transcripts=settings.transcripts,
            dictionary=dictionary,
            options=TranscriptOptions(encoding=settings.encoding),
        )
        self.jobs: dict[str, Job] = {self.folder.name(job.audio): job for job in plan.jobs}
        problems = {self.folder.name(found.audio): found.problem for found in plan.problems}
        self.unknown = plan.unknown
        names = sorted({*self.jobs, *problems})
        self.desks = tuple(RecordingDesk(self.folder, name) for name in names)
        for desk in self.desks:
            if problems.get(desk.name):
                desk.fail(str(problems[desk.name]))
        self.numbers = {desk.name: number for number, desk in enumerate(self.desks)}
        self._media: OrderedDict[int, Media] = OrderedDict()
        self._cache, self._lock = PieceCache(), threading.Lock()

    def desk(self, number: int) -> RecordingDesk:
        if not 0 <= number < len(self.desks):
            raise DataError(f"there is no recording {number}")
        return self.desks[number]

    def media(self, number: int) -> Media:
        """The sound and the pictures of a recording; those of the last few are kept."""
        audio = self.folder.check_inside(self.desk(number).audio)
        key = _content_key(audio)
        with self._lock:
            if number not in self._media or self._media[number].sound.key != key:
                self._media[number] = Media(SoundPieces(audio, self.settings.channel, self._cache, key))
                while len(self._media) > _OPEN:
                    self._media.popitem(last=False)
            self._media.move_to_end(number)
            return self._media[number]

    def listing(self) -> list[dict[str, Any]]:
        """What the list shows of every recording, in the order of their numbers."""
        return [
            {"id": number, "name": desk.name, "duration": desk.duration, **asdict(desk.summary())}
            for number, desk in enumerate(self.desks)
        ]

    def to_align(self) -> list[Job]:
        """The jobs of recordings that no person has aligned."""
        return [
            self.jobs[desk.name]
            for desk in self.desks
            if desk.name in self.jobs and not desk.is_corrected and desk.state != "failed"
        ]

    def corrected(self) -> Corpus:
        """What people corrected, as a corpus to learn from."""
        found = []
        for desk in self.desks:
            now = desk.alignment
            if now is not None and desk.is_corrected:
                phones = replace(now, words=()).filled(SILENCE, _SHORTEST_SILENCE).normalise_silence()
                reference = replace(phones, words=now.words, confidence=None, flags=())
                group = Path(desk.name).parent.name
                channel = self.settings.channel
                found.append(Utterance(desk.name, desk.audio, reference, group=group, channel=channel))
        if not found:
            raise DataError("no recording is corrected yet; correct at least one, and learn again")
        return Corpus(tuple(found))


def _content_key(audio: Path) -> str:
    """Other sound has another key: browsers keep pictures under it."""
    try:
        found = os.stat(audio)
    except OSError as error:
        why = f"{audio}: it cannot be read any more ({error.strerror}); open the folder again"
        raise DataError(why) from error
    shown = f"{os.path.realpath(audio)} {found.st_mtime_ns} {found.st_size}"
    return hashlib.sha256(shown.encode(errors="surrogateescape")).hexdigest()[:16]
