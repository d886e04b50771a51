"""Whether any broker accepts the collector: asked once, at its start."""

import asyncio
from collections.abc import Sequence
from typing import Any

from streaming.collect.client import CONNECT_SECONDS, RequestRefusedError, RpcFailedError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.rpc import Rpc


async def check_access(brokers: Sequence[ListedBroker], rpc: Rpc, parallelism: int) -> None:
    """Request the groups of every broker, until one accepts the client; a slow one is not waited for long.

    Args:
        brokers: the brokers.
        rpc: the requests.
        parallelism: how many of them are open at a time.

    Raises:
        RefusedError: every broker refuses the client.
    """
    gate, accepted = asyncio.Semaphore(parallelism), asyncio.Event()

    async def refusal(broker: ListedBroker) -> RequestRefusedError | None:
        async with gate:
            try:
                await rpc.groups(broker, CONNECT_SECONDS)
            except RequestRefusedError as error:
                return error
            except RpcFailedError:
                return None  # the rounds report it
        accepted.set()
        return None

    asking = asyncio.gather(*map(refusal, brokers))
    ends: list[asyncio.Future[Any]] = [asking, asyncio.create_task(accepted.wait())]
    done, late = await asyncio.wait(ends, timeout=2 * CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)  # asyncio logs an end of theirs that nobody takes
    refusals = [error for error in asking.result() if error is not None] if asking in done else []
    if refusals and len(refusals) == len(brokers):
        raise refusals[0]
