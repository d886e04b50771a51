"""The middleware for a path prefix: the dashboard behind a proxy at an address such as https://host/rw (`Web.prefix`).

The proxy may pass the prefix on or remove it. Inside, each request has it as ASGI prescribes, in ``root_path`` and at
the beginning of ``path``: from there the routes, NiceGUI's scripts and its websocket take it, and links by
`streaming.serve.links.below`.
"""

from importlib.metadata import version

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.serve.links import below

_ASSETS = f"/_nicegui/{version('nicegui')}/"
_FOREVER = "public, max-age=31536000, immutable, stale-while-revalidate=31536000"
"""What NiceGUI says of its assets, which it knows by their path without a prefix."""


def path_of(connection: HTTPConnection) -> str:
    """Return the path of a request below the prefix."""
    path: str = connection.scope["path"]
    prefix: str = connection.scope.get("root_path", "")
    return path.removeprefix(prefix) or "/"


class Prefix:
    """Gives each request the prefix, whether the proxy has passed it on or not."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        """Wrap an application.

        Args:
            app: the application.
            prefix: such as ``/rw``; empty: none.
        """
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
