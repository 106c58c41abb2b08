"""The pages that a browser asks for, and who may ask."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from coordinator.dashboard.exposition import exposition
from coordinator.dashboard.live import LiveRun
from coordinator.report.rendering import live_script, rendered
from models.settings import is_loopback
from models.spec import ConfigError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    Endpoint = Callable[[Request], Awaitable[Response]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'; form-action 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Pages:
    """What is answered to each request; only GETs are."""

    def __init__(self, live: LiveRun, token: str) -> None:
        self._live = live
        self._token = token

    async def page(self, request: Request) -> Response:
        """Return the whole page, and the token as a cookie for what the page asks for later."""
        response = _html(rendered("live.html", body=await self._live.body(), run=await self._live.run()))
        if self._token:
            response.set_cookie("token", self._token, httponly=True, samesite="strict")
        return response

    async def body(self, request: Request) -> Response:
        """Return the page's content alone."""
        return _html(await self._live.body())

    async def script(self, request: Request) -> Response:
        """Return what the page runs."""
        from starlette.responses import Response

        return Response(live_script(), media_type="text/javascript", headers=HEADERS)

    async def events(self, request: Request) -> Response:
        """Return a stream that tells when there is something new."""
        from starlette.responses import StreamingResponse

        return StreamingResponse(_events(self._live), media_type="text/event-stream", headers=HEADERS)

    async def metrics(self, request: Request) -> Response:
        """Return the figures for Prometheus."""
        from starlette.responses import Response

        content, media_type = exposition(await self._live.run())
        return Response(content, headers={**HEADERS, "Content-Type": media_type})

    async def health(self, request: Request) -> Response:
        """Return that the run can be read."""
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok", "outcome": (await self._live.run()).outcome}, headers=HEADERS)


def make_app(live: LiveRun, token: str) -> Starlette:
    """Return the application; everything in it needs the token if there is one."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    pages = Pages(live, token)
    endpoints = {
        "/": pages.page,
        "/body": pages.body,
        "/live.js": pages.script,
        "/events": pages.events,
        "/metrics": pages.metrics,
        "/healthz": pages.health,
    }
    return Starlette(
        routes=[Route(path, _guarded(endpoint, token), methods=["GET"]) for path, endpoint in endpoints.items()],
        exception_handlers={ConfigError: _unreadable},
    )


def _unreadable(request: Request, error: Exception) -> Response:
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(f"{error}\n", 503, headers=HEADERS)


def _html(text: str) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(text, headers=HEADERS)


def _guarded(endpoint: Endpoint, token: str) -> Endpoint:
    """Let only those in who know the token: in the address, as a cookie from there, or as a bearer.

    Without a token only those who ask for an address of this machine: a foreign name could be made to lead here.
    """
    from starlette.responses import PlainTextResponse

    async def guarded(request: Request) -> Response:
        host = request.headers.get("host", "")
        if not token and not is_loopback(_host_of(host)):
            told = f"expected to be asked for as localhost or an address of it, got {host!r}\n"
            return PlainTextResponse(told, 400, headers=HEADERS)
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = request.query_params.get("token") or request.cookies.get("token") or bearer
        if token and not secrets.compare_digest(given.encode(), token.encode()):
            return PlainTextResponse("expected ?token=..., as the coordinator printed it\n", 401, headers=HEADERS)
        return await endpoint(request)

    return guarded


def _host_of(header: str) -> str:
    """Return the host that a request names, whose port may be missing; nothing of what is none."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


async def _events(live: LiveRun) -> AsyncIterator[str]:
    async for what in live.changes():
        yield f"data: {json.dumps(what)}\n\n"
