"""The servers to which the collector connects: an open name server lists every address that anybody registers.

Configured name servers and proxies are always reached. A broker is reached where ``collector.broker_networks`` has its
address or its host, and anywhere without that setting. A broker on this machine is reached only beside a name server on
this machine: otherwise a registered ``127.0.0.1:22`` would be tried from here. The host is resolved once, and the
connection opened to the address that was checked.

Each host name is looked up in a thread of its own. A lookup can't be stopped, and takes as long as the name servers of
the host's domain let it: that of a registered address may hang. The event loop's own lookups share the threads in which
events are written, and its end waits for them; these share nothing, and end with the process.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterable
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_network
from threading import Thread

from streaming.base.addresses import address_of, ip_of, is_local
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
                raise ConnectionError(f"{LOOKUPS} host names are being looked up")
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


class NotReachedError(ConnectionError):
    """The settings do not allow a connection to a server."""


class AllowedServers:
    """Checks the addresses of servers before a connection is opened."""

    def __init__(
        self, name_servers: Iterable[str] = (), networks: Iterable[str] = (), proxies: Iterable[str] = ()
    ) -> None:
        """Allow the configured servers (host:port), and the brokers of these networks.

        They are networks, addresses, or patterns of host names; none: any but this machine.
        """
        self._lookups = Lookups()
        self._name_servers = frozenset(name_servers)
        self._configured = self._name_servers.union(proxies)
        self._networks: list[IPv4Network | IPv6Network] = []
        self._hosts: list[str] = []
        for network in networks:
            try:
                self._networks.append(ip_network(network, strict=False))
            except ValueError:
                self._hosts.append(network.lower())

    def is_configured(self, address: str) -> bool:
        """Return whether it is a configured name server or proxy: of such a one any error may be reported."""
        return address in self._configured

    async def find(self, address: str) -> tuple[str, list[tuple[str, int]]]:
        """Return the host of an address for its certificate, and the addresses to connect to, in order.

        Raises:
            NotReachedError: none of them is allowed.
            OSError: it is no address, or the host can't be resolved.
        """
        try:
            host, port = address_of(address)
        except ValueError as error:
            raise ConnectionError(str(error)) from None
        addresses = await self._resolved(host)
        if address not in self._configured:
            addresses = [ip for ip in addresses if await self._allows(host, ip)]
        if not addresses:
            raise NotReachedError(f"{address} is not allowed by collector.broker_networks, or is on this machine")
        return host, [(ip, port) for ip in addresses]

    async def _allows(self, host: str, ip: str) -> bool:
        address = ip_of(ip)
        if self._networks or self._hosts:
            is_named = any(fnmatchcase(host.lower(), pattern) for pattern in self._hosts)
            return is_named or any(address in network for network in self._networks)
        return not is_local(address) or await self._is_beside_a_name_server()

    async def _resolved(self, host: str) -> list[str]:
        try:
            return [str(ip_of(host))]
        except ValueError:
            return await self._lookups.addresses(host)

    async def _is_beside_a_name_server(self) -> bool:
        for name_server in self._name_servers:
            try:
                host, _ = address_of(name_server)
                addresses = await self._resolved(host)
            except (ValueError, OSError):
                continue
            if any(is_local(ip_of(ip)) for ip in addresses):
                return True
        return False
