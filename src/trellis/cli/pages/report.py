"""``trellis report``: one HTML page about a model."""

from __future__ import annotations

from typing import Annotated, Any

from trellis.cli.options import Jobs, argument, option
from trellis.cli.tag import Encoding
from trellis.core.errors import DataError, UnsupportedError

Model = Annotated[
    str, argument("MODEL", "Model file: of trellis train, or a network (.bif, .uai or a Trellis file).")
]
File = Annotated[
    str | None, argument("[FILE]", "Labelled file, plain or gzip; - reads standard input. Not for networks.")
]
Output = Annotated[str, option("-o --output FILE", "The page (.html); - writes it to standard output.")]
Title = Annotated[str | None, option("--title TEXT", "Heading of the page (default: the file names).")]


def report(
    model: Model,
    file: File = None,
    output: Output = "report.html",
    title: Title = None,
    encoding: Encoding = None,
    jobs: Jobs = None,
) -> None:
    """Write one HTML page about a MODEL, which needs nothing else.

    A labeller: its scores on a labelled FILE, confusions, calibration, training and worst errors.
    A Bayesian network: its drawing, where clicks set evidence, and what separates variables.

    For example: trellis report chunker.trellis test.txt -o chunker.html

    trellis report alarm.bif -o alarm.html
    """
    from trellis.bayesnet import BayesianNetwork
    from trellis.bayesnet.formats.network_files import extension
    from trellis.cli.console import STDOUT, binary_output, check_output, note
    from trellis.cli.net.models import open_network
    from trellis.core.persistence import load
    from trellis.report.model_report import report_page

    check_output(output)
    text_file = extension(model) in (".bif", ".uai", ".fg")
    found = open_network(model, encoding or "utf-8") if text_file else load(model)
    if isinstance(found, BayesianNetwork):
        if file is not None:
            raise UnsupportedError(f"{model} is a network, whose page takes no data; leave out {file}")
        text = report_page(found, title=title or model)
    else:
        text = _labeler_page(found, model, file, title, encoding, jobs)
    with binary_output(output) as page:
        page.write(text.encode())
    if output != STDOUT:
        note(f"the page is in {output}")


def _labeler_page(
    found: Any, path: str, file: str | None, title: str | None, encoding: str | None, jobs: int | None
) -> str:
    from trellis.cli.models import check_labeler, input_format
    from trellis.data.streams import source_name
    from trellis.report.model_report import report_page

    labeler = check_labeler(found, path)
    if file is None:
        raise DataError(f"the page of {path} needs a labelled file; give one after the model, or - for stdin")
    layout = input_format(labeler, path, jobs, encoding)
    data = layout.read(file)
    heading = title or f"{path} on {source_name(file)}"
    return report_page(labeler, layout.inputs(data), layout.labels(data), title=heading)
