"""The command line, one file per command: ``trellis train | tag | evaluate | inspect | bound | ...``.

Commands import the library inside their functions, so that ``trellis --help`` answers at once. Whatever the
user got wrong comes back as one line on stderr and exit code 2; a traceback means a defect of Trellis.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the ``trellis`` program."""
    from trellis.cli.process import run

    def program() -> None:
        from trellis.cli.app import app

        app(prog_name="trellis")

    sys.exit(run(program))
