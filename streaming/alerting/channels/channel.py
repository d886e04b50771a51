"""What every channel can do, and the HTTP that two of them share."""

from collections.abc import Mapping
from typing import Protocol

import httpx

from streaming.alerting.config import Secret
from streaming.alerting.render import Message
from streaming.errors import UserError

IDEMPOTENCY_KEY = "Idempotency-Key"
_TO_BLAME = frozenset({400, 413, 415, 422})
"""What a server answers when the message is wrong. Of anything else (a wrong token, too) the next attempt may fare
better."""
_ANSWER_CHARACTERS = 200


class ChannelError(Exception):
    """A channel did not take a message; `rejected`: and will not, as it is."""

    def __init__(self, reason: str, *, rejected: bool = False) -> None:
        super().__init__(reason)
        self.rejected = rejected


class Channel(Protocol):
    """A place that messages go to."""

    @property
    def resend_ms(self) -> int | None:
        """How often it wants to be told all that stands; then it also groups and limits by itself. None: never."""

    def send(self, message: Message, now: int) -> None:
        """Send a message.

        Raises:
            ChannelError: it was not taken.
        """

    def stand(self, message: Message, now: int) -> None:
        """Tell what stands, which is no news.

        Raises:
            ChannelError: it was not taken.
        """

    def close(self) -> None:
        """Let go of connections."""


class HttpClient:
    """Posts JSON to one address; neither the address nor the headers are ever in an error."""

    def __init__(self, url: Secret, path: str, headers: Mapping[str, Secret], timeout_ms: int) -> None:
        """Check the address.

        Raises:
            UserError: it is none, or a secret is not there.
        """
        try:
            self._url = httpx.URL(url.read().rstrip("/") + path if path else url.read())
            usable = self._url.scheme in {"http", "https"} and bool(self._url.host)
        except httpx.InvalidURL:
            usable = False
        if not usable:
            raise UserError("The address of an alert channel is none: write http://HOST:PORT or https://HOST/PATH.")
        try:
            self._client = httpx.Client(
                timeout=timeout_ms / 1000, headers={name: value.read() for name, value in headers.items()}
            )
        except (UnicodeError, ValueError):
            raise UserError("A header of an alert channel can't be sent: use ASCII characters.") from None

    def post(self, body: bytes, key: str) -> None:
        """Post a body.

        Raises:
            ChannelError: nobody answered, or with no success.
        """
        headers = {"Content-Type": "application/json", IDEMPOTENCY_KEY: key}
        try:
            answer = self._client.post(self._url, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ChannelError(f"no answer ({type(error).__name__})") from None
        if not answer.is_success:
            said = " ".join(answer.text[:_ANSWER_CHARACTERS].split()).replace(str(self._url), "…")
            raise ChannelError(f"HTTP {answer.status_code} {said}".rstrip(), rejected=answer.status_code in _TO_BLAME)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
