"""`rebalance-watch collect`: telemetry of a real cluster into the log, or into a recording."""

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import structlog
import typer

from streaming.settings import load_settings

app = typer.Typer(help="Collect the telemetry of a RocketMQ cluster.", no_args_is_help=True)


SpoolOption = Annotated[
    list[Path] | None,
    typer.Option("--spool", help="Ship the broker hooks' spools below this folder, too; may be given more than once."),
]


@app.command()
def poll(
    *,
    once: Annotated[bool, typer.Option("--once", help="One round, then end.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="So many rounds, then end.")] = None,
    to: Annotated[
        Path | None, typer.Option(help="Record into this .jsonl or .jsonl.gz file instead of the log.")
    ] = None,
    spools: SpoolOption = None,
) -> None:
    """Ask every broker and every consumer what they see, every collector.interval_ms; only read-only questions.

    Events go to the log that source.kind names (Kafka or files). Ctrl-C ends it; what was answered until then is kept.
    """
    from streaming.collector.collect import collect
    from streaming.collector.poll import Summary
    from streaming.collector.shipper import LogOutlet, RecordingOutlet, Shipper
    from streaming.log.kafka import DELIVERY_MS
    from streaming.log.open import open_publisher
    from streaming.log.recording import Recorder
    from streaming.log.rows import publish

    log = _log()

    def report(round_: Summary) -> None:
        log.info("round", **{name: getattr(round_, name) for name in round_.__struct_fields__})

    settings = load_settings()
    rounds = 1 if once else rounds
    with Shipper(spools or []) as shipper:
        if to is not None:
            with Recorder(to) as recorder:
                shipper.send_to(RecordingOutlet(recorder))
                asyncio.run(collect(settings, shipper.beside(recorder.publish), rounds=rounds, report=report))
                shipper.drain()
        else:
            resend_after_ms = DELIVERY_MS if spools else None
            with open_publisher(settings, settings.source.kind, resend_after_ms=resend_after_ms) as publisher:
                shipper.send_to(LogOutlet(publisher))
                sink = shipper.beside(partial(publish, publisher))
                asyncio.run(collect(settings, sink, rounds=rounds, report=report))
                shipper.drain()
        shipper.finish()


@app.command()
def spool(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Where the broker hooks write.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Ship what is there, then end.")] = False,
) -> None:
    """Ship the spools of broker hooks into the log, as they grow; what is safely sent is deleted.

    One process takes the spools of many brokers. While Kafka is away it waits; started again, it goes on where it was.
    """
    from streaming.collector.shipper import ship

    _log()
    ship(load_settings(), folders, _interruption(), once=once)


def _log() -> Any:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    return structlog.get_logger()


def _interruption() -> Event:
    """Set by the first SIGINT or SIGTERM; the second one ends the process at once.

    The handler only lets Python write the signal's number into a pipe: waking the event inside of it would run in the
    middle of whatever the main thread is doing, the event's own lock included. (Blocking the signals and waiting for
    them is no way either: a library's thread that began before, and does not block them, would end the process.)
    """
    interruption = Event()
    told, tells = os.pipe()
    os.set_blocking(tells, False)

    def wait() -> None:
        os.read(told, 1)
        interruption.set()
        [number] = os.read(told, 1)
        os._exit(128 + number)

    signal.set_wakeup_fd(tells)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    Thread(target=wait, daemon=True).start()
    return interruption
