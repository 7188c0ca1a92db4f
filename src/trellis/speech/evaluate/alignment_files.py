"""Two sets of alignment files, paired by name and compared.

A set is one file, a folder (searched recursively) with one file per recording, or a CTM file of many
recordings. Names are file names without suffix, or paths below the folder where a name occurs twice. Where a
folder has a recording in several formats, the first of :data:`ORDER` is read. A TextGrid of several speakers
is one alignment for each, called "name - speaker".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.corpus.corpus_files import find_files
from trellis.speech.evaluate.boundary_evaluation import (
    TOLERANCES_MS,
    AlignmentEvaluation,
    evaluate_alignments,
)
from trellis.speech.formats import FORMATS, get_format
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.ctm import read_ctm_file
from trellis.speech.formats.text_files import read_text
from trellis.speech.formats.textgrid import read_textgrid_tiers, split_speaker

# Text files are more often transcripts than Audacity's labels, which are read only on request.
ORDER = ("textgrid", "elan", "json", "csv", "phn", "ctm", "lab")

Readers = Mapping[str, Callable[[], Alignment]]


def find_alignments(
    path: PathLike, format: str | None = None, phones: str | None = None, encoding: str | None = None
) -> Readers:
    """A function that reads each alignment, by its path below ``path``. ``phones`` names the tier in
    TextGrids and in ELAN files."""
    root = Path(path)
    if root.is_file():
        entry = get_format(root, format)
        if entry.name == "ctm":
            return {name: partial(_same, one) for name, one in read_ctm_file(root, encoding=encoding).items()}
        return _readers(root, root.stem, entry.name, phones, encoding)
    names = ORDER if format is None else (get_format(root, format).name,)
    found: dict[str, Callable[[], Alignment]] = {}
    seen: set[str] = set()
    for name in names:
        suffixes = {s.lower() for s in FORMATS[name].suffixes} - {".wrd"}
        for file in find_files(root, suffixes):
            key = file.relative_to(root).with_suffix("").as_posix()
            if key not in seen:
                found |= _readers(file, key, name, phones, encoding)
                seen.add(key)
    if not found:
        raise DataError(f"{root}: no alignments here ({', '.join(names)}); check the folder or the format")
    return dict(sorted(found.items()))


def evaluate_files(
    references: Readers, hypotheses: Readers, tolerances_ms: tuple[float, ...] = TOLERANCES_MS
) -> AlignmentEvaluation:
    """Read and compare files of the same name; one that cannot be read is left out, with the reason."""
    if len(references) == len(hypotheses) == 1:  # two single files belong together whatever their names
        (name,) = references
        hypotheses = {name: next(iter(hypotheses.values()))}
    elif _unique_names(references) and _unique_names(hypotheses):
        references, hypotheses = (
            {key.rpartition("/")[2]: read for key, read in readers.items()}
            for readers in (references, hypotheses)
        )
    shared = [name for name in references if name in hypotheses]
    if not shared:
        raise DataError(
            f"no hypothesis has the name of a reference ({next(iter(references))} against "
            f"{next(iter(hypotheses))}, for instance); give folders below which the names are the same"
        )
    left_out = [(name, "there is no hypothesis") for name in references if name not in hypotheses]
    left_out += [(name, "there is no reference") for name in hypotheses if name not in references]
    true, found = {}, {}
    for name in shared:
        try:
            true[name], found[name] = references[name](), hypotheses[name]()
        except DataError as error:
            true.pop(name, None)
            left_out.append((name, str(error)))
    evaluation = evaluate_alignments(true, found, tolerances_ms)
    return replace(evaluation, left_out=(*left_out, *evaluation.left_out))


def _unique_names(readers: Readers) -> bool:
    return len({key.rpartition("/")[2] for key in readers}) == len(readers)


def _readers(
    path: Path, key: str, format: str, phones: str | None, encoding: str | None
) -> dict[str, Callable[[], Alignment]]:
    """The readers of one file: of a TextGrid of several speakers one for each, "talk - anna"."""
    if format == "textgrid" and phones is None:
        speakers = _speakers(path, encoding)
        if len(speakers) > 1:
            return {
                f"{key} - {speaker}": partial(_read, path, format, name, encoding)
                for speaker, name in speakers.items()
            }
    return {key: partial(_read, path, format, phones, encoding)}


def _speakers(path: Path, encoding: str | None) -> dict[str, str]:
    """The tier of the phones of each speaker; none of a file that cannot be read, which is reported later."""
    try:
        text = read_text(path, encoding)
        if text.lower().count("- phone") < 2:  # as in almost all files, which need not be taken apart twice
            return {}
        names = list(read_textgrid_tiers(path, encoding).tiers)
    except DataError:
        return {}
    found = ((split_speaker(name), name) for name in names)
    return {speaker: name for (speaker, what), name in found if speaker and what == "phones"}


def _read(path: Path, format: str, phones: str | None, encoding: str | None) -> Alignment:
    named = {"phones": phones} if format in ("textgrid", "elan") else {}
    return Alignment.read(path, format, encoding=encoding, **named)


def _same(alignment: Alignment) -> Alignment:
    return alignment
