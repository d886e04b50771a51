"""Start the pushes of a process, if an OpenTelemetry collector is set; its packages are an extra."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client import CollectorRegistry

from streaming.base.errors import SettingsError
from streaming.base.sections.reporting import Otlp
from streaming.base.span import Span

if TYPE_CHECKING:
    from streaming.serve.otlp.push import Push

Trace: TypeAlias = Callable[[Span], None]
"""Takes a span with its parts; it waits for nothing."""


@contextmanager
def pushing(
    otlp: Otlp, process: str, log: Callable[[str], None], registry: CollectorRegistry | None = None
) -> Iterator[Trace]:
    """Push metrics and traces until the end of the block; yield what takes the traces. Without an endpoint do nothing.

    ``log`` is called with a sentence when pushes begin to fail, and when they succeed again.

    Raises:
        SettingsError: the packages are not installed, or the headers or the authority can't be used.
    """
    if not otlp.endpoint:
        yield _ignore
        return
    with _push_class()(otlp, process, log, registry) as push:
        yield push.trace


def check(otlp: Otlp) -> None:
    """Do nothing if the pushes can start, or are off.

    Raises:
        SettingsError: see `pushing`.
    """
    if otlp.endpoint:
        _push_class()(otlp, "", _ignore).close()


def _push_class() -> "type[Push]":
    try:
        from streaming.serve.otlp.push import Push
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise SettingsError(
            "otlp.endpoint needs packages that are not installed here: install rebalance-watch[otlp]."
        ) from None
    return Push


def _ignore(_: object) -> None:
    """Take a trace that nobody wants."""
