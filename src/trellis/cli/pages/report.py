"""``trellis report``: one HTML page about a model."""

from __future__ import annotations

from typing import Annotated, Any

from trellis.cli.options import Jobs, argument, option
from trellis.cli.tag import Encoding
from trellis.core.errors import DataError, UnsupportedError

Model = Annotated[str, argument("MODEL", "Model file, or a network (.bif, .uai or a Trellis file).")]
File = Annotated[
    str | None,
    argument("[FILE]", "Data for the page: labelled data, observations or a corpus; none for networks."),
]
Output = Annotated[str, option("-o --output FILE", "The page (.html); - is standard output.")]
Title = Annotated[str | None, option("--title TEXT", "Heading of the page (default: the file names).")]


def report(
    model: Model,
    file: File = None,
    output: Output = "report.html",
    title: Title = None,
    encoding: Encoding = None,
    jobs: Jobs = None,
) -> None:
    """Write one self-contained HTML page about a MODEL.

    For a sequence labeller: its scores on a labelled FILE (- is standard input), confusions, calibration,
    training and worst errors. For a graph labeller: the same on a .npz file of graphs, with pictures of
    images. For a hidden Markov model or state space: states over time, on a file of numbers (.npy, .npz,
    .parquet, .csv). For an aligner: accuracy and confidence on a folder of recordings with reference labels.
    For a Bayesian network, without a FILE: its drawing, where clicks set evidence, and what separates
    variables.
    """
    from trellis.bayesnet.formats.network_files import extension
    from trellis.cli.console import STDOUT, binary_output, check_output, note
    from trellis.cli.net.models import open_network
    from trellis.core.model_pages import page_kind
    from trellis.core.persistence import load

    check_output(output, inputs=[model, file])
    text_file = extension(model) in (".bif", ".uai", ".fg")
    found = open_network(model, encoding or "utf-8") if text_file else load(model)
    text = _page(page_kind(found), found, model, file, title, encoding, jobs)
    with binary_output(output) as page:
        page.write(text.encode())
    if output != STDOUT:
        note(f"the page is in {output}")


def _page(
    kind: str,
    model: Any,
    path: str,
    file: str | None,
    title: str | None,
    encoding: str | None,
    jobs: int | None,
) -> str:
    from trellis.cli.pages.report_data import NEEDS, Source, read_data
    from trellis.data.streams import source_name
    from trellis.report.model_report import report_page
    from trellis.report.pages.sections.stage_sections import PageStages

    if kind not in NEEDS:
        if file is not None:
            raise UnsupportedError(f"{path} is a network, and its page takes no data; leave out {file}")
        return report_page(model, title=title or path)
    if file is None:
        raise DataError(f"the page of {path} needs {NEEDS[kind]}; give it after the model")
    if "n_jobs" in model.get_params(deep=False):
        model.set_params(n_jobs=-1 if jobs is None else jobs)
    stages = PageStages()
    with stages.measure("reading", source_name(file)):
        X, y = read_data(kind, model, Source(path, file, encoding, jobs))
    heading = title or f"{path} on {source_name(file)}"
    return report_page(model, X, y, title=heading, stages=stages)
