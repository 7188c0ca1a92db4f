"""Which labels may follow which: the IOB2 ("bio") and "bioes" grammars of spans, or any set of allowed pairs.

A label ``B-NP`` has the tag ``B`` and the type ``NP``. In *bio*, ``I-x`` follows only ``B-x`` or ``I-x``. In
*bioes*, a span is ``S-x`` or ``B-x I-x ... E-x``: every span must be closed, even at the end of the sequence.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import step_name

_SCHEMES = {"bio": ("O", "B", "I"), "bioes": ("O", "B", "I", "E", "S")}

Constraints = str | Iterable[tuple[Hashable, Hashable]]


@register
class LegalTransitions(NamedTuple):
    """``start`` (K,), ``pair`` (K, K) with row = previous label, ``end`` (K,): true where allowed.

    Examples
    --------
    >>> from trellis.data import LabelSet, legal_transitions
    >>> legal = legal_transitions("bio", LabelSet(["B-X", "I-X", "O"]))
    >>> legal.start.tolist()
    [True, False, True]
    """

    start: NDArray[np.bool_]
    pair: NDArray[np.bool_]
    end: NDArray[np.bool_]


def split_tag(label: str) -> tuple[str, str]:
    """``"B-NP"`` is ``("B", "NP")``; a label without a hyphen has the empty type."""
    tag, hyphen, kind = label.partition("-")
    return (tag, kind) if hyphen else (label, "")


def legal_transitions(
    constraints: Constraints, labels: LabelSet, encoded: EncodedLabels | None = None
) -> LegalTransitions:
    """``"bio"``, ``"bioes"``, or allowed pairs (previous, next), as arrays over the codes of these labels.

    ``encoded``: where the labels come from, for an error that names the place.

    Examples
    --------
    >>> from trellis.data import LabelSet, legal_transitions
    >>> legal = legal_transitions([("A", "B"), ("B", "A")], LabelSet(["A", "B"]))
    >>> legal.pair.tolist()
    [[False, True], [True, False]]
    """
    if isinstance(constraints, str) and constraints in _SCHEMES:
        return _span_grammar(constraints, labels.labels, encoded)
    if isinstance(constraints, str) or not isinstance(constraints, Iterable):
        raise DataError(
            f"constraints is {constraints!r}; give 'bio', 'bioes', or a list of (previous, next) pairs"
        )
    k = len(labels)
    pair = np.zeros((k, k), np.bool_)
    for entry in constraints:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise DataError(f"constraint {entry!r} is not a pair (previous label, next label)")
        before, after = (labels.find(label, "constraints") for label in entry)
        if before is not None and after is not None:
            pair[before, after] = True
    return LegalTransitions(np.ones(k, np.bool_), pair, np.ones(k, np.bool_))


def _span_grammar(scheme: str, labels: Sequence[Any], encoded: EncodedLabels | None) -> LegalTransitions:
    tags, kinds = [], []
    for code, label in enumerate(labels):
        tag, kind = split_tag(label) if isinstance(label, str) else ("", "")
        if not _fits(scheme, label):
            raise _misfit(scheme, labels, code, encoded)
        tags.append(tag)
        kinds.append(kind)
    tag_of, kind_of = np.array(tags), np.array(kinds)
    continues = np.isin(tag_of, ["I", "E"])
    open_span = np.isin(tag_of, ["B", "I"])
    inside = open_span[:, None] & continues & (kind_of[:, None] == kind_of)
    if scheme == "bio":  # an open span may end anywhere
        return LegalTransitions(~continues, ~continues | inside, np.ones(len(tags), np.bool_))
    return LegalTransitions(~continues, inside | (~open_span[:, None] & ~continues), ~open_span)


def _fits(scheme: str, label: Any) -> bool:
    tag, kind = split_tag(label) if isinstance(label, str) else ("", "")
    return tag in _SCHEMES[scheme] and not (tag == "O" and kind)


def _misfit(scheme: str, labels: Sequence[Any], code: int, encoded: EncodedLabels | None) -> DataError:
    """What does not fit, where it is first, and what was perhaps meant."""
    label, step = labels[code], None
    place = ""
    if encoded is not None and (found := np.flatnonzero(encoded.codes == code)).size:
        step = int(found[0])
        place = f"{step_name(encoded.offsets, step)}: "
    expected = ", ".join("O" if t == "O" else f"{t}-type" for t in _SCHEMES[scheme])
    other = next((s for s in _SCHEMES if all(_fits(s, one) for one in labels)), None)
    if other is not None:
        hint = f"all labels fit constraints={other!r}"
    elif isinstance(label, str) and split_tag(label)[0] in ("L", "U"):
        hint = "in BILOU labels, write E for L and S for U, and use constraints='bioes'"
    elif label and "-" not in str(label):
        hint = f"where a span begins, write 'B-{label}', inside it 'I-{label}'; or leave the constraints out"
    else:
        hint = "correct it, or leave the constraints out"
    message = (
        f"{place}label {label!r} does not fit constraints={scheme!r}, whose labels are {expected}; {hint}"
    )
    return DataError(message) if step is None else DataError(message, step)


def check_legal(encoded: EncodedLabels, legal: LegalTransitions, labels: LabelSet) -> None:
    """Refuse labels that violate the constraints, naming the first place.

    Examples
    --------
    >>> from trellis.data import LabelSet, check_legal, legal_transitions
    >>> labels = LabelSet(["B-X", "I-X", "O"])
    >>> check_legal(labels.encode([["B-X", "I-X"]]), legal_transitions("bio", labels), labels)
    """
    codes, offsets = encoded.codes, encoded.offsets
    first = offsets[:-1][np.diff(offsets) > 0]
    last = offsets[1:][np.diff(offsets) > 0] - 1
    bad_start = first[(codes[first] >= 0) & ~legal.start[codes[first]]]
    bad_end = last[(codes[last] >= 0) & ~legal.end[codes[last]]]
    into = np.ones(len(codes), np.bool_)
    into[first] = False
    steps = np.flatnonzero(into)
    known = (codes[steps] >= 0) & (codes[steps - 1] >= 0)
    bad_pair = steps[known & ~legal.pair[codes[steps - 1], codes[steps]]]
    violations = [
        (int(found[0]), order) for order, found in enumerate((bad_start, bad_pair, bad_end)) if found.size
    ]
    if not violations:
        return
    step, order = min(violations)
    label = labels.labels[codes[step]]
    what = (
        f"{label!r} may not begin a sequence",
        f"{label!r} may not follow {labels.labels[codes[step - 1]]!r}",
        f"{label!r} may not end a sequence",
    )[order]
    older = isinstance(label, str) and label.startswith("I-") and order < 2
    hint = f" (a span begins with 'B{label[1:]}'; in IOB1, an older scheme, with {label!r})" if older else ""
    raise DataError(
        f"{step_name(offsets, step)}: {what} under the constraints; correct the label or relax them{hint}",
        step,
    )
