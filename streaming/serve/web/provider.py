"""The client of an identity provider: Authlib's for Starlette, with what a provider says of itself checked."""

import ssl
import time
from collections import OrderedDict
from typing import Final, Self

from authlib.integrations.starlette_client import StarletteIntegration, StarletteOAuth2App

from streaming.base.sections.sign_in import SignIn

SIGN_IN_SECONDS: Final = 600
"""The time that a person has at the provider."""
_PENDING_MAX = 10_000
"""The sign-ins that have begun and not ended; the oldest are forgotten."""
_METADATA_SECONDS = 3_600
"""What the provider says of itself is read again after this time."""
_TIMEOUT_SECONDS = 10.0
_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Of signatures with a private key: ``none``, and those with a shared secret, are accepted of no provider."""
_LOADED_AT = "_loaded_at"


class WrongProviderError(Exception):
    """What answers is not the provider of the settings, or lacks what a sign-in needs."""


class PendingSignIn:
    """The sign-ins that have begun: each counts once. Times are in seconds."""

    def __init__(self) -> None:
        self._begun: OrderedDict[str, tuple[float, str]] = OrderedDict()

    async def get(self, key: str) -> str | None:
        """Return what was stored; None: nothing, or too long ago."""
        end, value = self._begun.get(key, (0.0, ""))
        return value if time.monotonic() < end else None

    async def set(self, key: str, value: str, expires: float) -> None:
        """Store a value for a time."""
        self._begun[key] = (time.monotonic() + expires, value)
        if len(self._begun) > _PENDING_MAX:
            self._begun.popitem(last=False)

    async def delete(self, key: str) -> None:
        """Forget what was stored."""
        self._begun.pop(key, None)


class Provider(StarletteOAuth2App):  # type: ignore[misc]  # Authlib has no types
    """An identity provider, and this server's identity there."""

    issuer: str
    server_metadata: dict[str, object]

    @classmethod
    def of(cls, sign_in: SignIn, client_secret: str, *, verify: ssl.SSLContext | bool) -> Self:
        """Create the client of the settings; it connects when somebody signs in."""
        framework = StarletteIntegration("provider", PendingSignIn())
        framework.expires_in = SIGN_IN_SECONDS
        made = cls(
            framework, "provider", client_id=sign_in.client_id, client_secret=client_secret or None,
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
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not str(metadata.get(name, "")).startswith(("https://", "http://")):
                raise WrongProviderError(f"its configuration has no {name}")
        algorithms = metadata.get("id_token_signing_alg_values_supported")
        accepted = (
            [algorithm for algorithm in algorithms if algorithm in _ALGORITHMS] if isinstance(algorithms, list) else []
        )
        metadata["id_token_signing_alg_values_supported"] = accepted or ["RS256"]
        methods = metadata.get("token_endpoint_auth_methods_supported")
        if self.client_secret and isinstance(methods, list) and "client_secret_basic" not in methods:
            self.client_kwargs["token_endpoint_auth_method"] = "client_secret_post"  # noqa: S105  a method
