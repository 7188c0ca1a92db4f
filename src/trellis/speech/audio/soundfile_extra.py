"""The import of soundfile, the one optional dependency of :mod:`trellis.speech`."""

from __future__ import annotations

from typing import Any

from trellis.core.errors import MissingExtraError


def soundfile() -> Any:
    """The module, or an error that says how to install it."""
    try:
        import soundfile as module
    except (ImportError, OSError) as error:  # OSError: the module is there, its libsndfile is not
        raise MissingExtraError(
            "reading recordings needs soundfile, which is not installed; "
            "run: pip install 'trellis-learn[speech]'"
        ) from error
    return module
