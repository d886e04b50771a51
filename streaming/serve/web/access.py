"""Access control: on loopback for users of this machine, from other machines with the token or by signing in.

Sessions and the limit on wrong tokens are kept in memory. So a session ends with a logout, for every copy of its
cookie, and when the server is started again. Replicas would need requests of a browser at the same one, which the
pages' websocket needs, too.
"""

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple
from urllib.parse import urlsplit

from streaming.base.addresses import is_loopback, sender_of
from streaming.base.errors import SettingsError
from streaming.base.language import gettext
from streaming.base.limits import LOGIN_FAILURES, LOGIN_TURNS
from streaming.base.secrets import secret_of
from streaming.base.sections.web import SignIn, Web
from streaming.serve.user import BY_TOKEN, User

SESSION_SECONDS = 7 * 86_400
"""The duration of a login by the token."""
_SESSIONS_MAX = 10_000
_WINDOW_SECONDS = 60.0
_ADDRESSES_MAX = 10_000


class _Session(NamedTuple):
    """A session of one user."""

    ends_at: float
    user: User
    id_token: str
    """The identity provider's token of the person, to sign out there; empty: it has sent none."""


class Sessions:
    """The sessions that have begun and not ended. Times are in seconds, of any one clock."""

    def __init__(self) -> None:
        self._begun: OrderedDict[bytes, _Session] = OrderedDict()
        """By the hash of the session, oldest first: what this process holds in memory opens nothing."""

    def begin(
        self, now: float | None = None, *, user: User = BY_TOKEN, seconds: float = SESSION_SECONDS, id_token: str = ""
    ) -> str:  # fmt: skip
        """Return a new session.

        Args:
            now: the time.
            user: whose it is.
            seconds: how long it lasts; the same for all sessions of a process.
            id_token: see `_Session`.
        """
        now = time.monotonic() if now is None else now
        session = secrets.token_urlsafe(32)
        self._begun[_hash(session)] = _Session(now + seconds, user, id_token)
        while len(self._begun) > _SESSIONS_MAX or next(iter(self._begun.values())).ends_at < now:
            self._begun.popitem(last=False)
        return session

    def user_of(self, session: str, now: float | None = None) -> User | None:
        """Return whose session it is; None: it has not begun, or has ended."""
        found = self._begun.get(_hash(session))
        holds = found is not None and (time.monotonic() if now is None else now) < found.ends_at
        return found.user if found is not None and holds else None

    def holds(self, session: str, now: float | None = None) -> bool:
        """Return whether a session has begun and not ended."""
        return self.user_of(session, now) is not None

    def end(self, session: str) -> str:
        """End a session; one that is unknown is ignored. Returns its id token; empty: it has none."""
        found = self._begun.pop(_hash(session), None)
        return "" if found is None else found.id_token


class _Count:
    """The wrong tokens of an address. Times are in seconds."""

    def __init__(self, began: float) -> None:
        self.began = began
        """When its minute began."""
        self.wrong = 0
        self.turn_at = began
        """When its next token may be compared, after too many wrong ones."""


class Failures:
    """Counts wrong tokens by the address that sent them.

    After `LOGIN_FAILURES` within a minute the tokens of the address are compared one a second, and at most
    `LOGIN_TURNS` wait for that. So guessing is slow, and a client with the right token that shares the address (a
    proxy, a scraper with an old token beside it) is let in.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[str, _Count] = OrderedDict()
        """By sender, oldest first."""

    def add(self, address: str, now: float | None = None) -> None:
        """Count one."""
        now = time.monotonic() if now is None else now
        sender = sender_of(address)
        count = self._counts.get(sender)
        if count is None or now - count.began >= _WINDOW_SECONDS:
            self._counts.pop(sender, None)
            count = self._counts[sender] = _Count(now)
        count.wrong += 1
        if len(self._counts) > _ADDRESSES_MAX:
            self._counts.popitem(last=False)

    def wait_seconds(self, address: str, now: float | None = None) -> float:
        """Return for how long tokens of an address are compared one a second; 0: they are compared at once."""
        count = self._counts.get(sender_of(address))
        if count is None or count.wrong < LOGIN_FAILURES:
            return 0.0
        return max(0.0, count.began + _WINDOW_SECONDS - (time.monotonic() if now is None else now))

    def turn(self, address: str, now: float | None = None) -> float | None:
        """Return after how many seconds a token of an address is compared; None: too many wait for that."""
        now = time.monotonic() if now is None else now
        if not self.wait_seconds(address, now):
            return 0.0
        count = self._counts[sender_of(address)]
        turn = max(now, count.turn_at)
        if turn - now > LOGIN_TURNS:
            return None
        count.turn_at = turn + 1
        return turn - now


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogateescape")).digest()


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
    """The way to sign in, and who may."""
    is_https: bool = False
    """True if browsers speak HTTPS with this server, or with the proxy in front of it, whatever a request says."""
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
