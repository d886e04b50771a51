"""Command lines of this program for a user to copy, with the options that this command was given for every command."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from streaming.base.terminal import command_line

_GIVEN: ContextVar[tuple[str, ...]] = ContextVar("given", default=())


@contextmanager
def options_given(config: Path | None, root: Path | None) -> Iterator[None]:
    """Note the settings file and the runtime root that this command was given, until the end of the block."""
    named = {"--config": config, "--root": root}
    token = _GIVEN.set(tuple(word for option, path in named.items() if path for word in (option, str(path))))
    try:
        yield
    finally:
        _GIVEN.reset(token)


def our_command(*words: str) -> str:
    """Return a command line of this program over the same settings file and root."""
    return command_line("rebalance-watch", *_GIVEN.get(), *words)
