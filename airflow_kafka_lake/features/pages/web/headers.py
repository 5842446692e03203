"""Headers of every answer: what a browser may do with it."""

from __future__ import annotations

from typing import Any

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'self'"
)
HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")


class Headers:
    """Adds the headers to every answer of an ASGI application; what is not said to be cacheable is not kept."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                ours = [(name, value) for name, value in (*HEADERS, NO_STORE) if name not in names]
                message = {**message, "headers": [*given, *ours]}
            await send(message)

        await self._app(scope, receive, with_headers)
