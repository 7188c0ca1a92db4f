"""``model.report(...)``: one HTML page about a model, made by the room ``report``, which is above all models.

Models do not import that room: :data:`trellis.registry.PAGES` names the module whose function of the same
name writes the page of a kind, and the module is imported when a page is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import Any

from trellis.core.errors import UnsupportedError
from trellis.core.output_files import Target, atomic_writer
from trellis.registry import PAGES

_HEIGHT = "85vh"


@dataclass(frozen=True)
class Page:
    """A page that needs nothing else: ``text`` is the whole HTML file.

    Notebooks show it in a frame of its own, whose styles and scripts do not touch the notebook.

    Examples
    --------
    >>> from pathlib import Path
    >>> from trellis import BayesianNetwork
    >>> page = BayesianNetwork({"Rain": ["yes", "no"]}, {}, {"Rain": [0.2, 0.8]}).report(title="Rain")
    >>> page.save("rain.html")
    >>> Path("rain.html").read_text() == page.text
    True
    """

    title: str
    text: str

    def save(self, path: Target) -> None:
        """Write the page to a file, in one step, or to an open binary stream."""
        with atomic_writer(path) as file:
            file.write(self.text.encode())

    def __repr__(self) -> str:
        return f"Page({self.title!r}, {len(self.text):,} characters; .save(path) writes it)"

    def _repr_html_(self) -> str:
        # the base keeps links inside the page: without it they would lead to the notebook's address
        inside = self.text.replace("<head>", '<head><base href="about:srcdoc">', 1)
        return (
            f'<iframe title="{escape(self.title)}" sandbox="allow-scripts" srcdoc="{escape(inside)}" '
            f'style="width:100%;height:{_HEIGHT};border:0"></iframe>'
        )


def page_kind(model: object) -> str:
    """The kind of page of a model: the name of its class, or of the one that it inherits from."""
    kind = next((c.__name__ for c in type(model).__mro__ if c.__name__ in PAGES), None)
    if kind is None:
        raise UnsupportedError(
            f"there is no page for a {type(model).__name__}; there is one for {', '.join(PAGES)}"
        )
    return kind


def page_maker(model: object) -> Callable[..., str]:
    """The function ``(model, X, y, *, title)`` that writes the page of this kind of model."""
    module = PAGES[page_kind(model)]
    maker: Callable[..., str] = getattr(import_module(module), module.rpartition(".")[2])
    return maker


def report(
    self: Any, X: Any = None, y: Any = None, *, path: Target | None = None, title: str | None = None
) -> Page:
    """One HTML page about the model on data, which notebooks show and ``.save(path)`` writes.

    Labellers take labelled data ``X``, ``y``, hidden Markov models and state spaces observations ``X`` (an
    ``IOHMM`` its inputs as ``y``), an aligner utterances with references, and networks nothing. With
    ``path`` the page is written there as well. ``title`` is the heading, by default the name of the class.
    """
    title = type(self).__name__ if title is None else title
    page = Page(title, page_maker(self)(self, X, y, title=title))
    if path is not None:
        page.save(path)
    return page
