"""The lines that a process prints about its work: for people, or as JSON for a log collector."""

import logging
import sys
import time
from asyncio import CancelledError
from collections.abc import Callable
from typing import Any, Literal

import structlog
from rich.console import Console
from rich.markup import escape
from structlog.typing import EventDict, Processor, WrappedLogger

from streaming.base.limits import REFUSALS_SECONDS
from streaming.base.terminal import shortened, visible, visible_lines

Form = Literal["sentences", "fields"]
"""The form in which people see a line: its event alone, which is a sentence, or with time, level and fields."""

_FIRST = ("time", "level", "process", "event")
_JSON = structlog.processors.JSONRenderer(default=str)
_SHARED: list[Processor] = [
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", key="time"),
]


class _OneLine(logging.Filter):
    """Lets a library's line about a connection, or a request that ends with the server, end with the line.

    Its traceback says nothing more. An error that names a file is of no connection: its place is needed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, OSError | CancelledError) and getattr(error, "filename", None) is None:
            text = record.getMessage().rstrip()
            record.msg, record.args = (text if str(error) in text else f"{text}: {error}"), ()
            record.exc_info = record.exc_text = None
        return True


_ONE_LINE = _OneLine()


class Seldom(logging.Filter):
    """Lets a sentence that anybody can cause through a few times in `REFUSALS_SECONDS`, then says how often it was not.

    An error with a traceback always passes.
    """

    def __init__(self, times: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._times = times
        self._clock = clock
        self._counts: dict[object, tuple[float, int]] = {}
        """When a minute of a sentence began, and how often it was said in it, by its text without arguments."""

    @classmethod
    def install(cls, logger: str, times: int = 1) -> None:
        """Add the filter to a logger that has none."""
        named = logging.getLogger(logger)
        if not any(isinstance(one, cls) for one in named.filters):
            named.addFilter(cls(times))

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is printed."""
        if record.exc_info:
            return True
        now, sentence = self._clock(), record.msg
        began, said = self._counts.get(sentence, (now, 0))
        if now - began >= REFUSALS_SECONDS:
            if left_out := max(0, said - self._times):
                record.msg, record.args = f"{record.getMessage()} (and {left_out:,} more that were not printed)", ()
            began, said = now, 0
        self._counts[sentence] = (began, said + 1)
        return said < self._times


def start_lines(format_: Literal["console", "json"], process: str, form: Form = "sentences") -> Any:
    """Configure the lines of this process, on standard error, and return their logger.

    ``format_`` is the setting log.format, ``process`` the name of the command in JSON.
    """
    if logging.lastResort is not None:  # prints what libraries log, unless a handler does
        logging.lastResort.addFilter(_ONE_LINE)
        if format_ == "console" and not logging.getLogger().handlers:
            logging.getLogger().addHandler(logging.lastResort)  # or the SDK of MCP adds one that folds lines
    if format_ == "json":
        in_json: list[Processor] = [_ordered(process), structlog.processors.format_exc_info, _JSON]
        _take_library_lines(in_json)
        last: list[Processor] = [*_SHARED, *in_json]
    elif form == "fields":
        last = [*_SHARED, _printable, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), timestamp_key="time")]
    else:
        last = [_sentence]
    structlog.configure(processors=last, logger_factory=_on_stderr)
    return structlog.get_logger()


def is_json() -> bool:
    """Return whether the lines of this process are JSON."""
    return structlog.get_config()["processors"][-1] is _JSON


def print_line(sentence: str, **fields: object) -> None:
    """Print a sentence; its fields are shown in JSON alone."""
    if is_json():
        structlog.get_logger().info(sentence, **fields)
    else:
        Console(stderr=True).print(escape(visible(sentence)), highlight=False, soft_wrap=True)


def print_error(sentence: str) -> None:
    """Print what is wrong, in one line; as JSON if the lines of this process are."""
    sentence = shortened(sentence)
    if is_json():
        structlog.get_logger().error(sentence)
    else:
        Console(stderr=True).print(f"[red]error:[/] {escape(visible(sentence))}", highlight=False, soft_wrap=True)


def _on_stderr(*_: object) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)  # what it is now


def _printable(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Show what no terminal may interpret, such as ESC in a name that a stranger gave, by its code."""
    return {name: visible(value) if isinstance(value, str) else value for name, value in event.items()}


def _sentence(_: WrappedLogger, __: str, event: EventDict) -> str:
    return visible_lines(str(event["event"]))


def _ordered(process: str) -> Processor:
    """Return a processor that names the process, and puts first what every line has."""

    def order(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event.setdefault("process", process)
        return {name: event[name] for name in _FIRST} | dict(event)

    return order


def _take_library_lines(in_json: list[Processor]) -> None:
    """Print what libraries log (warnings and errors) in the same form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_ONE_LINE)
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=[remove, *in_json]))
    logging.getLogger().addHandler(handler)
