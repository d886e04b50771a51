"""Who may come in: on loopback this machine's users, from anywhere else who knows the token."""

import hashlib
import hmac
import ipaddress
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from streaming.errors import UserError
from streaming.settings import Web

TOKEN_LENGTH_MIN = 16
"""A token that is shorter can be guessed over a network."""
SESSION_SECONDS = 7 * 86_400
"""How long a login lasts."""


@dataclass(frozen=True)
class Access:
    """What a request must show."""

    token: str | None = field(repr=False)
    hosts: frozenset[str] | None
    """The names that a request may call this server by; None is any. A page of somebody else's that lets its own name
    point to 127.0.0.1 (DNS rebinding) names itself here."""
    origin: str | None
    """The public origin, where a proxy stands before this server."""

    def knows(self, token: str) -> bool:
        """Whether it is the token; takes the same time whatever is wrong with it."""
        return self.token is not None and secrets.compare_digest(_digest(token), _digest(self.token))

    def session(self, now: float | None = None) -> str:
        """What a browser that gave the token shows from then on: an end, signed with the token."""
        until = int((time.time() if now is None else now) + SESSION_SECONDS)
        return f"{until}.{self._signed(until)}"

    def has_session(self, shown: str, now: float | None = None) -> bool:
        """Whether a session is one of this token's and not over."""
        until, _, signature = shown.partition(".")
        if self.token is None or not (until.isascii() and until.isdigit()) or len(until) > len("9999999999"):
            return False
        right = secrets.compare_digest(signature.encode(), self._signed(int(until)).encode())
        return right and int(until) > (time.time() if now is None else now)

    def _signed(self, until: int) -> str:
        return hmac.new((self.token or "").encode(), f"session {until}".encode(), hashlib.sha256).hexdigest()


def access(host: str, web: Web) -> Access:
    """What requests to a server on this address must show.

    Raises:
        UserError: the address can be reached from elsewhere and there is no token, or one that is no good.
    """
    token, loopback = _token(web), is_loopback(host)
    if token is None and not loopback:
        raise UserError(
            f"{host} can be reached from other machines: set a token of {TOKEN_LENGTH_MIN} characters or more in "
            "REBALANCE_WATCH_WEB__TOKEN (or name a file with it in web.token_file), or stay on 127.0.0.1."
        )
    public = urlsplit(web.url)
    names = {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host, public.hostname or ""}
    return Access(
        token=token,
        hosts=frozenset(name.lower() for name in names if name) if loopback else None,
        origin=f"{public.scheme}://{public.netloc}".lower() if web.url else None,
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _digest(token: str) -> bytes:
    """Of one length, whatever the token's: the comparison's time tells nothing."""
    return hashlib.sha256(token.encode()).digest()


def _token(web: Web) -> str | None:
    if web.token and web.token_file:
        raise UserError("Both web.token and web.token_file are set: keep one.")
    token, where = web.token, "web.token"
    if web.token_file:
        where = f"The file {web.token_file} (web.token_file)"
        try:
            token = Path(web.token_file).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{where} can't be read ({type(error).__name__}): correct the setting.") from None
    elif not token:
        return None
    if len(token) < TOKEN_LENGTH_MIN:
        raise UserError(
            f"{where} holds fewer than {TOKEN_LENGTH_MIN} characters: make a token with `openssl rand -hex 32`."
        )
    return token
