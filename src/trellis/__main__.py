"""``python -m trellis``: the command line, where the folder of the program ``trellis`` is not on the path."""

from __future__ import annotations

from trellis.cli import main

if __name__ == "__main__":
    main()
