"""Handle the events of a page in the language of its reader, and below its path prefix."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from nicegui.events import GenericEventArguments

from streaming.base.language import current, in_language
from streaming.serve.links import below, prefix


def page_handler(do: Callable[[Any], object]) -> Callable[[GenericEventArguments], Awaitable[None]]:
    """Return a handler that calls ``do`` with an event's value, in the language and below the prefix of its page.

    An event comes with the connection of its browser, whose context knows no page; timers keep that of their page.
    """
    language, path_prefix = current().code, prefix()

    async def handler(event: GenericEventArguments) -> None:
        with in_language(language), below(path_prefix):
            done = do(event.args)
            if isawaitable(done):
                await done

    return handler
