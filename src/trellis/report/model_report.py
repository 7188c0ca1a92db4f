"""``write_report`` and ``report_page``: what the method ``report`` of models does, as functions."""

from __future__ import annotations

from typing import Any

from trellis.core.model_pages import Page, page_maker
from trellis.core.output_files import PathLike
from trellis.report.pages.sections.stage_sections import PageStages


def report_page(
    model: Any, X: Any = None, y: Any = None, *, title: str | None = None, stages: PageStages | None = None
) -> str:
    """The text of the page of a model; :func:`trellis.core.model_pages.report` says what data it takes.

    ``title`` is the heading, by default the name of the class; ``stages`` has what was measured before, such
    as reading the data.
    """
    title = type(model).__name__ if title is None else title
    return page_maker(model)(model, X, y, title=title, stages=stages)


def write_report(
    model: Any, path: PathLike, X: Any = None, y: Any = None, *, title: str | None = None
) -> None:
    """Write :func:`report_page` to a file."""
    Page(str(title), report_page(model, X, y, title=title)).save(path)
