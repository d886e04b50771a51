"""Sessions of people who have signed in or sent the token, and the limit on wrong tokens. Both are kept in memory.

So a session ends with a logout, for every copy of its cookie, and when the server is started again. Replicas would need
requests of a browser at the same one, which the pages' websocket needs, too.
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from typing import NamedTuple

from streaming.base.addresses import sender_of
from streaming.base.limits import LOGIN_FAILURES, LOGIN_TURNS
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
    """What the identity provider has said of the person, to sign out there; empty: it has said nothing."""


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
