"""Tokens for the SASL mechanism OAUTHBEARER, by OAuth's client credentials grant (RFC 6749, 4.4)."""

import time

import httpx
from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.base.errors import UserError

_ANSWER_SECONDS_MAX = 10.0
_REFRESH_FRACTION = 0.8
"""A token is used for this part of its lifetime, as in the Java client (sasl.login.refresh.window.factor)."""


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
            self._token = str(answer["access_token"])
            self._good_until = time.monotonic() + float(answer.get("expires_in", 0)) * _REFRESH_FRACTION
        return self._token

    def _ask(self) -> dict[str, str]:
        try:
            answer = httpx.post(self._url, data=self._form, auth=self._credentials, timeout=_ANSWER_SECONDS_MAX)
            found: dict[str, str] = answer.json() if answer.is_success else {}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise UserError(
                f"The token server {self._url} can't be asked ({type(error).__name__}): start it, or correct "
                "kafka.token_url."
            ) from KafkaConnectionError(type(error).__name__)
        if "access_token" not in found:
            raise UserError(
                f"The token server {self._url} gave no token (HTTP {answer.status_code}): correct kafka.username, its "
                "password or kafka.token_scope."
            )
        return found
