"""Tokens for the SASL mechanism OAUTHBEARER, by OAuth's client credentials grant (RFC 6749, 4.4)."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec
from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.base.errors import UserError
from streaming.base.http import HttpAnswer, Poster
from streaming.base.limits import REPLY_BYTES

_ANSWER_SECONDS_MAX = 10.0
_REFRESH_FRACTION = 0.8
"""A token is used for this part of its lifetime, as in the Java client (sasl.login.refresh.window.factor)."""


class _Token(msgspec.Struct, frozen=True):
    """The answer of a token server (RFC 6749, 5.1)."""

    access_token: str = ""
    expires_in: float = 0.0


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Exchanges a client id and secret for a token, and keeps it until shortly before it expires."""

    def __init__(self, url: str, client_id: str, secret: str, scope: str) -> None:
        self._url = url
        self._credentials = httpx.BasicAuth(client_id, secret)
        self._form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._token = ""
        self._good_until = 0.0

    def token(self) -> str:
        """Return a token that is still good.

        Raises:
            UserError: the server can't be reached or refuses.
        """
        if time.monotonic() >= self._good_until:
            answer = self._ask()
            self._token = answer.access_token
            self._good_until = time.monotonic() + answer.expires_in * _REFRESH_FRACTION
        return self._token

    def _post(self) -> HttpAnswer:
        with Poster(_ANSWER_SECONDS_MAX, REPLY_BYTES) as poster:
            return poster.post(self._url, data=self._form, auth=self._credentials)

    def _ask(self) -> "_Token":
        try:
            with ThreadPoolExecutor(1) as thread:  # this one may run an event loop
                answer = thread.submit(self._post).result()
            token = msgspec.json.decode(answer.body, type=_Token) if answer.is_success else _Token()
        except (TimeoutError, OSError, httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            raise UserError(
                f"The token server {self._url} can't be asked ({type(error).__name__}): start it, or correct "
                "kafka.token_url."
            ) from KafkaConnectionError(type(error).__name__)
        if not token.access_token:
            raise UserError(
                f"The token server {self._url} gave no token (HTTP {answer.status}): correct kafka.username, its "
                "password or kafka.token_scope."
            )
        return token
