"""Polling rounds over a scripted cluster."""

import asyncio

from streaming.base.sections.collector import Collector
from streaming.collect.emitter import Emitter
from streaming.collect.poll import Poller

SETTINGS = Collector(
    broker_networks=(),
    name_servers=("ns:1",),
    instance="poll-1",
    interval_ms=1000,
    deadline_ms=60_000,
    client_deadline_ms=10_000,
    parallelism=4,
    consume_time_span=False,
    oldest_offsets=False,
    stacks_after_ms=0,
    dead_letters_interval_ms=0,
    groups=(),
    clusters=(),
    share=False,
)


def polled(cluster, talk=None, *, proxies=(), **changes):
    """Return the events of one round (or of ``talk``), with changed settings."""

    async def run():
        emitter = Emitter("poll-1")
        poller = Poller(cluster, emitter, SETTINGS.model_copy(update=changes), proxies=proxies)
        await poller.find_brokers()
        if talk is None:
            await poller.round()
            await poller.drain()
        else:
            await talk(poller)
        await poller.cancel()
        emitter.finish()
        batches = []
        await emitter.send(batches.append)
        return [event for batch in batches for event in batch]

    return asyncio.run(run())


def of_kinds(events, *kinds):
    return [type(event) for event in events if not kinds or isinstance(event, kinds)]
