"""Whether any broker accepts the collector: asked once, at its start."""

import asyncio
from collections.abc import Sequence

from streaming.collect.client import CONNECT_SECONDS, RequestRefusedError, RpcFailedError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.rpc import Rpc


async def check_access(brokers: Sequence[ListedBroker], rpc: Rpc, parallelism: int) -> None:
    """Request the groups of every broker; one that is slow or away is not waited for long.

    Args:
        brokers: the brokers.
        rpc: the requests.
        parallelism: how many of them are open at a time.

    Raises:
        RefusedError: every broker refuses the client.
    """
    gate = asyncio.Semaphore(parallelism)

    async def refusal(broker: ListedBroker) -> RequestRefusedError | None:
        async with gate:
            try:
                await rpc.groups(broker, CONNECT_SECONDS)
            except RequestRefusedError as error:
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
