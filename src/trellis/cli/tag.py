"""``trellis tag``: label a file, block by block, in memory that does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from trellis.cli.console import binary_output, check_output
from trellis.cli.options import Jobs, argument, option
from trellis.core.errors import UnsupportedError

if TYPE_CHECKING:
    from trellis.data.input_format import InputData
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

SEQUENCES_PER_BLOCK = 1000

Model = Annotated[str, argument("MODEL", "Model file that trellis train wrote.")]
File = Annotated[str, argument("FILE", "File to label, plain or gzip; - reads standard input.")]
Encoding = Annotated[
    str | None, option("--encoding NAME", "Character encoding of FILE, if not that of the training file.")
]
Output = Annotated[str, option("-o --output FILE", "Where to write; - is standard output.")]
LabelsOnly = Annotated[bool, option("--labels-only", "Write only the labels, not the input lines.")]
Marginals = Annotated[bool, option("-m --marginals", "Write the probability of each label after it.")]
KBest = Annotated[
    int, option("-k --k-best K", "Write the K best labellings of each sequence with their scores.", min=1)
]
Decoding = Annotated[
    str,
    option(
        "--decoding best|minimum_risk",
        "The labelling with the highest score, or the one with the smallest expected loss of the model.",
    ),
]


def tag(
    model: Model,
    file: File = "-",
    output: Output = "-",
    labels_only: LabelsOnly = False,
    marginals: Marginals = False,
    k_best: KBest = 1,
    decoding: Decoding = "best",
    encoding: Encoding = None,
    jobs: Jobs = None,
) -> None:
    """Label FILE: each line with a new last column.

    The file may have a label column or not. CRFsuite files are answered with labels only. What is
    written is UTF-8.
    """
    from trellis.cli.models import open_model
    from trellis.core.arguments import check_choice
    from trellis.losses.labelings import DECODINGS

    if marginals and k_best > 1:
        raise UnsupportedError(
            "--marginals is for single labels and --k-best for whole labellings; give only one of them"
        )
    check_choice("--decoding", decoding, DECODINGS)
    if k_best > 1 and decoding != "best":
        raise UnsupportedError(
            f"--k-best writes the labellings with the highest scores, and --decoding {decoding} has only one "
            "answer; give only one of them"
        )
    check_output(output)
    labeler, layout = open_model(model, jobs, encoding)
    first = 1
    with binary_output(output) as stream:
        for block in layout.blocks(file, SEQUENCES_PER_BLOCK):
            inputs = layout.inputs(block)
            if k_best > 1:
                stream.writelines(_k_best(labeler, inputs, block, first, k_best, labels_only))
            else:
                stream.write(_tagged(labeler, inputs, block, marginals, labels_only, decoding))
            stream.flush()  # whoever reads a pipe sees each block when it is done
            first += len(block)


def _tagged(
    labeler: SequenceLabeler,
    inputs: InputData,
    block: InputData,
    marginals: bool,
    labels_only: bool,
    decoding: str,
) -> bytes:
    import numpy as np

    from trellis.data.columns import label_lines

    codes: Any = labeler.predict_codes(inputs, decoding=decoding)[0]
    names: Sequence[Any] = labeler.classes_.tolist()
    if marginals:
        probability = np.concatenate(labeler.predict_marginals(inputs))[np.arange(len(codes)), codes]
        between = "\t" if labels_only or block.lines is None else block.lines.separator
        pairs = zip(codes.tolist(), probability.tolist(), strict=True)
        names = [f"{names[code]}{between}{p:.6f}" for code, p in pairs]
        codes = np.arange(len(codes))
    return label_lines(codes, names, block.offsets) if labels_only else block.tagged(codes, names)


def _k_best(
    labeler: SequenceLabeler, inputs: InputData, block: InputData, first: int, k: int, labels_only: bool
) -> Iterator[bytes]:
    """Each labelling under a line ``# sequence rank score``, best first; sequences count from ``first``."""
    from trellis.data.columns import ColumnData, SourceLines

    echoed: list[bytes] = []
    separator = ""
    if isinstance(block, ColumnData) and isinstance(block.lines, SourceLines) and not labels_only:
        lines = block.lines.text.split(b"\n")
        echoed = [lines[i] for i in block.lines.line_of_step.tolist()]
        separator = block.lines.separator
    offsets = block.offsets.tolist()
    for i, ranked in enumerate(labeler.predict_k_best(inputs, k)):
        for rank, (labels, score) in enumerate(ranked, start=1):
            yield f"# {first + i} {rank} {score:.6f}\n".encode()
            before = echoed[offsets[i] : offsets[i + 1]] or [b""] * len(labels)
            for line, label in zip(before, labels, strict=True):
                yield line + f"{separator}{label}\n".encode()
            yield b"\n"
