"""Labels that a folding cannot read, found before anything is learnt, with file, tier and time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trellis.core.errors import DataError
from trellis.speech.corpus.corpus import Corpus
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.formats.intervals import Interval
from trellis.speech.formats.textgrid import read_textgrid_tiers
from trellis.speech.phones.alphabets import check_alphabet, guess_alphabet
from trellis.speech.phones.phone_set import Fold, fold_function

_NAMED = 5  # labels in one message


def check_labels(
    utterances: Iterable[Utterance], fold: Fold, alphabet: str = "auto", unknown: str = "error"
) -> None:
    """Raise a :class:`DataError` that names the first file with labels that the fold has no class for."""
    for _, problem in _bad_utterances(list(utterances), fold, alphabet, unknown):
        raise DataError(problem)


def skip_bad_labels(corpus: Corpus, fold: Fold, alphabet: str = "auto", unknown: str = "error") -> Corpus:
    """The corpus without utterances whose labels the fold has no class for; ``skipped`` names them."""
    bad = _bad_utterances(corpus.utterances, fold, alphabet, unknown)
    left_out = {utterance.id for utterance, _ in bad}
    skipped = tuple((_source(utterance), problem) for utterance, problem in bad)
    return replace(
        corpus,
        utterances=tuple(u for u in corpus if u.id not in left_out),
        skipped=(*corpus.skipped, *skipped),
    )


def _bad_utterances(
    utterances: Sequence[Utterance], fold: Fold, alphabet: str, unknown: str
) -> list[tuple[Utterance, str]]:
    labelled = [(u, u.reference.phones) for u in utterances if u.reference is not None]
    labels = dict.fromkeys(phone.label for _, phones in labelled for phone in phones)
    chosen = guess_alphabet(labels) if alphabet == "auto" else check_alphabet(alphabet)
    class_of = fold_function(fold, chosen, unknown)
    why: dict[str, str] = {}
    for label in labels:
        try:
            class_of(label)
        except DataError as error:
            why[label] = str(error).partition("; ")[0]
    found = []
    for utterance, phones in labelled:
        bad = [phone for phone in phones if phone.label in why]
        if bad:
            found.append((utterance, _describe(utterance, bad, why[bad[0].label])))
    return found


def _describe(utterance: Utterance, bad: Sequence[Interval], why: str) -> str:
    source = _source(utterance)
    tier = _tier_of(source, bad[0])
    others = list(dict.fromkeys(i.label for i in bad if i.label != bad[0].label))
    more = f" (and {' '.join(map(repr, others[:_NAMED]))}{' ...' * (len(others) > _NAMED)})" if others else ""
    return (
        f"{source}{f', tier {tier!r}' if tier else ''}: at {bad[0].start:.3f} s {why}{more}; correct "
        "it, leave such files out with --skip-bad, or take such labels as noise with --unknown-phones noise"
    )


def _source(utterance: Utterance) -> str:
    return (utterance.reference.source if utterance.reference else "") or utterance.id


def _tier_of(source: str, phone: Interval) -> str | None:
    """The tier of a TextGrid that has this interval."""
    if not source.lower().endswith(".textgrid"):
        return None
    try:
        tiers = read_textgrid_tiers(source).tiers
    except DataError:
        return None
    for name, tier in tiers.items():
        if any(i.label == phone.label and abs(i.start - phone.start) < 1e-3 for i in tier):
            return name
    return None
