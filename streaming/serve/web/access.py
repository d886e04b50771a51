"""Access control: on loopback for users of this machine, from other machines with the token or by signing in."""

import asyncio
import hashlib
import secrets
from dataclasses import dataclass, field
from math import ceil
from urllib.parse import urlsplit

from streaming.base.addresses import is_loopback
from streaming.base.errors import SettingsError
from streaming.base.language import gettext
from streaming.base.secrets import secret_of
from streaming.base.sections.web import SignIn, Web
from streaming.serve.web.sessions import Failures, Sessions

TOKEN_LENGTH_MIN = 16
"""The minimum length of a token, so that it cannot be guessed over a network."""


class TooManyError(Exception):
    """Refusal of an address with too many wrong tokens; ``seconds``: until its tokens are compared at once again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(gettext("Too many wrong tokens from this address: retry in {seconds} s.", seconds=seconds))
        self.seconds = seconds


@dataclass(frozen=True)
class Access:
    """The credentials that a request must have."""

    token: str | None = field(repr=False)
    hosts: frozenset[str] | None
    """The host names accepted in requests; None is any. A foreign page whose name resolves to 127.0.0.1 (DNS rebinding)
    sends its own name."""
    origin: str | None
    """The public origin, if there is a proxy in front of this server."""
    sign_in: SignIn
    """How people sign in, and who may."""
    is_https: bool = False
    """Whether browsers speak HTTPS with this server, or with the proxy in front of it, whatever a request says."""
    client_secret: str = field(default="", repr=False)
    """The secret of this server at the identity provider."""
    sessions: Sessions = field(default_factory=Sessions, repr=False)
    failures: Failures = field(default_factory=Failures, repr=False)

    @property
    def is_open(self) -> bool:
        """Return whether requests need no credentials."""
        return self.sign_in.kind == "token" and self.token is None

    def knows(self, token: str) -> bool:
        """Return whether this is the token, in constant time."""
        return self.token is not None and secrets.compare_digest(_digest(token), _digest(self.token))

    async def check(self, token: str, address: str) -> bool:
        """Return whether this is the token; a wrong one is counted.

        Raises:
            TooManyError: the address has sent too many wrong ones, and this one is wrong, or too many wait.
        """
        if not token:
            return False
        turn = self.failures.turn(address)
        if turn:
            await asyncio.sleep(turn)
        if turn is not None and self.knows(token):
            return True
        if wait := self.failures.wait_seconds(address):
            raise TooManyError(ceil(wait))
        self.failures.add(address)
        return False


def access(host: str, web: Web) -> Access:
    """Determine the credentials for requests to a server on this address.

    Raises:
        SettingsError: other machines can reach the address and there is neither a valid token nor a way to sign in; or
            what a way to sign in needs is missing.
    """
    token, loopback, sign_in = _token(web), is_loopback(host), web.sign_in
    if sign_in.kind == "token" and token is None and not loopback:
        raise SettingsError(
            f"{host} is reachable from other machines: set a token of at least {TOKEN_LENGTH_MIN} characters in "
            "REBALANCE_WATCH_WEB__TOKEN (or a file in web.token_file), or listen on 127.0.0.1."
        )
    if sign_in.kind == "oidc" and not loopback and not web.url:
        raise SettingsError(
            "Signing in by OIDC needs the address to which the identity provider sends people back: set web.url."
        )
    if sign_in.kind == "proxy" and not web.trusted_proxies:
        raise SettingsError(
            "The headers of a proxy name people only if the proxy is known: set its address in web.trusted_proxies."
        )
    public = urlsplit(web.url)
    names = {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host, public.hostname or ""}
    return Access(
        token=token,
        hosts=frozenset(name.lower() for name in names if name) if loopback else None,
        origin=f"{public.scheme}://{public.netloc}".lower() if web.url else None,
        sign_in=sign_in,
        is_https=bool(web.certificate_file) or public.scheme == "https",
        client_secret=_client_secret(sign_in),
    )


def _digest(token: str) -> bytes:
    """Hash a token to a fixed length, so that the time of a comparison reveals nothing."""
    return hashlib.sha256(token.encode()).digest()


def _client_secret(sign_in: SignIn) -> str:
    return secret_of("web.sign_in.client_secret", sign_in.client_secret, sign_in.client_secret_file)


def _token(web: Web) -> str | None:
    token = secret_of("web.token", web.token, web.token_file)
    if not (token or web.token_file):
        return None
    if len(token) < TOKEN_LENGTH_MIN:
        where = f"The file {web.token_file} (web.token_file)" if web.token_file else "web.token"
        raise SettingsError(
            f"{where} has fewer than {TOKEN_LENGTH_MIN} characters: create a token with `openssl rand -hex 32`."
        )
    return token
