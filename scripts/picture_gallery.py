"""Makes a picture of a page from a script of the gallery: runs the script and saves its last figure.

python scripts/picture_gallery.py evaluation/plot_direct_loss_surface docs/images/direct-loss-surface.png
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib as mpl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from gallery_style import use_style  # noqa: E402


def main(script: str, picture: str) -> None:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    use_style()
    runpy.run_path(str(ROOT / "examples" / "gallery" / f"{script}.py"))
    plt.figure(plt.get_fignums()[-1]).savefig(picture, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
