"""`rebalance-watch collect`: telemetry of a real cluster into the log, or into a recording."""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import structlog
import typer

from streaming.settings import load_settings

app = typer.Typer(help="Collect the telemetry of a RocketMQ cluster.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `poll` a word of its own while it is the only one."""


@app.command()
def poll(
    *,
    once: Annotated[bool, typer.Option("--once", help="One round, then end.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="So many rounds, then end.")] = None,
    to: Annotated[
        Path | None, typer.Option(help="Record into this .jsonl or .jsonl.gz file instead of the log.")
    ] = None,
) -> None:
    """Ask every broker and every consumer what they see, every collector.interval_ms; only read-only questions.

    Events go to the log that source.kind names (Kafka or files). Ctrl-C ends it; what was answered until then is kept.
    """
    from streaming.collector.collect import collect
    from streaming.collector.poll import Summary
    from streaming.log.open import open_publisher
    from streaming.log.recording import Recorder
    from streaming.log.rows import publish

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    log = structlog.get_logger()

    def report(round_: Summary) -> None:
        log.info("round", **{name: getattr(round_, name) for name in round_.__struct_fields__})

    settings = load_settings()
    rounds = 1 if once else rounds
    if to is not None:
        with Recorder(to) as recorder:
            asyncio.run(collect(settings, recorder.publish, rounds=rounds, report=report))
    else:
        with open_publisher(settings, settings.source.kind) as publisher:
            asyncio.run(collect(settings, partial(publish, publisher), rounds=rounds, report=report))
