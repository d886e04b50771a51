"""The middleware around all requests, including NiceGUI's websocket: access control and response headers.

- The host name of a request must be one of this server (against DNS rebinding).
- A request from a page of another site is rejected: no foreign script can read the tables or open a websocket.
- If there is a token, the request must have it or a session created with it; the probes are open.

A link from another site (an alert in a chat) is followed without the session cookie, which is SameSite=Strict. The
first response is therefore a page that reloads the same address from this site.
"""

from http import HTTPStatus
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from streaming.serve.web import probes
from streaming.serve.web.access import Access
from streaming.serve.web.api.errors import failure

SESSION_COOKIE = "rebalance-watch-session"
LOGIN_PATH = "/login"
_OPEN_PATHS = frozenset({LOGIN_PATH, *probes.PATHS})
"""The paths that need no token."""

HEADERS = {
    # NiceGUI's pages contain their elements in an inline script, and Vue compiles its templates.
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
        "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HERE_AGAIN = (
    '<!doctype html><meta charset="utf-8"><title>rebalance-watch</title><meta http-equiv="refresh" content="0">'
)


class Gate:
    """Checks access and adds the headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a connection on or reject it."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] in {"http.response.start", "websocket.http.response.start"}:
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                del headers["Access-Control-Allow-Origin"], headers["Access-Control-Allow-Credentials"]
            await send(message)

        connection = HTTPConnection(scope)
        refusal = self._refused(connection)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
        else:
            await refusal(scope, receive, send_with_headers)

    def _refused(self, connection: HTTPConnection) -> Response | None:
        """Return the response that rejects a connection; None if it is accepted."""
        hosts = self._access.hosts
        if hosts is not None and _name(connection.headers.get("host", "")) not in hosts:
            return failure(HTTPStatus.BAD_REQUEST, "Unknown host name: use 127.0.0.1, or set web.url.")
        if self._is_foreign(connection):
            return failure(HTTPStatus.FORBIDDEN, "Requests from pages of other sites are not allowed.")
        if self._access.token is None or connection.scope["path"] in _OPEN_PATHS or self._is_known(connection):
            return None
        if "text/html" not in connection.headers.get("accept", ""):
            answer = failure(HTTPStatus.UNAUTHORIZED, "A token is required: send it as Authorization: Bearer TOKEN.")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        if connection.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
            return HTMLResponse(_HERE_AGAIN, headers={"Cache-Control": "no-store"})
        asked = connection.scope["query_string"].decode("latin-1")
        wanted = quote(connection.scope["path"]) + (f"?{asked}" if asked else "")
        return RedirectResponse(
            f"{LOGIN_PATH}?{urlencode({'next': wanted})}", HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"}
        )

    def _is_foreign(self, connection: HTTPConnection) -> bool:
        origin = connection.headers.get("origin")
        if origin is None:  # a link, a scraper or a script: no page can read the response
            return False
        own = connection.headers.get("host", "").lower()
        return origin.lower() not in {f"http://{own}", f"https://{own}", self._access.origin}

    def _is_known(self, connection: HTTPConnection) -> bool:
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._access.knows(token.strip()):
            return True
        return self._access.has_session(connection.cookies.get(SESSION_COOKIE, ""))


def _name(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() else host.lower()
