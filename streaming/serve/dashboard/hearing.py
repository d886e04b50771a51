"""Handle the events of a page in the language of its reader."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from nicegui.events import GenericEventArguments

from streaming.base.language import current, in_language


def hearing(do: Callable[[Any], object]) -> Callable[[GenericEventArguments], Awaitable[None]]:
    """Return a handler that calls ``do`` with an event's value, in the language in which the page was created.

    An event comes with the connection of its browser, whose context knows no page; timers keep that of their page.
    """
    language = current().code

    async def handler(event: GenericEventArguments) -> None:
        with in_language(language):
            done = do(event.args)
            if isawaitable(done):
                await done

    return handler
