"""The corpus layouts, each read into utterances whose references follow the rules of :mod:`.corpus`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.audio.recordings import audio_info
from trellis.speech.corpus.corpus_files import AudioFinder, find_label_files, timit_audio
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.ctm import read_ctm_file
from trellis.speech.formats.label_lines import read_phn
from trellis.speech.phones.silence import SILENCE, SILENCES, is_silence

_MAX_EXCESS = 0.1  # seconds by which labels may end after their recording
_MIN_GAP = 0.02  # seconds; a shorter gap cannot be aligned as a silence

Entry = tuple[str, Path, Alignment]  # id, recording, labels as they are in the file
Read = tuple[tuple[Utterance, ...], tuple[tuple[str, str], ...]]  # utterances; files left out and why


class RuleOptions(TypedDict, total=False):
    """The fields of :class:`Rules`, as keyword arguments."""

    silences: Collection[str]
    channel: int | None
    skip_bad: bool
    encoding: str | None


@dataclass(frozen=True)
class Rules:
    """What holds for every layout: the labels of silence, the channel, whether to skip bad files, and the
    character encoding of labels (None: UTF-8, or UTF-16 with its mark)."""

    silences: Collection[str] = SILENCES
    channel: int | None = None
    skip_bad: bool = False
    encoding: str | None = None


def read_beside(
    root: PathLike, suffix: str, audio: PathLike | None, read: Callable[..., Alignment], rules: Rules
) -> Read:
    """Label files with recordings of the same name beside them, or in the same places under ``audio``."""
    files = find_label_files(root, suffix)
    base = Path(root) if os.path.isdir(root) else Path(root).parent
    finder = AudioFinder(base if audio is None else Path(audio))

    def entry(path: Path) -> Entry:
        name = path.relative_to(base).with_suffix("").as_posix()
        return name, finder.find(name), read(path, encoding=rules.encoding)

    return _collect(((path, path.parent.name) for path in files), entry, rules)


def read_ctm_corpus(path: PathLike, audio: PathLike | None, words: PathLike | None, rules: Rules) -> Read:
    """A CTM file of phones, and one of words; ids are the names of the recordings."""
    phones = read_ctm_file(path, encoding=rules.encoding)
    spoken = {} if words is None else read_ctm_file(words, "words", rules.encoding)
    finder = AudioFinder(Path(path).parent if audio is None else Path(audio))

    def entry(name: Path) -> Entry:
        id = name.as_posix()
        sound = finder.find(id)
        return id, sound, _with_words(phones[id], spoken.get(id))

    return _collect(((Path(id), Path(id).parent.name) for id in phones), entry, rules)


def read_timit(root: PathLike, files: Sequence[Path], rules: Rules) -> Read:
    """The ``.PHN`` files ``files`` below ``root``, with ``.WAV`` and, if there, ``.WRD`` beside them."""

    def entry(path: Path) -> Entry:
        spoken = next((p for p in map(path.with_suffix, (".WRD", ".wrd")) if p.is_file()), None)
        words = None if spoken is None else read_phn(spoken, "words", encoding=rules.encoding)
        reference = _with_words(read_phn(path, "phones", encoding=rules.encoding), words)
        return path.relative_to(root).with_suffix("").as_posix().lower(), timit_audio(path), reference

    return _collect(((path, path.parent.name.lower()) for path in files), entry, rules)


def _with_words(phones: Alignment, words: Alignment | None) -> Alignment:
    if words is None:
        return phones
    return replace(phones, words=words.words, duration=max(phones.duration or 0.0, words.duration or 0.0))


def _collect(sources: Iterable[tuple[Path, str]], entry: Callable[[Path], Entry], rules: Rules) -> Read:
    utterances, skipped = [], []
    for source, group in sources:
        try:
            id, sound, labels = entry(source)
            reference = _make_reference(labels, sound, rules.silences)
        except DataError as error:
            if not rules.skip_bad:
                raise
            skipped.append((str(source), str(error)))
            continue
        utterances.append(Utterance(id, sound, reference, group=group, channel=rules.channel))
    return tuple(sorted(utterances, key=lambda u: u.id)), tuple(skipped)


def _make_reference(labels: Alignment, sound: Path, silences: Collection[str]) -> Alignment:
    """The labels as a reference: as long as the recording, without gaps, every silence written ``sil``."""
    duration = audio_info(sound).duration
    last = max((p.end for p in labels.phones if not is_silence(p.label, silences)), default=0.0)
    if not labels.phones:
        raise DataError(f"{labels.source}: no phones; label the recording or leave it out")
    if last > duration + _MAX_EXCESS:
        raise DataError(
            f"{labels.source}: the last phone ends at {last:.3f} s but {sound} at {duration:.3f} s; "
            "pair them with the right recording"
        )
    labels = labels.truncate(duration)
    words = tuple(word for word in labels.words if not is_silence(word.label, silences))
    whole = replace(labels, words=()).filled(SILENCE, _MIN_GAP).normalise_silence(silences)
    return replace(whole, words=words)
