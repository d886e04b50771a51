"""POST requests to servers that may answer anything: limited in time and size as a whole, headers and body together.

httpx's own timeouts are for each read, so a byte a second would keep a request for ever.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from streaming.base.files import Closable

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?")


def check_headers(headers: Mapping[str, str]) -> None:
    """Check that headers can be sent, and that none has a line end, which would begin another header.

    Raises:
        ValueError: with the name of the first one that can't; never with its value.
    """
    for name, value in headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise ValueError(name)


class HttpAnswer(NamedTuple):
    """The status of an answer and its body, or as much of the body as the limits allow."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Return whether the server has accepted the request."""
        return 200 <= self.status < 300


class Poster(Closable):
    """Sends POST requests, one at a time, and keeps connections for the next ones."""

    def __init__(
        self,
        seconds: float,
        bytes_max: int,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Open no connection yet.

        ``seconds`` are for a whole request, from the lookup of the name to the end of the answer; ``bytes_max`` is for
        its body.

        Raises:
            ValueError: a header's name or value can't be sent: it has a line end or control character, or is not ASCII.
        """
        check_headers(headers or {})
        self._seconds = seconds
        self._bytes_max = bytes_max
        self._client = httpx.AsyncClient(
            timeout=seconds, headers={"Accept-Encoding": "identity", **(headers or {})}, verify=tls or True
        )
        self._loop = asyncio.Runner()

    def post(self, url: httpx.URL | str, **content: Any) -> HttpAnswer:
        """Send a request with httpx's arguments (``content``, ``data``, ``headers``, ``auth``).

        Raises:
            TimeoutError: no status came within the time.
            httpx.HTTPError: no connection, or no HTTP.
        """
        return self._loop.run(self._post(url, content))

    def close(self) -> None:
        """Close the connections."""
        self._loop.run(self._client.aclose())
        self._loop.close()

    async def _post(self, url: httpx.URL | str, content: Mapping[str, Any]) -> HttpAnswer:
        status, body = 0, bytearray()
        try:
            async with asyncio.timeout(self._seconds), self._client.stream("POST", url, **content) as answer:
                status = answer.status_code
                async for part in answer.aiter_raw():
                    body += part
                    if len(body) > self._bytes_max:
                        break
        except (TimeoutError, httpx.HTTPError):
            if not status:
                raise
        return HttpAnswer(status, bytes(body[: self._bytes_max]))
