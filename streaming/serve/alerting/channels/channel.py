"""The interface of channels, and the HTTP client that most of them share."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import httpx

from streaming.base.errors import UserError
from streaming.base.http import Poster
from streaming.base.limits import REPLY_BYTES
from streaming.base.secrets import Redaction
from streaming.serve.alerting.config import AppriseConfig, Secret
from streaming.serve.alerting.render import AlertMessage

IDEMPOTENCY_KEY = "Idempotency-Key"
_REJECTED = frozenset({400, 413, 415, 422})
"""The HTTP statuses that reject the message itself. After any other (also for a wrong token) a retry may succeed."""
_ANSWER_CHARACTERS = 200


class ChannelError(Exception):
    """A channel did not accept a message; `rejected`: because of its content, so that a retry is useless."""

    def __init__(self, reason: str, *, rejected: bool = False) -> None:
        super().__init__(reason)
        self.rejected = rejected


class AlertChannel:
    """A destination of messages."""

    resend_ms: int | None = None
    """The interval of state updates in milliseconds; None: there are none."""

    def send(self, message: AlertMessage, now: int) -> None:
        """Send a message.

        Raises:
            ChannelError: it was not accepted.
        """
        raise NotImplementedError

    def stand(self, message: AlertMessage, now: int) -> None:
        """Send the current state again, without news, where there are updates.

        Raises:
            ChannelError: it was not accepted.
        """

    def close(self) -> None:
        """Close the connections, if any are kept open."""


class HttpClient:
    """Posts JSON to one address; errors never contain the address or the headers."""

    def __init__(
        self, url: Secret, path: str, headers: Mapping[str, Secret], timeout_ms: int, secrets: Sequence[str] = ()
    ) -> None:
        """Check the address, to whose path ``path`` is added.

        ``timeout_ms`` is for a request until the end of its answer; ``secrets`` are what else must not be shown.

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
        values = {name: value.read() for name, value in headers.items()}
        self._redaction = Redaction([*_secrets(self._url), *values.values(), *secrets])
        try:
            self._poster = Poster(timeout_ms / 1000, REPLY_BYTES, headers=values)
        except ValueError as error:
            raise UserError(
                f"Invalid header {str(error)!r} of an alert channel: write its name and its value in one line of ASCII "
                "characters; a file or variable must have the value alone."
            ) from None

    def post(self, body: bytes, key: str, query: Mapping[str, str] | None = None, path: str = "") -> bytes:
        """Post a body under an idempotency key; return the body of the answer.

        ``query`` and ``path`` are added to the address.

        Raises:
            ChannelError: there was no response or an error status.
        """
        headers = {"Content-Type": "application/json", IDEMPOTENCY_KEY: key}
        url = self._url.copy_with(path=self._url.path + path) if path else self._url
        url = url.copy_merge_params(query) if query else url
        try:
            answer = self._poster.post(url, content=body, headers=headers)
        except (TimeoutError, OSError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ChannelError(f"no response ({type(error).__name__})") from None
        if not answer.is_success:
            text = self.redacted(answer.body.decode("utf-8", "replace"))
            raise ChannelError(f"HTTP {answer.status} {text}".rstrip(), rejected=answer.status in _REJECTED)
        return answer.body

    def redacted(self, text: str) -> str:
        """Return the beginning of what the server said, without the address and the headers."""
        return self._redaction.of(text)[:_ANSWER_CHARACTERS]

    def close(self) -> None:
        """Close the connections."""
        self._poster.close()


class HttpChannel(AlertChannel):
    """A channel with connections of HTTP."""

    _http: HttpClient

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _secrets(url: httpx.URL) -> list[str]:
    """Return what is secret of an address: all of it, also as the header that httpx makes of its user."""
    user = url.userinfo.decode()
    return [str(url), url.raw_path.decode(), *([user, unquote(user), url.password or ""] if user else [])]


_UNFINISHED_MAX = 100
"""The maximum number of unfinished messages; more than one is rare, since a message blocks the following ones."""


class AppriseChannel(AlertChannel):
    """The addresses of one channel: a message is delivered when each of them has accepted it.

    A retry goes only to the addresses that have not accepted it yet. This is kept in memory: after a restart the others
    may receive it again, under the same key. An address with several receivers counts as one. An address that never
    accepts blocks the next messages to the others: give it a separate channel.
    """

    def __init__(self, config: AppriseConfig) -> None:
        """Read the addresses.

        Raises:
            UserError: they are missing or one is invalid; the message omits it, since it may contain a password.
        """
        from apprise import Apprise

        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it would log addresses
        every = Apprise()
        for number, url in enumerate(config.urls.read().split(), 1):
            if not every.add(url):
                raise UserError(f"Address {number} of an alert channel is not a valid Apprise URL: correct it.")
        self._addresses = [(str(one.service_name), Apprise([one])) for one in every]
        """The service and the address, each separate since Apprise reports success only for all of them."""
        self._taken: dict[str, set[int]] = {}
        """The addresses that have accepted an unfinished message, by its key."""

    def send(self, message: AlertMessage, now: int) -> None:
        """Send a message to every address that has not accepted it."""
        del now
        taken = self._taken_of(message.key)
        content = _content(message)
        for number, (_, address) in enumerate(self._addresses):
            if number not in taken and address.notify(**content):
                taken.add(number)
        left = [kind for number, (kind, _) in enumerate(self._addresses) if number not in taken]
        if left:
            kinds = ", ".join(sorted(set(left)))
            raise ChannelError(f"{len(left)} of {len(self._addresses)} Apprise addresses failed: {kinds}")
        del self._taken[message.key]

    def _taken_of(self, key: str) -> set[int]:
        taken = self._taken.setdefault(key, set())
        if len(self._taken) > _UNFINISHED_MAX:
            del self._taken[next(iter(self._taken))]
        return taken


def _content(message: AlertMessage) -> dict[str, Any]:
    from apprise import NotifyFormat, NotifyType

    kinds = {one["kind"] for one in message.alerts}
    critical = any(one["severity"] == "critical" for one in message.alerts)
    kind = NotifyType.SUCCESS if kinds == {"RESOLVED"} else NotifyType.FAILURE if critical else NotifyType.WARNING
    body = f"{message.body}\n[{message.key}]"
    return {"title": message.title, "body": body, "notify_type": kind, "body_format": NotifyFormat.TEXT}
