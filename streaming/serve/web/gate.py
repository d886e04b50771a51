"""The middleware around all requests, including NiceGUI's websocket: access control and response headers.

- The host name of a request must be one of this server (against DNS rebinding).
- A request from a page of another site is rejected, except a link to a page: no foreign script can read the tables,
  open a websocket, or ask for something that takes long.
- A request's body is limited.
- The request must have the token, a session, or headers of a trusted proxy, as `web.token` and `web.sign_in` say; the
  probes are open. What handles it knows who asks (`streaming.serve.user`); a websocket ends with its session.

A link from another site (an alert in a chat) is followed without the session cookie of a token, which is
SameSite=Strict. The first response is therefore a page that reloads the same address from this site.

Anybody can send the headers by which a trusted proxy names a person (`web.sign_in`, kind ``proxy``). So the outermost
middleware, `ProxyHeaders`, removes them from what does not come from a proxy of
`web.trusted_proxies`, by the address of the connection: X-Forwarded-For is not considered yet. A header that comes
twice counts as none, because one of them may be the client's own, which its proxy has passed on.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from http import HTTPStatus
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from streaming.base.addresses import is_among
from streaming.base.language import gettext
from streaming.base.limits import REQUEST_BYTES
from streaming.base.sections.web import SignIn
from streaming.serve.links import prefix
from streaming.serve.user import BY_TOKEN, NOBODY, User, asked_by
from streaming.serve.web import probes
from streaming.serve.web.access import Access, TooManyError
from streaming.serve.web.api.errors import failure
from streaming.serve.web.middleware import NO_PAGES, path_of


class ProxyHeaders:
    """Removes the headers that name a person from all requests but those of the proxies."""

    def __init__(self, app: ASGIApp, sign_in: SignIn, proxies: Sequence[str]) -> None:
        """Wrap an application."""
        self._app = app
        self._names = frozenset({sign_in.name_header.encode(), sign_in.roles_header.encode()})
        self._proxies = tuple(map(ipaddress.ip_network, proxies))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a connection on."""
        if scope["type"] in {"http", "websocket"} and not self._is_proxy(scope):
            headers = [(name, value) for name, value in scope["headers"] if name.lower() not in self._names]
            scope = {**scope, "headers": headers}
        await self._app(scope, receive, send)

    def _is_proxy(self, scope: Scope) -> bool:
        client = scope["client"]
        return client is not None and is_among(client[0], self._proxies)  # a Unix socket has no address


class NoRoleError(Exception):
    """A person has neither role."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def user_of_proxy(connection: HTTPConnection, sign_in: SignIn) -> User | None:
    """Return the person whom the headers of a request name; None: they name nobody.

    Raises:
        NoRoleError: the person has no role.
    """
    name = _only(connection, sign_in.name_header)
    if not name:
        return None
    values = [value.strip() for value in _only(connection, sign_in.roles_header).split(",") if value.strip()]
    if (role := sign_in.role_of(values)) is None:
        raise NoRoleError(name)
    return User(name, name, role)


def _only(connection: HTTPConnection, name: str) -> str:
    """Return the value of a header that comes once, else an empty text."""
    values = connection.headers.getlist(name)
    if len(values) != 1:
        return ""
    try:
        return values[0].encode("latin-1").decode("utf-8").strip()
    except UnicodeDecodeError:
        return values[0].strip()


_LOOK_SECONDS = 1.0
_POLICY_VIOLATION = 1008


async def until_session_ends(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, holds: Callable[[], bool]
) -> None:  # fmt: skip
    """Pass a websocket on until its session has ended; then close it, at most a second later.

    What the browser sends after the end of the session is not passed on any more.

    Args:
        app: the application.
        scope: of the websocket.
        receive: as ASGI has it.
        send: as ASGI has it.
        holds: returns whether the session has not ended.
    """
    is_closed = False

    async def receive_if_it_holds() -> Message:
        nonlocal is_closed
        message = asyncio.ensure_future(receive())
        try:
            while holds():
                await asyncio.wait({message}, timeout=_LOOK_SECONDS)
                if message.done() and holds():
                    return message.result()
        finally:
            if not message.done():
                message.cancel()
        if not is_closed:
            is_closed = True
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "The session has ended."})
        return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}

    async def send_if_open(message: Message) -> None:
        if not is_closed:
            await send(message)

    await app(scope, receive_if_it_holds, send_if_open)


SESSION_COOKIE = "rebalance-watch-session"
LOGIN_PATH = "/login"
CALLBACK_PATH = f"{LOGIN_PATH}/callback"
"""The address to which the identity provider sends people back."""
LOGGED_OUT_PATH = f"{LOGIN_PATH}/ended"
_OPEN_PATHS = frozenset({LOGIN_PATH, CALLBACK_PATH, LOGGED_OUT_PATH, *probes.PATHS})
"""The paths that need no credentials."""

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
_OTHER_SITES = frozenset({"cross-site", "same-site"})
"""Values of Sec-Fetch-Site, which browsers send, but scripts can't set. Of the same site, yet of another origin, is
also a server on another port of this machine."""
_NO_USER = (
    "The proxy in front has named nobody: people open the dashboard at the proxy's address, programs send the token as "
    "Authorization: Bearer TOKEN."
)
_HERE_AGAIN = (
    '<!doctype html><meta charset="utf-8"><title>rebalance-watch</title><meta http-equiv="refresh" content="0">'
)


class RequestGate:
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
        admitted = self._refused(connection) or await self._admitted(connection)
        if isinstance(admitted, User):
            with asked_by(admitted):
                await self._pass_on(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
        else:
            await admitted(scope, receive, send_with_headers)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = HTTPConnection(scope).cookies.get(SESSION_COOKIE, "")
        if scope["type"] == "websocket" and self._access.sessions.holds(session):
            await until_session_ends(self._app, scope, receive, send, lambda: self._access.sessions.holds(session))
        else:
            await self._app(scope, receive, send)

    def _refused(self, connection: HTTPConnection) -> Response | None:
        """Return the response that rejects a connection of any client; None if nothing is wrong with it."""
        hosts = self._access.hosts
        if hosts is not None and _name(connection.headers.get("host", "")) not in hosts:
            return failure(HTTPStatus.BAD_REQUEST, "Unknown host name: use 127.0.0.1, or set web.url.")
        if self._is_foreign(connection):
            return failure(HTTPStatus.FORBIDDEN, "Requests from pages of other sites are not allowed.")
        return _too_large(connection)

    async def _admitted(self, connection: HTTPConnection) -> User | Response:
        """Return who asks, or the response to a request that lacks credentials."""
        if self._access.is_open or path_of(connection) in _OPEN_PATHS:
            return NOBODY
        try:
            user = await self._user_of(connection)
        except TooManyError as error:
            return _too_many(error)
        except NoRoleError as error:
            return failure(HTTPStatus.FORBIDDEN, no_role(error.name))
        return user or self._unknown(connection)

    def _unknown(self, connection: HTTPConnection) -> Response:
        """Return the response to a request without credentials."""
        by_proxy = self._access.sign_in.kind == "proxy"
        if by_proxy or "text/html" not in connection.headers.get("accept", ""):
            sentence = _NO_USER if by_proxy else "A token is required: send it as Authorization: Bearer TOKEN."
            answer = failure(HTTPStatus.UNAUTHORIZED, sentence)
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        if connection.headers.get("sec-fetch-site") in _OTHER_SITES:
            return HTMLResponse(_HERE_AGAIN, headers={"Cache-Control": "no-store"})
        asked = connection.scope["query_string"].decode("latin-1")
        wanted = quote(connection.scope["path"]) + (f"?{asked}" if asked else "")
        return RedirectResponse(
            f"{prefix()}{LOGIN_PATH}?{urlencode({'next': wanted})}", HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"}
        )

    def _is_foreign(self, connection: HTTPConnection) -> bool:
        if connection.headers.get("sec-fetch-site") in _OTHER_SITES and not _is_link(connection):
            return True  # such as an image with the address of a prediction: nobody reads it, but it costs time
        origin = connection.headers.get("origin")
        if origin is None:  # a link, a scraper or a script: no page can read the response
            return False
        own = connection.headers.get("host", "").lower()
        return origin.lower() not in {f"http://{own}", f"https://{own}", self._access.origin}

    async def _user_of(self, connection: HTTPConnection) -> User | None:
        """Return the user of these credentials; None: no valid credentials."""
        if self._access.sign_in.kind == "proxy":
            user = user_of_proxy(connection, self._access.sign_in)
        else:
            user = self._access.sessions.user_of(connection.cookies.get(SESSION_COOKIE, ""))
        if user is not None:
            return user
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        is_right = scheme.lower() == "bearer" and await self._access.check(token.strip(), address_of(connection))
        return BY_TOKEN if is_right else None


def no_role(name: str) -> str:
    """Return the sentence for a person who has neither role."""
    return gettext(
        "{name} is signed in, and has no role here: an administrator gives one in web.sign_in (operators, viewers).",
        name=name,
    )


def _too_large(connection: HTTPConnection) -> Response | None:
    """Return the response to a request whose body exceeds the limit, or may: the server holds it to its length."""
    length = connection.headers.get("content-length")
    if length is None and "transfer-encoding" in connection.headers:
        return failure(HTTPStatus.LENGTH_REQUIRED, "A body without Content-Length is not accepted.")
    if length is not None and not (length.isascii() and length.isdigit() and int(length[:20]) <= REQUEST_BYTES):
        sentence = f"The body of the request has more than {REQUEST_BYTES:,} bytes."
        return failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
    return None


def address_of(connection: HTTPConnection) -> str:
    """Return where a connection comes from; only a proxy of `web.trusted_proxies` says it in X-Forwarded-For."""
    return connection.client.host if connection.client else ""


def _too_many(error: TooManyError) -> Response:
    """Create the response after too many wrong tokens."""
    answer = failure(HTTPStatus.TOO_MANY_REQUESTS, str(error))
    answer.headers["Retry-After"] = str(error.seconds)
    return answer


def _is_link(connection: HTTPConnection) -> bool:
    """Return whether the browser opens a page, instead of loading a part of another one."""
    headers = connection.headers
    opens = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return opens and connection.scope.get("method") == "GET" and not path_of(connection).startswith(NO_PAGES)


def _name(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() else host.lower()
