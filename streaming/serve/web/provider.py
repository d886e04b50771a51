"""The client of an identity provider: Authlib's for Starlette, with what a provider says of itself checked."""

import ssl
import time
from collections import OrderedDict
from typing import Any, Final, Self
from urllib.parse import urlsplit

from authlib.integrations.starlette_client import StarletteIntegration, StarletteOAuth2App

from streaming.base.addresses import is_loopback
from streaming.base.sections.web import SignIn

SIGN_IN_SECONDS: Final = 600
"""The time that a person has at the provider."""
_ENDED_MAX = 100_000
"""The sign-ins that have ended and are known; a provider takes each code once, too."""
_METADATA_SECONDS = 3_600
"""The time after which the provider's description of itself is read again."""
_TIMEOUT_SECONDS = 10.0
_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Algorithms with a private key: ``none``, and those with a shared secret, are accepted of no provider."""
_NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_LOADED_AT = "_loaded_at"


class WrongProviderError(Exception):
    """A server that is not the provider of the settings, or lacks something that a sign-in needs."""


class SignInState(StarletteIntegration):  # type: ignore[misc]  # Authlib has no types
    """The state of each sign-in, which the signed cookie of its browser holds: other sign-ins take none of its room.

    Here is only which of them have ended, so that an answer of the provider counts once.
    """

    def __init__(self) -> None:
        super().__init__("provider")
        self.expires_in = SIGN_IN_SECONDS
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def get_state_data(self, session: dict[str, Any], state: str) -> dict[str, Any] | None:
        """Return what was stored; None: nothing in this browser, too long ago, or it has ended."""
        if state in self._ended:
            return None
        data: dict[str, Any] | None = await super().get_state_data(session, state)
        return data

    async def set_state_data(self, session: dict[str, Any], state: str, data: dict[str, Any]) -> None:
        """Store what the answer must fit; the address of the provider, which nobody reads, would fill the cookie."""
        await super().set_state_data(session, state, {name: one for name, one in data.items() if name != "url"})

    async def clear_state_data(self, session: dict[str, Any], state: str) -> None:
        """End a sign-in that this browser has begun."""
        if await self.get_state_data(session, state) is not None:
            self._ended[state] = None
            if len(self._ended) > _ENDED_MAX:
                self._ended.popitem(last=False)
        await super().clear_state_data(session, state)


class Provider(StarletteOAuth2App):  # type: ignore[misc]  # Authlib has no types
    """An identity provider, and this server's identity there."""

    issuer: str
    server_metadata: dict[str, object]

    @classmethod
    def of(cls, sign_in: SignIn, client_secret: str, *, verify: ssl.SSLContext) -> Self:
        """Create the client of the settings; it connects when somebody signs in."""
        made = cls(
            SignInState(), "provider", client_id=sign_in.client_id, client_secret=client_secret or None,
            server_metadata_url=f"{sign_in.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": " ".join(sign_in.scopes), "code_challenge_method": "S256", "verify": verify,
                "timeout": _TIMEOUT_SECONDS,
            },
        )  # fmt: skip
        made.issuer = sign_in.issuer
        return made

    async def load_server_metadata(self) -> dict[str, object]:
        """Return what the provider says of itself.

        Raises:
            WrongProviderError: it is another one, or lacks an address.
            httpx2.HTTPError: it does not answer.
            ValueError: it answers with something else.
        """
        loaded_at = self.server_metadata.get(_LOADED_AT)
        if isinstance(loaded_at, float) and time.time() - loaded_at > _METADATA_SECONDS:
            self.server_metadata = {}
        if _LOADED_AT in self.server_metadata:
            return self.server_metadata
        metadata: dict[str, object] = await super().load_server_metadata()
        try:
            self._check(metadata)
        except WrongProviderError:
            self.server_metadata = {}
            raise
        return metadata

    async def fetch_access_token(self, **kwargs: str) -> dict[str, object]:
        """Exchange the code of a sign-in; the provider's keys are read again for what it says."""
        self.server_metadata.pop("jwks", None)
        answer: dict[str, object] = await super().fetch_access_token(**kwargs)
        return answer

    async def logout_address(self, back: str, id_token: str) -> str | None:
        """Return the address at which a person signs out at the provider; None: it has none.

        Args:
            back: to which it sends the person back.
            id_token: what it has said of the person.
        """
        metadata = await self.load_server_metadata()
        if "end_session_endpoint" not in metadata:
            return None
        made = await self.create_logout_url(
            post_logout_redirect_uri=back, id_token_hint=id_token or None, state="", client_id=self.client_id
        )
        return str(made["url"])

    def _check(self, metadata: dict[str, object]) -> None:
        """Check and complete what a provider says of itself."""
        if metadata.get("issuer") != self.issuer:
            raise WrongProviderError(
                f"it calls itself {metadata.get('issuer')!r}, and web.sign_in.issuer {self.issuer!r}"
            )
        for name in _NEEDED:
            if name not in metadata:
                raise WrongProviderError(f"its configuration has no {name}")
        for name in (*_NEEDED, "userinfo_endpoint", "end_session_endpoint"):
            if name in metadata:
                _check_address(name, metadata[name])
        algorithms = metadata.get("id_token_signing_alg_values_supported")
        accepted = (
            [algorithm for algorithm in algorithms if algorithm in _ALGORITHMS] if isinstance(algorithms, list) else []
        )
        metadata["id_token_signing_alg_values_supported"] = accepted or ["RS256"]
        methods = metadata.get("token_endpoint_auth_methods_supported")
        if self.client_secret and isinstance(methods, list) and "client_secret_basic" not in methods:
            self.client_kwargs["token_endpoint_auth_method"] = "client_secret_post"  # noqa: S105  a method


def _check_address(name: str, address: object) -> None:
    """Check an address to which secrets or people are sent: as for the issuer, http only on this machine.

    Raises:
        WrongProviderError: it is none.
    """
    try:
        at = urlsplit(address if isinstance(address, str) and address.isprintable() else "")
        is_right = bool(at.hostname) and not at.username and (at.port is None or at.port > 0)
    except ValueError:
        is_right = False
    if not is_right or not (at.scheme == "https" or (at.scheme == "http" and is_loopback(str(at.hostname)))):
        raise WrongProviderError(f"its configuration has a {name} that is no https address: {str(address)[:200]!r}")
