"""Corpora: recordings and what is said in them, in the layouts in which speech corpora are distributed.

Every reader pairs label files with recordings of the same name, reads the labels at once (so that mistakes
show before training) and the sound later, when it is needed. A reference then

* covers the whole recording: gaps are silence, and so is what follows the last label; gaps under 20 ms go to
  the phone before them, because nothing that short can be aligned;
* has no silences among its words, only gaps between them;
* writes every silence as ``sil`` and has no two silences in a row (:mod:`trellis.speech.phones.silence`);
* is as long as its recording; phones that end more than 0.1 s later belong to another one: an error.

A file that cannot be used is an error, unless ``skip_bad`` is set: then it is left out, and
:attr:`Corpus.skipped` says why.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack, overload

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.corpus.corpus_files import find_label_files, guess_layout, read_list, timit_split
from trellis.speech.corpus.corpus_readers import (
    RuleOptions,
    Rules,
    read_beside,
    read_ctm_corpus,
    read_timit,
)
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.formats.json_csv import read_json
from trellis.speech.formats.label_lines import read_lab
from trellis.speech.formats.textgrid import read_textgrid

__all__ = ["Corpus", "Utterance"]
LAYOUTS = ("timit", "textgrids", "labs", "ctm", "json")  # methods of Corpus


@dataclass(frozen=True)
class Corpus(Sequence[Utterance]):
    """Utterances in the order of their ids; ``skipped``: the files that were left out, with the reason.

    Examples
    --------
    >>> from trellis.speech import synthetic_corpus
    >>> corpus = synthetic_corpus()
    >>> corpus.skipped
    ()
    """

    utterances: tuple[Utterance, ...]
    skipped: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "utterances", tuple(self.utterances))

    def __len__(self) -> int:
        return len(self.utterances)

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self.utterances)

    @overload
    def __getitem__(self, index: int) -> Utterance: ...
    @overload
    def __getitem__(self, index: slice) -> Corpus: ...
    def __getitem__(self, index: int | slice) -> Utterance | Corpus:
        if isinstance(index, slice):
            return Corpus(self.utterances[index])
        return self.utterances[index]

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups in the order of their names."""
        return tuple(sorted({utterance.group for utterance in self}))

    def in_groups(self, groups: Collection[str]) -> Corpus:
        """The utterances of these groups."""
        unknown = sorted(set(groups) - set(self.groups))
        if unknown:
            known = ", ".join(self.groups)
            raise DataError(f"the corpus has no group {', '.join(unknown)}; its groups are {known}")
        return Corpus(tuple(u for u in self if u.group in groups))

    def select(self, ids: Iterable[str] | PathLike) -> Corpus:
        """The utterances with these ids in this order, or with those of a file with one id per line."""
        wanted = read_list(ids) if isinstance(ids, str | os.PathLike) else list(ids)
        by_id = {u.id: u for u in self}
        unknown = [name for name in wanted if name not in by_id]
        if unknown:
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            raise DataError(
                f"the corpus has no utterance {', '.join(unknown[:5])}{more}; "
                f"its ids look like {next(iter(by_id), '(it is empty)')}"
            )
        return Corpus(tuple(by_id[name] for name in wanted))

    @classmethod
    def read(cls, root: PathLike, layout: str | None = None, **options: Any) -> Corpus:
        """A corpus in one of :data:`LAYOUTS`, detected if not given; ``options`` are those of the layout."""
        chosen = layout or guess_layout(root)
        if chosen not in LAYOUTS:
            raise DataError(f"there is no corpus layout {chosen!r}; choose one of {', '.join(LAYOUTS)}")
        corpus: Corpus = getattr(cls, chosen)(root, **options)
        return corpus

    @classmethod
    def textgrids(
        cls,
        root: PathLike,
        audio: PathLike | None = None,
        phones: str | None = None,
        words: str | None = None,
        **rules: Unpack[RuleOptions],
    ) -> Corpus:
        """A folder (and its folders) of Praat TextGrids; ``phones`` and ``words`` name the tiers.

        Recordings lie beside the TextGrids, or in the same places under ``audio``. As in all layouts,
        ``silences`` are the labels of silence, ``channel`` the channel to use of several, ``skip_bad`` leaves
        out files that cannot be used, and ``encoding`` is that of the labels.
        """
        read = partial(read_textgrid, phones=phones, words=words)
        return cls(*read_beside(root, ".textgrid", audio, read, Rules(**rules)))

    @classmethod
    def labs(cls, root: PathLike, audio: PathLike | None = None, **rules: Unpack[RuleOptions]) -> Corpus:
        """A folder of HTK label files of phones."""
        return cls(*read_beside(root, ".lab", audio, read_lab, Rules(**rules)))

    @classmethod
    def json(cls, root: PathLike, audio: PathLike | None = None, **rules: Unpack[RuleOptions]) -> Corpus:
        """A folder of alignments that Trellis wrote as JSON."""
        return cls(*read_beside(root, ".json", audio, read_json, Rules(**rules)))

    @classmethod
    def ctm(
        cls,
        path: PathLike,
        audio: PathLike | None = None,
        words: PathLike | None = None,
        **rules: Unpack[RuleOptions],
    ) -> Corpus:
        """A CTM file of phones (and one of words); its ids are names of recordings under ``audio``."""
        return cls(*read_ctm_corpus(path, audio, words, Rules(**rules)))

    @classmethod
    def timit(
        cls, root: PathLike, split: PathLike | None = None, sa: bool = False, **rules: Unpack[RuleOptions]
    ) -> Corpus:
        """TIMIT as it is distributed, in upper or lower case: ``.WAV`` (SPHERE), ``.PHN`` and ``.WRD``.

        ``split`` is ``"train"``, ``"test"`` or a file with one id (``train/dr1/fcjf0/sx37``) per line. The SA
        sentences, which all speakers read, are left out unless ``sa``. Ids are lower case, groups speakers.
        """
        files = [f for f in find_label_files(root, ".phn") if sa or not f.stem.lower().startswith("sa")]
        named = split in ("train", "test")
        if named:
            files = timit_split(files, root, str(split))
        corpus = cls(*read_timit(root, files, Rules(**rules)))
        if split is None or named:
            return corpus
        return replace(corpus.select(split), skipped=corpus.skipped)
