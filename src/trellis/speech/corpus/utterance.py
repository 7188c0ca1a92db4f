"""One recording of a corpus and what is said in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trellis.speech.audio.recordings import Recording, load_recording
from trellis.speech.formats.alignment import Alignment
from trellis.speech.phones.silence import is_silence


@dataclass(frozen=True)
class Utterance:
    """``phones`` and ``words`` are what is said, taken from ``reference`` unless given.

    ``group`` is the speaker or language (the folder of the file), for splits that keep groups whole.

    Examples
    --------
    >>> from pathlib import Path
    >>> from trellis.speech import Utterance
    >>> Utterance("hi", Path("hi.wav"), phones=("h", "aɪ")).phones
    ('h', 'aɪ')
    """

    id: str
    audio: Path
    reference: Alignment | None = None
    phones: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    group: str = ""
    channel: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "audio", Path(self.audio))
        object.__setattr__(self, "phones", tuple(self.phones))
        object.__setattr__(self, "words", tuple(self.words))
        if self.reference is None:
            return
        if not self.phones:
            object.__setattr__(self, "phones", self.reference.labels)
        if not self.words:
            words = tuple(w.label for w in self.reference.words if not is_silence(w.label))
            object.__setattr__(self, "words", words)

    def recording(self, rate: int | None = 16000) -> Recording:
        """Read the recording."""
        return load_recording(self.audio, rate, self.channel)
