"""Run the poll collector: rounds and ticks, and the sink (the log or a recording) for their events."""

import asyncio
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog

from streaming.base.errors import UnavailableError, UserError
from streaming.base.limits import BROKERS
from streaming.base.process import files_for_connections
from streaming.base.sections.collector import NameServers
from streaming.base.settings import Settings
from streaming.collect.client import RemotingClient, RequestRefusedError, RpcFailedError
from streaming.collect.emitter import Emitter, Sink
from streaming.collect.poll import Claims, Poller
from streaming.collect.poll_round import Share, Summary, everything
from streaming.collect.reach import AllowedServers
from streaming.collect.reading import Reading
from streaming.collect.rpc import Rpc
from streaming.collect.security import security_of
from streaming.log.rows import partition_of
from streaming.log.shares import Shares

log = structlog.get_logger()

TICK_SECONDS = 1.0
TICK_BEFORE_SECONDS = 0.15
"""The time before each whole second of the clock at which a tick is sent: the job begins its batches at whole seconds,
and what a tick completes otherwise waits for the next one, up to a second."""
_REFUSED = re.compile(r"\[Errno \d+\] Connect call failed \(.*\)")
_AGAIN_AFTER_SECONDS = 1.0
"""A server that is being stopped closes connections, too; after this time it can't be reached."""

_TIMER_SECONDS = 0.005
"""A timer may end a moment early; without this margin the same round would begin twice."""

Report = Callable[[Summary], None]


async def collect(
    settings: Settings, sink: Sink, *, rounds: int | None = None, shares: Shares | None = None, report: Report
) -> None:
    """Poll until interrupted (SIGINT, SIGTERM), or for a number of rounds including their last answer.

    All stamped events, including a last tick, have been passed to the sink before this returns. ``shares`` is this
    collector's membership among several that divide the groups; None: it polls all.

    Raises:
        UserError: at the start no name server answers or all brokers refuse the client, or two clusters have one
            name; or the sink accepts no more events.
    """
    collector = settings.collector
    emitter, claims = Emitter(collector.instance), Claims()
    # Two connections each; without the files for them an honest broker would look as one that is down.
    brokers_max = max(1, min(BROKERS, files_for_connections() // (2 * len(collector.polled))))
    async with AsyncExitStack() as clients:
        pollers: dict[Poller, NameServers] = {}
        for servers in collector.polled:
            reach = AllowedServers(servers.name_servers, collector.broker_networks, servers.proxies)
            client = RemotingClient(security_of(settings.rocketmq.of(servers.rocketmq)), reach)
            connected, reading = await clients.enter_async_context(client), Reading(collector.interval_ms / 1000)
            rpc = Rpc(connected, servers.name_servers, servers.names, reading, emitter.clock.now)
            clients.callback(rpc.close)
            poller = Poller(rpc, emitter, collector, claims, proxies=servers.proxies, brokers_max=brokers_max)
            pollers[poller] = servers
        await _reach(pollers)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(emitter.send(sink))
                pace = RoundSchedule(collector.interval_ms / 1000, rounds, settings.source.partitions, shares)
                polling = tasks.create_task(_poll_all(list(pollers), pace, report))
                await _finished_or_interrupted(polling)
                for poller in pollers:
                    await poller.cancel()
                    poller.tick(end=True)
                emitter.finish()
        except* UserError as group:
            raise _first(group) from None


def _first(group: BaseExceptionGroup[UserError]) -> UserError:
    first = group.exceptions[0]
    return first if isinstance(first, UserError) else _first(first)


async def _reach(pollers: Mapping[Poller, NameServers]) -> None:
    """Find the brokers of every cluster; a cluster that can't be reached is tried again in each round.

    Raises:
        UserError: none can be reached, or all clusters of an entry are those of another one. A single double may be
            a broker that somebody has registered under the name of another cluster: it is not polled.
    """
    tried = await asyncio.gather(*(_failure(*one) for one in pollers.items()))
    failures = [failure for failure in tried if failure is not None]
    for failure in failures:
        if len(failures) == len(tried):
            raise failure
        log.warning("a cluster is not reached", error=str(failure))
    for poller in pollers:
        for name in sorted(poller.doubles):
            sentence = (
                f"Two entries of collector.clusters have a cluster {name}: give one another name in its `names`, and "
                "its brokers' hooks the same name (-Drebalance.watch.cluster)."
            )
            if not poller.clusters:
                raise UserError(sentence)
            log.error(sentence)


async def _failure(poller: Poller, servers: NameServers) -> UserError | None:
    """Find the brokers, and check that at least one accepts the client; return why that failed, else None."""
    try:
        try:
            await _find_brokers(poller)
        except RequestRefusedError:
            await asyncio.sleep(_AGAIN_AFTER_SECONDS)
            await _find_brokers(poller)
    except RequestRefusedError as error:
        return UserError(error.remark)
    except RpcFailedError as error:
        return UnavailableError(
            f"No name server of {', '.join(servers.name_servers)} answers ({_plain(error.remark)}): "
            "start it, or correct collector.name_servers."
        )
    return None


def _plain(remark: str) -> str:
    """Return what the system says of a connection that was refused, in words."""
    return _REFUSED.sub("nothing listens there", remark)


async def _find_brokers(poller: Poller) -> None:
    await poller.find_brokers()
    await poller.check_access()


async def _finished_or_interrupted(polling: asyncio.Task[None]) -> None:
    """Wait for the polling, which a signal cancels; a second signal ends the process while it still sends events."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, polling.cancel)
    try:
        await asyncio.wait([polling])
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@dataclass(frozen=True)
class RoundSchedule:
    """The schedule of rounds: when they begin, how many there are, and which groups each has."""

    interval: float
    rounds: int | None
    partitions: int
    shares: Shares | None

    def wait(self, begun: float | None) -> float:
        """Return how long to wait, in seconds; ``begun``: when the last round began, by the loop's clock."""
        if self.shares is not None:
            return self.interval - time.time() % self.interval + _TIMER_SECONDS  # those that share begin together
        return 0.0 if begun is None else begun + self.interval - asyncio.get_running_loop().time()

    def share(self) -> tuple[Share, int | None]:
        """Return which groups are polled in a round that begins now, and the number of their partitions."""
        if self.shares is None:
            return everything, None
        shares, mine = self.shares, self.shares.partitions()

        def share(cluster: str, group: str) -> bool:
            partition = partition_of(f"{cluster}/{group}", self.partitions)
            return partition in mine and shares.holds(partition)

        return share, len(mine)


async def _poll_all(pollers: Sequence[Poller], pace: RoundSchedule, report: Report) -> None:
    """Poll each set of name servers at its own pace: one that is slow or away delays no other."""
    several = len(pollers) > 1
    async with asyncio.TaskGroup() as tasks:
        for poller in pollers:
            tasks.create_task(_poll(poller, pace, report, named=several))


async def _poll(poller: Poller, pace: RoundSchedule, report: Report, *, named: bool) -> None:
    """Begin a round at each interval, whatever of the last one has not ended: that is not begun again."""
    ticking = asyncio.create_task(_tick(poller))
    try:
        loop = asyncio.get_running_loop()
        begun, done = None, 0
        async with asyncio.TaskGroup() as rounds:
            while pace.rounds is None or done < pace.rounds:
                await asyncio.sleep(pace.wait(begun))
                begun = loop.time()
                share, partitions = pace.share()
                polling = rounds.create_task(_poll_round(poller, share, partitions, report, named=named))
                await asyncio.wait([polling], timeout=pace.interval)
                done += 1
        await poller.drain()
    finally:
        ticking.cancel()


async def _poll_round(poller: Poller, share: Share, partitions: int | None, report: Report, *, named: bool) -> None:
    summary = await poller.round(share)
    summary.clusters = ", ".join(poller.clusters) if named else ""
    summary.partitions = partitions
    report(summary)


async def _tick(poller: Poller) -> None:
    """Tick every second, also during a round: without ticks the time of the log does not advance."""
    while True:
        await asyncio.sleep(until_tick(time.time()))
        poller.tick()


def until_tick(now: float) -> float:
    """Return the seconds from now (epoch seconds) to the next tick: about one, so that two never follow at once."""
    left = -(now + TICK_BEFORE_SECONDS) % TICK_SECONDS
    return left if left > TICK_SECONDS / 2 else left + TICK_SECONDS
