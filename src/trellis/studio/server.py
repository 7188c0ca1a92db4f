"""Serving the studio until somebody ends it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from trellis.core.errors import MissingExtraError, UnsupportedError
from trellis.studio.background import Background
from trellis.studio.security import new_token
from trellis.studio.workspace import Workspace

ADDRESS = "127.0.0.1"
_GRACE = 2  # seconds that requests and work under way have to end


def require_extra() -> None:
    """An error that says how to install what is missing, before any work is done."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "the studio needs Starlette and uvicorn, which are not installed; "
            "run: pip install 'trellis-learn[studio]'"
        ) from error


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0 takes any that is free."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen(128)  # a browser that is quicker than the server waits in this queue
    except OSError as error:
        listener.close()
        raise UnsupportedError(
            f"port {port} cannot be used ({error.strerror}); give another, or none"
        ) from error
    return listener


def serve(workspace: Workspace, listener: socket.socket, ready: Callable[[str], None]) -> bool:
    """Serve until a signal ends it; ``ready`` gets the address.

    Whether all work has ended: one that takes longer may be left, for every file is replaced in one step.
    """
    import uvicorn

    from trellis.studio.web import make_app

    token = new_token()
    background = Background(workspace)
    port = int(listener.getsockname()[1])
    app = make_app(workspace, background, token, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        lifespan="off",
        ws="none",
    )
    background.start_aligning()
    ready(f"http://{ADDRESS}:{port}/?token={token}")
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises again the signal that ended it
        uvicorn.Server(config).run(sockets=[listener])
    return background.close(_GRACE)
