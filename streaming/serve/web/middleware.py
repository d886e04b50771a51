"""Middleware around pages: the path prefix of the public address, and the language of a reader."""

from collections.abc import Iterator, Mapping
from importlib.metadata import version

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.base.language import ENGLISH, LANGUAGES, in_language
from streaming.serve.links import below

_ASSETS = f"/_nicegui/{version('nicegui')}/"
_FOREVER = "public, max-age=31536000, immutable, stale-while-revalidate=31536000"
"""The Cache-Control that NiceGUI sends with its assets, which it knows by their path without a prefix."""


def path_of(connection: HTTPConnection) -> str:
    """Return the path of a request below the prefix."""
    path: str = connection.scope["path"]
    prefix: str = connection.scope.get("root_path", "")
    return path.removeprefix(prefix) or "/"


class Prefix:
    """Gives each request the prefix, whether the proxy has passed it on or not."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        """Wrap an application; a prefix is such as ``/rw``, or empty."""
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a connection on."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        # NiceGUI would put it before the prefix that is known already; and anybody may send it.
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"x-forwarded-prefix"]
        path = self._below(scope["path"])
        whole = {"path": self._prefix + path, "root_path": self._prefix, "headers": headers}

        async def send_asset(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Cache-Control"] = _FOREVER
            await send(message)

        is_asset = self._prefix and path.startswith(_ASSETS) and not path.startswith(f"{_ASSETS}dynamic_resources/")
        with below(self._prefix):
            await self._app({**scope, **whole}, receive, send_asset if is_asset else send)

    def _below(self, path: str) -> str:
        if self._prefix and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            return path.removeprefix(self._prefix) or "/"
        return path


LANGUAGE_COOKIE = "rebalance-watch-language"
"""The cookie that the switch of a page sets (`static/page.js`); the server needs it to render the page."""
AUTO = "auto"


def language_of(headers: Mapping[str, str], cookies: Mapping[str, str], setting: str) -> str:
    """Return the language for a request, by its headers (in lower case), its cookies, and `web.language`."""
    chosen = cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    if setting != AUTO:
        return setting
    wanted = _by_quality(headers.get("accept-language", ""))
    return next((one for one in wanted if one in LANGUAGES), ENGLISH)


def _by_quality(accepted: str) -> Iterator[str]:
    """Yield the languages of the header, without their regions, the most wanted first."""
    ranges = [one.strip().partition(";") for one in accepted.split(",")]
    for tag, _, quality in sorted(ranges, key=lambda one: -_number(one[2])):
        if _number(quality):
            yield tag.strip().partition("-")[0].lower()


def _number(quality: str) -> float:
    name, _, value = quality.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


NO_PAGES = ("/api/", "/mcp", "/metrics")
"""The beginnings of the paths of what is no page."""


class Languages:
    """Handles a request in the language of its reader, and says so in the header of a page."""

    def __init__(self, app: ASGIApp, setting: str) -> None:
        """Wrap an application."""
        self._app = app
        self._setting = setting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a connection on."""
        connection = HTTPConnection(scope) if scope["type"] == "http" else None
        if connection is None or path_of(connection).startswith(NO_PAGES):
            await self._app(scope, receive, send)
            return
        language = language_of(connection.headers, connection.cookies, self._setting)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers["Content-Language"] = LANGUAGES[language].tag
                    headers.add_vary_header("Accept-Language")
                    headers.add_vary_header("Cookie")
            await send(message)

        with in_language(language):
            await self._app(scope, receive, send_with_headers)
