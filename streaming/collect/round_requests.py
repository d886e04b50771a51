"""The requests of one round by server, for its trace: numbers instead of single requests, of a limited number."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from streaming.base.span import Attribute, Span
from streaming.collect.client import RpcFailedError
from streaming.collect.requests import ReadCode

SERVERS_MAX: Final = 64
"""Servers of a round with a span of their own; the others share one."""
_OTHERS: Final = "others"


@dataclass
class ServerRequests:
    """The requests to one server that have ended."""

    began_ns: int
    """When the first one was sent, epoch nanoseconds."""
    ended_ns: int = 0
    """When the last answer came."""
    unanswered: int = 0
    """Requests without an answer, or with one that can't be read."""
    slowest_ns: int = 0
    by_code: Counter[str] = field(default_factory=Counter)


class RoundRequests:
    """The requests of one round, by the address of the server."""

    def __init__(self) -> None:
        self._servers: dict[str, ServerRequests] = {}

    @contextmanager
    def timed(self, address: str, code: ReadCode) -> Iterator[None]:
        """Note a request when the block ends, and whether it raised because of its answer."""
        began, unanswered = time.time_ns(), 1
        try:
            yield
            unanswered = 0
        except RpcFailedError as error:
            unanswered = int(error.code <= 0)  # else the server has answered with a code of RocketMQ
            raise
        finally:
            self._note(address, code, began, unanswered)

    def take(self, names: Mapping[str, str], began_ns: int) -> tuple[Span, ...]:
        """Return a span of each server, in the order of their first requests, and begin again.

        Args:
            names: what servers are called, by address; the others by their addresses.
            began_ns: when the round began, epoch nanoseconds; an earlier request was one of the round before.
        """
        servers, self._servers = self._servers, {}
        return tuple(
            _span(names.get(address, address), address, requests, began_ns) for address, requests in servers.items()
        )

    def _note(self, address: str, code: ReadCode, began_ns: int, unanswered: int) -> None:
        key = address if address in self._servers or len(self._servers) < SERVERS_MAX else _OTHERS
        requests = self._servers.setdefault(key, ServerRequests(began_ns))
        requests.began_ns = min(requests.began_ns, began_ns)
        requests.ended_ns = max(requests.ended_ns, time.time_ns())
        requests.slowest_ns = max(requests.slowest_ns, requests.ended_ns - began_ns)
        requests.unanswered += unanswered
        requests.by_code[code.name.lower()] += 1


def _span(name: str, address: str, requests: ServerRequests, began_ns: int) -> Span:
    attributes: dict[str, Attribute] = {
        "server.address": address,
        "requests": requests.by_code.total(),
        "unanswered": requests.unanswered,
        "slowest_ms": round(requests.slowest_ns / 1_000_000, 3),
        **{f"requests.{code}": count for code, count in sorted(requests.by_code.items())},
    }
    began_ns = max(began_ns, requests.began_ns)
    return Span(f"requests to {name}", began_ns, max(began_ns, requests.ended_ns), attributes)
