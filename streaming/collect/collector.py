"""Run the poll collector: rounds and ticks, and the sink (the log or a recording) for their events."""

import asyncio
import signal
from collections.abc import Callable

from streaming.base.errors import UserError
from streaming.base.settings import Collector, Settings
from streaming.collect.client import RefusedError, RemotingClient, RpcFailedError
from streaming.collect.emitter import Emitter, Sink
from streaming.collect.poll import Poller, Summary
from streaming.collect.rpc import Rpc
from streaming.collect.security import security_of

TICK_SECONDS = 1.0
_AGAIN_AFTER_SECONDS = 1.0
"""A server that is being stopped closes connections, too; after this time it can't be reached."""

Report = Callable[[Summary], None]


async def collect(settings: Settings, sink: Sink, *, rounds: int | None = None, report: Report) -> None:
    """Poll until interrupted (SIGINT, SIGTERM), or for a number of rounds including their last answer.

    All stamped events, including a last tick, have been passed to the sink before this returns.

    Raises:
        UserError: at the start no name server answers or all brokers refuse the client; or the sink accepts no more
            events.
    """
    collector = settings.collector
    async with RemotingClient(security_of(settings.rocketmq)) as client:
        emitter = Emitter(collector.instance)
        poller = Poller(Rpc(client, collector.name_servers), emitter, collector)
        await _reach(poller, collector)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(emitter.send(sink))
                polling = tasks.create_task(_poll(poller, collector.interval_ms / 1000, rounds, report))
                await _finished_or_interrupted(polling)
                await poller.cancel()
                poller.tick(end=True)
                emitter.finish()
        except* UserError as group:
            raise group.exceptions[0] from None


async def _reach(poller: Poller, collector: Collector) -> None:
    """Find the brokers, and check that at least one accepts the client.

    Raises:
        UserError: no name server answers, or all brokers refuse the client.
    """
    try:
        try:
            await _find_brokers(poller)
        except RefusedError:
            await asyncio.sleep(_AGAIN_AFTER_SECONDS)
            await _find_brokers(poller)
    except RefusedError as error:
        raise UserError(error.remark) from None
    except RpcFailedError as error:
        raise UserError(
            f"No name server of {', '.join(collector.name_servers)} answers ({error.remark}): "
            "start it, or correct collector.name_servers."
        ) from None


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


async def _poll(poller: Poller, interval: float, rounds: int | None, report: Report) -> None:
    ticking = asyncio.create_task(_tick(poller))
    try:
        loop = asyncio.get_running_loop()
        due = loop.time()
        done = 0
        while rounds is None or done < rounds:
            await asyncio.sleep(due - loop.time())
            report(await poller.round())
            due = max(due + interval, loop.time())
            done += 1
        await poller.drain()
    finally:
        ticking.cancel()


async def _tick(poller: Poller) -> None:
    """Tick every second, also during a round: without ticks the time of the log does not advance."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        poller.tick()
