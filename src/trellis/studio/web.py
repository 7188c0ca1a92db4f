"""What can be asked of the studio. Recordings are numbers; no path comes from a request.

=======================================  =================================================================
``GET /``, ``/assets/NAME``              the page
``GET /api/recordings``                  the list, and the task under way
``GET /api/recordings/N``                one alignment, as rows of start, end, label, confidence
``POST /api/recordings/N/edit``          ``{"version", "edit"}``; also ``undo``, ``redo``: the splices
``GET /api/recordings/N/tiles/LEVEL/K``  waveform and spectrogram (:mod:`trellis.studio.picture_tiles`)
``GET /api/recordings/N/overview``       the waveform of the whole recording
``GET /api/recordings/N/sound.wav``      the sound, whole or by byte ranges
``GET /api/task``                        how far the task under way is
``POST /api/learn``, ``/api/cancel``     learn from the corrections; end the task
=======================================  =================================================================

What a person got wrong is status 400 with one sentence; 409 says that the page is out of date.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trellis.core.errors import DataError, TrellisError
from trellis.speech.phones.silence import SILENCES
from trellis.studio import picture_tiles
from trellis.studio.background import Background
from trellis.studio.recording_desk import RecordingDesk, StaleError
from trellis.studio.security import App, Guard
from trellis.studio.workspace import Workspace

_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")
_LONGEST_RANGE = 8 * 2**20  # bytes of sound in one answer; a longer range is answered in part, as HTTP allows
_OVERVIEW = 1024  # columns
_FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
_NEVER = {"cache-control": "no-store"}


def make_app(workspace: Workspace, background: Background, token: str, port: int) -> App:
    """The application behind its guard."""
    asked = _Questions(workspace, background)
    one = "/api/recordings/{number:int}"
    routes = [
        Route("/", asked.page),
        Route("/assets/{name}", asked.asset),
        Route("/api/recordings", asked.recordings),
        Route("/api/task", asked.task),
        Route("/api/learn", asked.learn, methods=["POST"]),
        Route("/api/cancel", asked.cancel, methods=["POST"]),
        Route(one, asked.recording),
        Route(one + "/tiles/{level:int}/{tile:int}", asked.tile),
        Route(one + "/overview", asked.overview),
        Route(one + "/sound.wav", asked.sound),
        Route(one + "/{step}", asked.change, methods=["POST"]),
    ]
    handlers = {StaleError: _sentence(409), TrellisError: _sentence(400)}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token, port)


def _sentence(status: int) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        return _json({"error": str(error)}, status)

    return answer


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status, headers=_NEVER)


class _Questions:
    """One method for each question. Those that are not ``async`` run in a pool of threads."""

    def __init__(self, workspace: Workspace, background: Background) -> None:
        self._workspace, self._background = workspace, background

    def page(self, request: Request) -> Response:
        return _asset("studio.html")

    def asset(self, request: Request) -> Response:
        return _asset(request.path_params["name"])

    def recordings(self, request: Request) -> Response:
        workspace = self._workspace
        return _json(
            {
                "folder": str(workspace.folder.root),
                "model": workspace.settings.model,
                "adapted": str(workspace.save_model) if self._background.uses_adapted else None,
                "unknown": workspace.unknown,
                "silences": sorted(SILENCES),
                "recordings": workspace.listing(),
                "task": self._task(),
            }
        )

    def recording(self, request: Request) -> Response:
        number = request.path_params["number"]
        content = self._workspace.desk(number).to_json()
        try:
            sound = self._workspace.media(number).sound
            content["rate"], content["key"] = sound.rate, sound.key
        except DataError as error:
            content["problem"] = content["problem"] or str(error)
        constants = {
            "columns": "COLUMNS",
            "rows": "ROWS",
            "fine": "FINE",
            "levels": "LEVELS",
            "finest": "FINEST",
        }
        content["tiles"] = {name: getattr(picture_tiles, field) for name, field in constants.items()}
        return _json(content)

    def tile(self, request: Request) -> Response:
        place = request.path_params
        made = self._workspace.media(place["number"]).tiles.tile(place["level"], place["tile"])
        return Response(made, media_type="application/octet-stream", headers=_FOR_EVER)

    def overview(self, request: Request) -> Response:
        made = self._workspace.media(request.path_params["number"]).tiles.overview(_OVERVIEW)
        return Response(made, media_type="application/octet-stream", headers=_FOR_EVER)

    def sound(self, request: Request) -> Response:
        sound = self._workspace.media(request.path_params["number"]).sound
        size, kind = sound.n_bytes, {"accept-ranges": "bytes", **_NEVER}
        asked = request.headers.get("range")
        found = None if asked is None else _byte_range(asked, size)
        if asked is not None and found is None:
            return Response(status_code=416, headers={**kind, "content-range": f"bytes */{size}"})
        if found is None and size > _LONGEST_RANGE:
            found = (0, size)
        if found is None:
            return Response(sound.wav(0, size), media_type="audio/wav", headers=kind)
        first, last = found[0], min(found[1], found[0] + _LONGEST_RANGE)
        kind["content-range"] = f"bytes {first}-{last - 1}/{size}"
        return Response(sound.wav(first, last), 206, media_type="audio/wav", headers=kind)

    def task(self, request: Request) -> Response:
        return _json(self._task())

    async def learn(self, request: Request) -> Response:
        await run_in_threadpool(self._background.start_learning)
        return _json(self._task())

    async def cancel(self, request: Request) -> Response:
        self._background.cancel()
        return _json(self._task())

    async def change(self, request: Request) -> Response:
        content = await _body(request)
        desk = self._workspace.desk(request.path_params["number"])
        return await run_in_threadpool(_change, desk, request.path_params["step"], content)

    def _task(self) -> dict[str, Any]:
        content = dataclasses.asdict(self._background.task)
        for row in content["moved"]:  # JSON has no nan
            row.update({key: None for key, value in row.items() if value != value})
        return content


def _change(desk: RecordingDesk, step: str, content: dict[str, Any]) -> Response:
    version = content.get("version")
    if not isinstance(version, int):
        raise DataError("the version of the alignment that is shown is missing")
    if step == "edit":
        edit = content.get("edit")
        if not isinstance(edit, dict):
            raise DataError("the edit is missing")
        change = desk.edit(edit, version)
    elif step in ("undo", "redo"):
        change = desk.undo(version) if step == "undo" else desk.redo(version)
    else:
        return _json({"error": "there is no such thing"}, 404)
    undo, redo = desk.steps
    summary = dataclasses.asdict(desk.summary())
    more = {"version": desk.version, "undo": undo, "redo": redo, "summary": summary}
    return _json({**change.to_json(), **more})


async def _body(request: Request) -> dict[str, Any]:
    """The JSON of a request, whose length the guard has bounded."""
    try:
        content = json.loads(await request.body(), parse_constant=lambda name: math.nan)
    except (ValueError, RecursionError) as error:
        raise DataError("the request is not JSON") from error
    if not isinstance(content, dict):
        raise DataError("the request is not a record")
    return content


def _byte_range(text: str, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last of one range; None if there is nothing in it."""
    found = _RANGE.fullmatch(text.strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:  # the last so many
        return (max(0, size - int(found[2])), size) if int(found[2]) else None
    first, last = int(found[1]), int(found[2]) + 1 if found[2] else size
    return (first, min(last, size)) if first < min(last, size) else None


def _asset(name: str) -> Response:
    """A file of the page: of the studio's own, or one that it shares with the pages of ``trellis.report``."""
    for package in ("trellis.studio", "trellis.report"):
        folder = files(package).joinpath("assets")
        found = next((file for file in folder.iterdir() if file.name == name and file.is_file()), None)
        suffix = name[name.rfind(".") :]
        if found is not None and suffix in _TYPES:
            kind = f"{_TYPES[suffix]}; charset=utf-8"
            return Response(found.read_bytes(), headers={"content-type": kind, "cache-control": "no-cache"})
    return _json({"error": "there is no such file"}, 404)
