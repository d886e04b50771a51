"""Access control: on loopback for users of this machine, from other machines with the token."""

import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from streaming.base.errors import SettingsError
from streaming.base.secrets import secret_of
from streaming.base.settings import Web
from streaming.base.times import now_ms

TOKEN_LENGTH_MIN = 16
"""The minimum length of a token, so that it cannot be guessed over a network."""
SESSION_SECONDS = 7 * 86_400
"""The duration of a login."""


@dataclass(frozen=True)
class Access:
    """The credentials that a request must have."""

    token: str | None = field(repr=False)
    hosts: frozenset[str] | None
    """The host names accepted in requests; None is any. A foreign page whose name resolves to 127.0.0.1 (DNS rebinding)
    sends its own name."""
    origin: str | None
    """The public origin, if there is a proxy in front of this server."""

    def knows(self, token: str) -> bool:
        """Return whether this is the token, in constant time."""
        return self.token is not None and secrets.compare_digest(_digest(token), _digest(self.token))

    def session(self, now: float | None = None) -> str:
        """Create a session for a browser that sent the token: its end, signed with the token."""
        until = int((now_ms() / 1000 if now is None else now) + SESSION_SECONDS)
        return f"{until}.{self._signed(until)}"

    def has_session(self, shown: str, now: float | None = None) -> bool:
        """Return whether a session is valid and has not expired."""
        until, _, signature = shown.partition(".")
        if self.token is None or not (until.isascii() and until.isdigit()) or len(until) > len("9999999999"):
            return False
        right = secrets.compare_digest(signature.encode(), self._signed(int(until)).encode())
        return right and int(until) > (now_ms() / 1000 if now is None else now)

    def _signed(self, until: int) -> str:
        return hmac.new((self.token or "").encode(), f"session {until}".encode(), hashlib.sha256).hexdigest()


def access(host: str, web: Web) -> Access:
    """Determine the credentials for requests to a server on this address.

    Raises:
        SettingsError: other machines can reach the address and there is no valid token.
    """
    token, loopback = _token(web), is_loopback(host)
    if token is None and not loopback:
        raise SettingsError(
            f"{host} is reachable from other machines: set a token of at least {TOKEN_LENGTH_MIN} characters in "
            "REBALANCE_WATCH_WEB__TOKEN (or a file in web.token_file), or listen on 127.0.0.1."
        )
    public = urlsplit(web.url)
    names = {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host, public.hostname or ""}
    return Access(
        token=token,
        hosts=frozenset(name.lower() for name in names if name) if loopback else None,
        origin=f"{public.scheme}://{public.netloc}".lower() if web.url else None,
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _digest(token: str) -> bytes:
    """Hash a token to a fixed length, so that the time of a comparison reveals nothing."""
    return hashlib.sha256(token.encode()).digest()


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
