"""``trellis tag``: label files, block by block, in memory that does not grow with the files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from trellis.cli.console import STDOUT, binary_output, check_output
from trellis.cli.options import Jobs, argument, option
from trellis.cli.places import Cluster, LocalCluster, MaxMemory, chosen_place, is_one_file
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.output_files import check_folder

if TYPE_CHECKING:
    from trellis.cli.file_maps import Work
    from trellis.data.shard_files.input_format import InputData, InputFormat
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler

SEQUENCES_PER_BLOCK = 1000

Model = Annotated[str, argument("MODEL", "Model file that trellis train wrote.")]
Files = Annotated[
    list[str] | None,
    argument("[FILE]...", "Files to label, plain or gzip, or folders of them; - is standard input."),
]
Encoding = Annotated[
    str | None,
    option("--encoding NAME", "Character encoding of the files, if not that of the training files."),
]
Output = Annotated[
    str, option("-o --output PATH", "Output file, or a folder for several files; - is standard output.")
]
LabelsOnly = Annotated[bool, option("--labels-only", "Write only the labels, not the input lines.")]
Marginals = Annotated[bool, option("-m --marginals", "Write the probability of each label after it.")]
KBest = Annotated[
    int, option("-k --k-best K", "Write the K best labellings of each sequence with their scores.", min=1)
]
Decoding = Annotated[
    str,
    option(
        "--decoding best|minimum_risk",
        "The labelling with the highest score, or the one with the smallest expected loss under the model.",
    ),
]


@dataclass(frozen=True)
class Answered:
    """How each sequence is answered."""

    labels_only: bool
    marginals: bool
    k_best: int
    decoding: str

    def lines(
        self, labeler: SequenceLabeler, layout: InputFormat, block: InputData, first: int
    ) -> Iterator[bytes]:
        """Answers to a block whose first sequence has the number ``first``."""
        inputs = layout.inputs(block)
        if self.k_best > 1:
            yield from _k_best(labeler, inputs, block, first, self.k_best, self.labels_only)
        else:
            yield _tagged(labeler, inputs, block, self.marginals, self.labels_only, self.decoding)


def tag(
    model: Model,
    files: Files = None,
    output: Output = "-",
    labels_only: LabelsOnly = False,
    marginals: Marginals = False,
    k_best: KBest = 1,
    decoding: Decoding = "best",
    encoding: Encoding = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    local_cluster: LocalCluster = None,
    max_memory: MaxMemory = None,
) -> None:
    """Label each FILE: every line gets its label as a new last column.

    A FILE may or may not have a label column. For CRFsuite files, only the labels are written. Output is
    UTF-8. Several files, or a folder, are written to a folder under the same names:
    trellis tag m.trellis texts/*.conll.gz -o tagged --local-cluster 4
    """
    from trellis.cli.models import open_model
    from trellis.core.arguments import check_choice
    from trellis.losses.labelings import DECODINGS

    if marginals and k_best > 1:
        raise UnsupportedError(
            "--marginals is about single labels and --k-best about whole labellings; give only one of them"
        )
    check_choice("--decoding", decoding, DECODINGS)
    if k_best > 1 and decoding != "best":
        raise UnsupportedError(
            f"--k-best writes the labellings with the highest scores, and --decoding {decoding} has only one "
            "answer; give only one of them"
        )
    files, backend = files or [STDOUT], chosen_place(cluster, local_cluster)
    answered = Answered(labels_only, marginals, k_best, decoding)
    if is_one_file(files) and backend is None:
        check_output(output, inputs=[model, *files])
        labeler, layout = open_model(model, jobs, encoding)
        first = 1
        with binary_output(output) as stream:
            for block in layout.blocks(files[0], SEQUENCES_PER_BLOCK):
                stream.writelines(answered.lines(labeler, layout, block, first))
                stream.flush()  # whoever reads a pipe sees each block when it is done
                first += len(block)
        return
    _tag_many(model, files, output, answered, encoding, jobs, backend, max_memory)


def _tag_many(
    model: str,
    files: list[str],
    output: str,
    answered: Answered,
    encoding: str | None,
    jobs: int | None,
    backend: str | None,
    max_memory: str | None,
) -> None:
    """Files of the same names in a folder, or all on standard output; pieces are answered by workers."""
    from contextlib import ExitStack

    from trellis.cli.file_maps import answers, work_on
    from trellis.cli.models import open_model

    labeler, layout = open_model(model, jobs, encoding)
    target_of = _targets(files, output)
    work = work_on(files, layout)
    with ExitStack() as stack:
        stream: Any = stack.enter_context(binary_output(STDOUT)) if output == STDOUT else None
        mapped = answers(
            tag_piece, work, labeler, layout, answered,
            backend=backend, jobs=jobs, max_memory=max_memory, title="tag",
        )  # fmt: skip
        for one, text in mapped:
            if stream is None:
                stream = stack.enter_context(binary_output(target_of[one.piece.path]))
            stream.write(text)
            if one.last and output != STDOUT:
                stack.close()
                stream = None


def tag_piece(work: Work, labeler: SequenceLabeler, layout: InputFormat, answered: Answered) -> bytes:
    return b"".join(answered.lines(labeler, layout, work.read(), work.first))


def _targets(files: list[str], output: str) -> dict[str, str]:
    """The file that answers each file; the folder is made."""
    from trellis.data.shard_files.file_paths import find_files

    paths = find_files(files)
    if output == STDOUT:
        return {}
    if os.path.isfile(output):
        raise DataError(f"{output} is a file, but there are several files to label; give -o a folder, or -")
    check_folder(output)
    target_of: dict[str, str] = {}
    for path in paths:
        target = os.path.join(output, os.path.basename(path))
        if target in target_of.values():
            raise DataError(
                f"two files are named {os.path.basename(path)}; label them into different folders"
            )
        if os.path.realpath(target) == os.path.realpath(path):
            raise DataError(f"the output would overwrite {path}, which is an input; give another folder")
        target_of[path] = target
    os.makedirs(output, exist_ok=True)
    return target_of


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
