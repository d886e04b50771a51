"""Sessions of browsers that sent the token, and the limit on wrong tokens. Both are kept in memory.

So a session ends with a logout, for every copy of its cookie, and when the server is started again. Replicas would need
requests of a browser at the same one, which the pages' websocket needs, too.
"""

import hashlib
import secrets
import time
from collections import OrderedDict

from streaming.base.limits import LOGIN_FAILURES

SESSION_SECONDS = 7 * 86_400
"""The duration of a login."""
_SESSIONS_MAX = 10_000
_WINDOW_SECONDS = 60.0
_ADDRESSES_MAX = 10_000


class Sessions:
    """The sessions that have begun and not ended. Times are in seconds, of any one clock."""

    def __init__(self) -> None:
        self._ends: OrderedDict[bytes, float] = OrderedDict()
        """By the hash of the session, oldest first: what this process holds in memory opens nothing."""

    def begin(self, now: float | None = None) -> str:
        """Return a new session."""
        now = time.monotonic() if now is None else now
        session = secrets.token_urlsafe(32)
        self._ends[_hash(session)] = now + SESSION_SECONDS
        while len(self._ends) > _SESSIONS_MAX or next(iter(self._ends.values())) < now:
            self._ends.popitem(last=False)
        return session

    def holds(self, session: str, now: float | None = None) -> bool:
        """Return whether a session has begun and not ended."""
        end = self._ends.get(_hash(session))
        return end is not None and (time.monotonic() if now is None else now) < end

    def end(self, session: str) -> None:
        """End a session; one that is unknown is ignored."""
        self._ends.pop(_hash(session), None)


class Failures:
    """Counts wrong tokens by the address that sent them."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """When the minute of an address began, and its wrong tokens since; oldest first."""

    def add(self, address: str, now: float | None = None) -> None:
        """Count one."""
        now = time.monotonic() if now is None else now
        began, count = self._found.get(address, (now, 0))
        if now - began >= _WINDOW_SECONDS:
            self._found.pop(address)
            began, count = now, 0
        self._found[address] = began, count + 1
        if len(self._found) > _ADDRESSES_MAX:
            self._found.popitem(last=False)

    def wait_seconds(self, address: str, now: float | None = None) -> float:
        """Return for how long tokens of an address are refused; 0: they are not."""
        began, count = self._found.get(address, (0.0, 0))
        left = began + _WINDOW_SECONDS - (time.monotonic() if now is None else now)
        return max(0.0, left) if count >= LOGIN_FAILURES else 0.0


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogateescape")).digest()
