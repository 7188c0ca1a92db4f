"""Makes docs/images/alignment-page.png: the page of examples/align_speech.py, opened in headless Chromium.

python scripts/picture_alignment_page.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "demo_output/alignment.html"
PICTURE = ROOT / "docs/images/alignment-page.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = "1400,900"


def take_picture(page: Path, picture: Path, size: str, *options: str) -> None:
    """What a browser shows of a page."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"a browser is needed for the picture; install one of {', '.join(BROWSERS)}")
    common = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}"]
    subprocess.run([browser, *common, *options, f"--screenshot={picture}", page.as_uri()], check=True)


def main() -> None:
    subprocess.run([sys.executable, "examples/align_speech.py"], check=True, cwd=ROOT)
    take_picture(PAGE, PICTURE, SIZE)


if __name__ == "__main__":
    main()
