"""Makes docs/images/demo.png: the first picture of the page of ``trellis demo``, opened in headless Chromium.

python scripts/picture_demo.py
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from picture_alignment_page import ROOT, take_picture

from trellis.cli.demo import demo

PICTURE = ROOT / "docs/images/demo.png"
SIZE = "820,310"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo(folder)
        page = Path(folder) / "index.html"
        text = page.read_text("utf-8")
        head, figure = text[: text.index("<body>")], re.search(r"<svg.*?</svg>", text, re.DOTALL)
        assert figure is not None
        page.write_text(f"{head}<body>{figure[0]}</body></html>", "utf-8")
        take_picture(page, PICTURE, SIZE, "--force-device-scale-factor=2")


if __name__ == "__main__":
    main()
