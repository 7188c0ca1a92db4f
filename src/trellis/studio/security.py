"""Who may ask the studio for anything.

The server listens to the loopback interface only, but every program and every web page on this machine can
reach that. So each request must have

* a ``Host`` that is this machine's own name: another name means that a foreign page had its own name point
  here (DNS rebinding);
* the token, which the address on the terminal has once, and from then on a cookie that no other site can send
  (``SameSite=Strict``) and no script can read (``HttpOnly``); it is compared in constant time;
* when it changes something, the ``Origin`` of the studio itself, and a body of JSON of at most ``MAX_BODY``
  bytes.

Answers forbid the page to load anything from elsewhere, and others to show it in a frame.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

MAX_BODY = 64 * 1024
OWN_NAMES = frozenset(("127.0.0.1", "localhost", "[::1]"))
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def new_token() -> str:
    return secrets.token_urlsafe(32)


class Guard:
    """The only way to the application: it answers those who may not ask itself."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._cookie = f"trellis-studio-{port}"  # cookies are the same for all ports of a machine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no other protocol is spoken here
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        cookies: list[tuple[bytes, bytes]] = []
        refusal = self._refusal(scope, headers, cookies)
        if refusal is not None:
            await _refuse(send, *refusal)
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS, *cookies]
            await send(message)

        await self._app(scope, receive, guarded)

    def _refusal(
        self, scope: Scope, headers: dict[str, str], cookies: list[tuple[bytes, bytes]]
    ) -> tuple[int, str] | None:
        """Why the request is refused, if it is; ``cookies`` get the one to set."""
        host = headers.get("host", "")
        if host.rpartition(":")[0] not in OWN_NAMES and host not in OWN_NAMES:
            return 421, "this is not the name of the studio"
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and self._matches(given):
            value = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            cookies.append((b"set-cookie", value.encode()))
        elif not self._matches(_cookie(headers.get("cookie", ""), self._cookie)):
            return 403, "open the address that the terminal shows: it has the token of this studio"
        if scope["method"] in ("GET", "HEAD"):
            return None
        if headers.get("origin") != f"http://{host}":
            return 403, "only the studio's own page may change anything"
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "send JSON"
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()) or int(length) > MAX_BODY:
            return 413, f"send at most {MAX_BODY} bytes, and say how many"
        return None

    def _matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [*HEADERS, (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
