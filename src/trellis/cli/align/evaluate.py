"""``trellis align evaluate``: how far boundaries are from those of a reference."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from trellis.cli.align.choices import AlignmentFormat, Alphabet, Folding, Side
from trellis.cli.console import echo, echo_table, note
from trellis.cli.options import AsJson, Encoding, argument, option
from trellis.core.errors import UnsupportedError

if TYPE_CHECKING:
    from trellis.speech.evaluate.boundary_evaluation import AlignmentComparison, AlignmentEvaluation

_MAX_NAMED = 20  # of the recordings left out; JSON names all

Reference = Annotated[str, argument("REF", "Reference: a file or a folder of files.")]
Hypothesis = Annotated[str, argument("HYP", "Alignments to evaluate, with the same names.")]
Against = Annotated[
    str | None, option("--against HYP2", "A second system, compared with HYP on the files that both have.")
]
ByClass = Annotated[bool, option("--by-class", "Also print the figures of each class of phones.")]
Classes = Annotated[Folding, option("--classes", "The classes for --by-class.")]
SideOption = Annotated[
    Side,
    option("--side", "Class by the phone that starts (right), the one that ends (left), or both (pair)."),
]
ReferenceFormat = Annotated[
    AlignmentFormat | None, option("--reference-format", "Format of REF, if not clear from the suffixes.")
]
Format = Annotated[
    AlignmentFormat | None, option("--format", "Format of HYP, if not clear from the suffixes.")
]
ReferenceTier = Annotated[
    str | None,
    option("--reference-tier NAME", "Name of the tier of phones in REF's TextGrids or ELAN files."),
]
Tier = Annotated[
    str | None, option("--tier NAME", "Name of the tier of phones in HYP's TextGrids or ELAN files.")
]
AlphabetOption = Annotated[
    Alphabet, option("--alphabet", "Alphabet of the phones, for --by-class; auto guesses it.")
]
AsCsv = Annotated[bool, option("--csv", "Print the figures as CSV.")]


def evaluate(
    reference: Reference,
    hypothesis: Hypothesis,
    against: Against = None,
    by_class: ByClass = False,
    classes: Classes = Folding.broad,
    side: SideOption = Side.right,
    reference_format: ReferenceFormat = None,
    format: Format = None,
    reference_tier: ReferenceTier = None,
    tier: Tier = None,
    alphabet: AlphabetOption = Alphabet.auto,
    encoding: Encoding = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Compare the boundaries of HYP with those of REF.

    Prints the share of boundaries within 10 to 100 ms, in true milliseconds and in whole 10 ms frames as
    papers count, and mean, median and bias of the error, with 95% intervals over recordings where these can
    be given. The beginning and the end of a recording do not count. Recordings with different numbers of
    phones are left out and listed.
    """
    from trellis.speech.evaluate.alignment_files import evaluate_files, find_alignments
    from trellis.speech.evaluate.boundary_evaluation import compare

    if as_json and as_csv:
        raise UnsupportedError("--json and --csv cannot be combined; give only one of them")
    references = find_alignments(reference, reference_format, reference_tier, encoding)
    found = evaluate_files(references, find_alignments(hypothesis, format, tier, encoding))
    parts = _parts(found, classes, side, alphabet) if by_class else {}
    comparison = None
    if against is not None:
        comparison = compare(
            found, evaluate_files(references, find_alignments(against, format, tier, encoding))
        )
    if as_json:
        _print_json(found, parts, comparison)
    elif as_csv:
        from trellis.speech.evaluate.evaluation_tables import to_csv

        echo(to_csv({"all": found, **parts}, comparison), end="")
    else:
        _print_tables(found, parts, comparison, side)


def _parts(
    found: AlignmentEvaluation, classes: str, side: str, alphabet: str
) -> dict[str, AlignmentEvaluation]:
    from trellis.speech.phones.folding import folding

    labels = {label for u in found.utterances for label in (*u.left, *u.right)}
    return found.by_class(folding(classes, labels, unknown="other", alphabet=alphabet), side)


def _print_json(
    found: AlignmentEvaluation, parts: dict[str, AlignmentEvaluation], comparison: AlignmentComparison | None
) -> None:
    import json

    content: dict[str, Any] = found.to_json()
    if parts:
        content["by_class"] = {name: part.to_json() for name, part in parts.items()}
    if comparison is not None:
        content["difference"] = comparison.to_json()
    echo(json.dumps(content, indent=2, ensure_ascii=False))


def _print_tables(
    found: AlignmentEvaluation,
    parts: dict[str, AlignmentEvaluation],
    comparison: AlignmentComparison | None,
    side: str,
) -> None:
    from trellis.speech.evaluate.evaluation_tables import class_table, comparison_table

    width = None if sys.stdout.isatty() else 120  # no column is truncated in a file
    echo(f"{found.n_boundaries} boundaries in {len(found.utterances)} recordings")
    echo_table(found.table(), width)
    if parts:
        echo_table(class_table(parts, f"{side} class" if side != "pair" else "classes"), width)
    if comparison is not None:
        shared = f"{comparison.a.n_boundaries} boundaries in {len(comparison.a.utterances)} recordings"
        echo(f"compared on {shared}; * if the interval excludes 0")
        echo_table(comparison_table(comparison, "HYP", "HYP2"), width)
    if not all(estimate.has_interval for estimate in found.estimates.values()):
        note(
            "- means that no interval can be given: nothing bounds how far wrong a recording can go, so mean "
            "and bias need 100 recordings, and the median about ten"
        )
    renamed = sum(u.renamed for u in found.utterances)
    if renamed:
        note(f"{renamed} phones have different labels in the reference; they are compared anyway")
    if found.left_out:
        note(f"{len(found.left_out)} recordings were left out:")
        for name, reason in found.left_out[:_MAX_NAMED]:
            note(f"  {name}: {reason}")
        if len(found.left_out) > _MAX_NAMED:
            note(f"  and {len(found.left_out) - _MAX_NAMED} more, which --json lists")
