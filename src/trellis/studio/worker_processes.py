"""Processes that align (``--jobs``): each loads the model once, and ends when the studio does.

Otherwise processes whose parent was killed would wait for work for ever.
"""

from __future__ import annotations

import os
import threading
from multiprocessing import parent_process
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner
    from trellis.speech.corpus.dictionary import Dictionary
    from trellis.studio.workspace import OpenModel


def open_given(open_model: OpenModel, path: str) -> tuple[Aligner, Dictionary | None]:
    """A model by its path, as a function that can be sent to other processes; those end with the studio."""
    if parent_process() is not None:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    return open_model(path)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # nobody waits for what this process does; files are replaced in one step
