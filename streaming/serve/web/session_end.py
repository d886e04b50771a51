"""End the websocket of a page with the session of its reader."""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOK_SECONDS = 1.0
_POLICY_VIOLATION = 1008


async def until_session_ends(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, holds: Callable[[], bool]
) -> None:  # fmt: skip
    """Pass a websocket on until its session has ended; then close it, at most a second later.

    What the browser sends after the end of the session is not passed on any more.

    Args:
        app: the application.
        scope: of the websocket.
        receive: as ASGI has it.
        send: as ASGI has it.
        holds: returns whether the session has not ended.
    """
    is_closed = False

    async def receive_if_it_holds() -> Message:
        nonlocal is_closed
        message = asyncio.ensure_future(receive())
        try:
            while holds():
                await asyncio.wait({message}, timeout=_LOOK_SECONDS)
                if message.done() and holds():
                    return message.result()
        finally:
            if not message.done():
                message.cancel()
        if not is_closed:
            is_closed = True
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "The session has ended."})
        return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}

    async def send_if_open(message: Message) -> None:
        if not is_closed:
            await send(message)

    await app(scope, receive_if_it_holds, send_if_open)
