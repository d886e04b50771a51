"""Sessions of browsers that sent the token, and the limit on wrong tokens. Both are kept in memory.

So a session ends with a logout, for every copy of its cookie, and when the server is started again. Replicas would need
requests of a browser at the same one, which the pages' websocket needs, too.
"""

import hashlib
import ipaddress
import secrets
import time
from collections import OrderedDict

from streaming.base.limits import LOGIN_FAILURES, LOGIN_TURNS

SESSION_SECONDS = 7 * 86_400
"""The duration of a login."""
_SESSIONS_MAX = 10_000
_WINDOW_SECONDS = 60.0
_ADDRESSES_MAX = 10_000
_ADDRESS_LENGTH = 64
"""Of what a proxy says that is no address."""


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
    `LOGIN_TURNS` wait for that. So who guesses gets no further, and who has the right token and shares the address (a
    proxy, a scraper with an old token beside it) is let in.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[str, _Count] = OrderedDict()
        """By network, oldest first."""

    def add(self, address: str, now: float | None = None) -> None:
        """Count one."""
        now = time.monotonic() if now is None else now
        network = _network(address)
        count = self._found.get(network)
        if count is None or now - count.began >= _WINDOW_SECONDS:
            self._found.pop(network, None)
            count = self._found[network] = _Count(now)
        count.wrong += 1
        if len(self._found) > _ADDRESSES_MAX:
            self._found.popitem(last=False)

    def wait_seconds(self, address: str, now: float | None = None) -> float:
        """Return for how long tokens of an address are compared one a second; 0: they are compared at once."""
        count = self._found.get(_network(address))
        if count is None or count.wrong < LOGIN_FAILURES:
            return 0.0
        return max(0.0, count.began + _WINDOW_SECONDS - (time.monotonic() if now is None else now))

    def turn(self, address: str, now: float | None = None) -> float | None:
        """Return after how many seconds a token of an address is compared; None: too many wait for that."""
        now = time.monotonic() if now is None else now
        if not self.wait_seconds(address, now):
            return 0.0
        count = self._found[_network(address)]
        turn = max(now, count.turn_at)
        if turn - now > LOGIN_TURNS:
            return None
        count.turn_at = turn + 1
        return turn - now


def _network(address: str) -> str:
    """Return what one sender has of addresses: an address of IPv4, and 64 bits of IPv6, where any has 2^64."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:_ADDRESS_LENGTH]
    if found.version == 4:
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogateescape")).digest()
