"""How far a broker is behind with giving back popped messages: the offsets of RocketMQ's own revive group (208)."""

import asyncio
from contextlib import AbstractAsyncContextManager

from streaming.collect.client import CONNECT_SECONDS, RpcFailedError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.rpc import Rpc


async def backlog(rpc: Rpc, broker: ListedBroker, gate: AbstractAsyncContextManager[None] | None) -> int | None:
    """Return the records of POPs that the broker has not checked yet; None: it does not say, or has none at all.

    Not every user may read the offsets of this group, and the broker's status does not wait for it for long: whatever
    fails makes only this unknown.

    Args:
        rpc: the requests.
        broker: the broker.
        gate: room for a request; None: the broker did not answer the last time, and is not asked.
    """
    if gate is None:
        return None
    try:
        async with asyncio.timeout(CONNECT_SECONDS), gate:
            return await rpc.revive_backlog(broker, CONNECT_SECONDS)
    except (TimeoutError, RpcFailedError):
        return None
