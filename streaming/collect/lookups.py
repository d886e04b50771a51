"""Look host names up, each in a thread of its own.

A lookup can't be stopped, and takes as long as the name servers of the host's domain let it: that of a registered
address may hang. The event loop's own lookups share the threads in which events are written, and its end waits for
them; these share nothing, and end with the process.
"""

import asyncio
import contextlib
import socket
from threading import Thread

from streaming.base.limits import LOOKUPS


class Lookups:
    """The lookups under way, one of each host."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str) -> list[str]:
        """Return the numeric addresses of a host, without duplicates.

        Raises:
            OSError: it can't be looked up, or too many lookups are under way.
        """
        if host not in self._running:
            if len(self._running) >= LOOKUPS:
                msg = f"{LOOKUPS} host names are being looked up"
                raise ConnectionError(msg)
            self._start(host)
        return await asyncio.shield(self._running[host])  # others may wait for it, too

    def _start(self, host: str) -> None:
        loop = asyncio.get_running_loop()
        future = self._running[host] = loop.create_future()
        future.add_done_callback(asyncio.Future.exception)  # retrieved, even if no caller waits any more

        def settle(addresses: list[str], error: OSError | None) -> None:
            del self._running[host]
            if error is None:
                future.set_result(addresses)
            else:
                future.set_exception(error)

        def look() -> None:
            found, error = _looked_up(host)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, found, error)

        Thread(target=look, name="lookup", daemon=True).start()


def _looked_up(host: str) -> tuple[list[str], OSError | None]:
    try:
        records = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return [], error
    except UnicodeError as error:  # of the resolver's own encoding
        return [], ConnectionError(str(error))
    return list(dict.fromkeys(str(where[0]) for *_, where in records)), None
