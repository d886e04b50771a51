"""The interface of channels, and the HTTP client that two of them share."""

from collections.abc import Mapping
from typing import Protocol

import httpx

from streaming.base.errors import UserError
from streaming.serve.alerting.config import Secret
from streaming.serve.alerting.render import Message

IDEMPOTENCY_KEY = "Idempotency-Key"
_REJECTED = frozenset({400, 413, 415, 422})
"""The HTTP statuses that reject the message itself. After any other (also for a wrong token) a retry may succeed."""
_ANSWER_CHARACTERS = 200


class ChannelError(Exception):
    """A channel did not accept a message; `rejected`: because of its content, so that a retry is useless."""

    def __init__(self, reason: str, *, rejected: bool = False) -> None:
        super().__init__(reason)
        self.rejected = rejected


class Channel(Protocol):
    """A destination of messages."""

    @property
    def resend_ms(self) -> int | None:
        """The interval of state updates in milliseconds; such a channel groups and limits by itself. None: none."""

    def send(self, message: Message, now: int) -> None:
        """Send a message.

        Raises:
            ChannelError: it was not accepted.
        """

    def stand(self, message: Message, now: int) -> None:
        """Send the current state again, without news.

        Raises:
            ChannelError: it was not accepted.
        """

    def close(self) -> None:
        """Close the connections."""


class HttpClient:
    """Posts JSON to one address; errors never contain the address or the headers."""

    def __init__(self, url: Secret, path: str, headers: Mapping[str, Secret], timeout_ms: int) -> None:
        """Check the address.

        Raises:
            UserError: it is invalid, or a secret is missing.
        """
        try:
            self._url = httpx.URL(url.read().rstrip("/") + path if path else url.read())
            usable = self._url.scheme in {"http", "https"} and bool(self._url.host)
        except httpx.InvalidURL:
            usable = False
        if not usable:
            raise UserError("Invalid address of an alert channel. Use http://HOST:PORT or https://HOST/PATH.")
        try:
            self._client = httpx.Client(
                timeout=timeout_ms / 1000, headers={name: value.read() for name, value in headers.items()}
            )
        except (UnicodeError, ValueError):
            raise UserError("Invalid header of an alert channel. Use ASCII characters.") from None

    def post(self, body: bytes, key: str) -> None:
        """Post a body.

        Raises:
            ChannelError: there was no response or an error status.
        """
        headers = {"Content-Type": "application/json", IDEMPOTENCY_KEY: key}
        try:
            answer = self._client.post(self._url, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ChannelError(f"no response ({type(error).__name__})") from None
        if not answer.is_success:
            text = " ".join(answer.text[:_ANSWER_CHARACTERS].split()).replace(str(self._url), "…")
            raise ChannelError(f"HTTP {answer.status_code} {text}".rstrip(), rejected=answer.status_code in _REJECTED)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
