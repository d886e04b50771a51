"""Ask proxies for the clients of the groups (GET_CONSUMER_CONNECTION_LIST, 203): no broker lists those of a proxy.

A proxy is asked about each group of the round once, as soon as a broker has listed it, with as many requests at a time
as a broker gets: first about those that had clients there. It has room and time of its own: one that is slow, away or
hostile delays no broker, and no other proxy. One that did not answer the last time is asked about one group first, with
`PROBE_SECONDS` to answer; if that fails, too, the others have the same error at once, `SILENT_BROKER_GROUPS` of them in
a round.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from rebalance_model.observe.events import NOT_SUPPORTED, ProxyConnection, ProxyStatus
from streaming.base.limits import PROBE_SECONDS, SILENT_BROKER_GROUPS
from streaming.collect.asking import Asker
from streaming.collect.gates import FairGate
from streaming.collect.poll_round import PolledAnswer, Round
from streaming.collect.polled_events import PolledEvents
from streaming.collect.rpc import Rpc


class Proxies:
    """The proxies of one set of name servers."""

    def __init__(
        self, addresses: Sequence[str], parallelism: int, rpc: Rpc, asker: Asker, events: PolledEvents
    ) -> None:
        """Ask these proxies (host:port of their remoting servers), each with so many requests at a time."""
        self._proxies = [_Proxy(address, parallelism) for address in addresses]
        self._parallelism = parallelism
        self._rpc = rpc
        self._asker = asker
        self._events = events

    def begin(self, current: Round, cluster: str, groups: Sequence[str]) -> None:
        """Begin to ask each proxy about those of these groups about which it was not yet asked in the round."""
        fresh = [name for name in groups if (cluster, name) not in current.at_proxies]
        current.at_proxies.update((cluster, name) for name in fresh)
        for proxy in self._proxies if fresh else ():
            work = partial(self._ask_proxy, current, proxy, cluster, fresh)
            current.tasks.create_task(self._asker.confined(proxy.address, work))

    async def _ask_proxy(self, current: Round, proxy: "_Proxy", cluster: str, groups: Sequence[str]) -> None:
        first = proxy.first.pop(cluster, "")
        names = sorted(groups, key=lambda name: ((cluster, name) not in proxy.with_clients, name < first, name))
        if proxy.failure is not None:
            async with proxy.probing:
                if proxy.probed is not current:
                    proxy.probed = current
                    await self._ask_about(current, proxy, cluster, names.pop(0), PROBE_SECONDS)
            if not names:
                return
            if proxy.failure is not None:
                if len(names) >= SILENT_BROKER_GROUPS:
                    proxy.first[cluster] = names[SILENT_BROKER_GROUPS - 1]
                for name in names[: SILENT_BROKER_GROUPS - 1]:
                    self._emit(proxy.failure, proxy, cluster, name)
                return
        room = asyncio.Semaphore(2 * self._parallelism)
        for name in names:
            if not await current.has_time(room):
                proxy.first[cluster] = name
                break
            work = partial(self._ask_about, current, proxy, cluster, name, current.seconds)
            task = current.tasks.create_task(self._asker.confined(proxy.address, work))
            task.add_done_callback(lambda _: room.release())

    async def _ask_about(self, current: Round, proxy: "_Proxy", cluster: str, group: str, seconds: float) -> None:
        ask, gate = partial(self._rpc.proxy_connection, proxy.address, group), proxy.gate.place(group)
        answer = await self._asker.ask(ask, gate, deadline=current.deadline, seconds=seconds)
        if answer.payload is not None:
            (proxy.with_clients.add if answer.payload["connections"] else proxy.with_clients.discard)((cluster, group))
        error = answer.error
        is_failure = error is not None and (error.is_silence or error.code == NOT_SUPPORTED)
        proxy.failure = answer if is_failure else None
        if proxy.stated.get(cluster) is not current:
            proxy.stated[cluster] = current
            self._events.state(ProxyStatus, answer, cluster=cluster, proxy=proxy.address)
        self._emit(answer, proxy, cluster, group)

    def _emit(self, answer: PolledAnswer, proxy: "_Proxy", cluster: str, group: str) -> None:
        self._events.emit(ProxyConnection, answer, cluster=cluster, group=group, proxy=proxy.address)


class _Proxy:
    """One proxy."""

    def __init__(self, address: str, parallelism: int) -> None:
        self.address = address
        self.gate = FairGate(parallelism)
        self.probing = asyncio.Lock()
        """Lock that is held while the proxy is asked about one group first."""
        self.probed: Round | None = None
        """The round in which it was last asked so."""
        self.with_clients: set[tuple[str, str]] = set()
        """The groups that had clients there, by cluster and name."""
        self.failure: PolledAnswer | None = None
        """The last error, if it did not answer, or does not know the request."""
        self.stated: dict[str, Round] = {}
        """By cluster, the round in which it was last said whether the proxy answers."""
        self.first: dict[str, str] = {}
        """By cluster, the group with which the next round begins, if the last one was too short for all."""
