"""Whether any broker accepts the collector: asked once, at its start."""

import asyncio
from collections.abc import Sequence

from streaming.collect.client import CONNECT_SECONDS, RefusedError, RpcFailedError
from streaming.collect.responses import Broker
from streaming.collect.rpc import Rpc


async def check_access(brokers: Sequence[Broker], rpc: Rpc, parallelism: int) -> None:
    """Request the groups of every broker; one that is slow or away is not waited for long.

    Args:
        brokers: the brokers.
        rpc: the requests.
        parallelism: how many of them are open at a time.

    Raises:
        RefusedError: every broker refuses the client.
    """
    gate = asyncio.Semaphore(parallelism)

    async def refusal(broker: Broker) -> RefusedError | None:
        async with gate:
            try:
                await rpc.groups(broker, CONNECT_SECONDS)
            except RefusedError as error:
                return error
            except RpcFailedError:
                pass  # the rounds report it
        return None

    asking = [asyncio.create_task(refusal(broker)) for broker in brokers]
    done, late = await asyncio.wait(asking, timeout=2 * CONNECT_SECONDS) if asking else (set(), set())
    for task in late:
        task.cancel()
    refusals = [error for task in done if (error := task.result()) is not None]
    if refusals and len(refusals) == len(brokers):
        raise refusals[0]
