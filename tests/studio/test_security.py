"""Who is let in: only this machine's own page, with the token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from trellis.studio.security import MAX_BODY, POLICY, Guard, Receive, Scope, Send

TOKEN = "right-token"


async def _open_door(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"in"})


def _ask(path: str = "/", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent: list[MutableMapping[str, Any]] = []
    path, _, query = path.partition("?")
    given = {"host": "127.0.0.1:8123", **{k.replace("_", "-"): v for k, v in headers.items()}}
    scope = {
        "type": "http",
        "path": path,
        "method": method,
        "query_string": query.encode(),
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in given.items()],
    }

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    asyncio.run(Guard(_open_door, TOKEN, 8123)(scope, receive, send))
    found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"]


COOKIE = f"trellis-studio-8123={TOKEN}"
ORIGIN = "http://127.0.0.1:8123"
JSON = "application/json"


def test_the_token_is_needed_once() -> None:
    assert _ask()[0] == 403
    assert _ask("/?token=wrong")[0] == 403
    assert _ask("/?token=")[0] == 403
    assert _ask(f"/api/recordings?token={TOKEN}")[0] == 403  # only the page itself takes it
    status, headers, _ = _ask(f"/?token={TOKEN}")
    assert status == 200
    assert headers["set-cookie"] == f"{COOKIE}; Path=/; HttpOnly; SameSite=Strict"
    assert headers["content-security-policy"] == POLICY
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY
    status, headers, body = _ask("/api/recordings", cookie=f"other=1; {COOKIE}")
    assert (status, body) == (200, b"in")
    assert "set-cookie" not in headers
    assert _ask("/api/recordings", cookie="trellis-studio-8123=wrong")[0] == 403
    assert _ask("/api/recordings", cookie="trellis-studio-8123=\xe9")[0] == 403
    assert _ask("/api/recordings", cookie="=;;,\x01=")[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8123", "127.0.0.1.evil.example:8123", "", "10.0.0.1"]
)
def test_another_name_is_refused(host: str) -> None:
    status, headers, body = _ask(cookie=COOKIE, host=host)
    assert status == 421
    assert "error" in json.loads(body)
    assert headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost:9000", "localhost", "[::1]:80"])
def test_own_names(host: str) -> None:
    assert _ask(cookie=COOKIE, host=host)[0] == 200


def test_changes_come_from_the_page_itself() -> None:
    given = {"cookie": COOKIE, "origin": ORIGIN, "content_type": JSON, "content_length": "2"}
    assert _ask("/api/learn", "POST", **given)[0] == 200
    for change, status in (
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"cookie": ""}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_length": str(MAX_BODY + 1)}, 413),
        ({"content_length": "-1"}, 413),
        ({"content_length": "²"}, 413),
    ):
        assert _ask("/api/learn", "POST", **{**given, **change})[0] == status, change
    for missing in given:
        assert _ask("/api/learn", "POST", **{k: v for k, v in given.items() if k != missing})[0] > 400, (
            missing
        )
