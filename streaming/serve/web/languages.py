"""The middleware that chooses the language of pages by their reader; REST and metrics are always English."""

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.base.language import LANGUAGES, in_language
from streaming.serve.reader import language_of
from streaming.serve.web.prefix import path_of

NO_PAGES = ("/api/", "/mcp", "/metrics")
"""The beginnings of the paths of what is no page."""


class Languages:
    """Handles a request in the language of its reader, and says so in the header of a page."""

    def __init__(self, app: ASGIApp, setting: str) -> None:
        """Wrap an application.

        Args:
            app: the application.
            setting: `web.language`.
        """
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
