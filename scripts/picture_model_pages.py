"""Makes docs/images/graph-page.png and aligner-page.png: some sections of two pages, in headless Chromium.

python scripts/picture_model_pages.py
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
from picture_alignment_page import ROOT, take_picture
from scipy.ndimage import gaussian_filter

from trellis import Graph, GraphLabeler
from trellis.core.model_pages import Page
from trellis.speech import builtin_aligner, synthetic_corpus


def picture(page: Page, sections: tuple[str, ...], name: str, size: str) -> None:
    """What a browser shows of a page with no other sections."""
    kept = re.sub(
        r'<section id="(.*?)".*?</section>\n?',
        lambda found: found[0] if found[1] in sections else "",
        page.text,
        flags=re.DOTALL,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(re.sub("<nav.*?</nav>", "", kept, flags=re.DOTALL), "utf-8")
        take_picture(path, ROOT / "docs/images" / name, size, f"--user-data-dir={folder}/browser")


def images(n: int, size: int, rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Grey values and the shapes under them."""
    shapes = [(gaussian_filter(rng.normal(size=(size, size)), 2.0) > 0).astype(int) for _ in range(n)]
    return [2.0 * y - 1.0 + rng.normal(0.0, 1.3, y.shape) for y in shapes], shapes


def main() -> None:
    rng = np.random.default_rng(3)
    grey, shapes = images(20, 14, rng)
    grid = GraphLabeler("margin", l2=20.0, random_state=0).fit([Graph.grid(x) for x in grey], shapes)
    grey, shapes = images(6, 24, rng)
    page = grid.report([Graph.grid(x) for x in grey], shapes, title="Shapes under noise")
    picture(page, ("scores", "errors"), "graph-page.png", "1100,845")
    page = builtin_aligner().report(synthetic_corpus(), title="The built-in aligner")
    picture(page, ("calibration", "classes"), "aligner-page.png", "1100,990")


if __name__ == "__main__":
    main()
