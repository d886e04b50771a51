"""`rebalance-watch collect`: write the telemetry of a cluster to the log or to a recording."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.base.errors import SettingsError
from streaming.base.health import Health
from streaming.base.lines import start_lines
from streaming.base.settings import load_settings
from streaming.cli.interruption import Interruption

if TYPE_CHECKING:
    from rebalance_model.observe.events import Event
    from streaming.base.settings import Settings
    from streaming.collect.emitter import Sink
    from streaming.log.shares import Shares

_AGE_MS_MAX = 60_000
"""A collector that has done nothing for this time is not ready; it writes ticks every second."""
_DRAIN_SECONDS = 3.0
"""The time for which spools are shipped at the end after a signal; the rest is shipped after the next start."""

app = typer.Typer(help="Collect the telemetry of a RocketMQ cluster.", no_args_is_help=True)


SpoolOption = Annotated[
    list[Path] | None,
    typer.Option("--spool", help="Also ship the broker hooks' spools under this folder; repeatable."),
]


@app.command()
def poll(
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop after one round.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="Stop after this number of rounds.")] = None,
    to: Annotated[Path | None, typer.Option(help="Record to this .jsonl or .jsonl.gz file instead of the log.")] = None,
    spools: SpoolOption = None,
) -> None:
    """Poll every broker and consumer each collector.interval_ms, with read-only requests.

    Events go to the log selected by source.kind (Kafka or files). Ctrl-C or SIGTERM stops it within 10 s; responses
    received so far are kept.
    """
    from streaming.collect.collector import collect
    from streaming.collect.poll_round import Summary
    from streaming.collect.shipper import LogOutlet, RecordingOutlet, Shipper
    from streaming.log.kafka import DELIVERY_MS
    from streaming.log.open import open_publisher
    from streaming.log.recording import Recorder
    from streaming.log.rows import publish
    from streaming.serve.otlp.start import pushing
    from streaming.serve.web.probes import probes

    settings, health = load_settings(), Health()
    if settings.collector.share and (to is not None or settings.source.kind != "kafka"):
        raise SettingsError("collector.share divides the groups by Kafka: set source.kind to kafka, and omit --to.")
    log = start_lines(settings.log.format, "collect poll", "fields")
    refused: set[str] = set()
    polled = health.task("round of polls", max(_AGE_MS_MAX, 3 * settings.collector.interval_ms))
    written = health.task("write to the log", _AGE_MS_MAX)

    def report(round_: Summary) -> None:
        polled.done()
        if round_.trace is not None:
            trace(round_.trace)
        log.info("round", **({"clusters": round_.clusters} if round_.clusters else {}), **round_.numbers())
        if round_.late:
            log.warning(
                "a round is too short for all groups: they take turns; divide them among collectors (collector.share)",
                groups=round_.late,
            )
        if new := sorted(round_.refusals - refused):
            log.warning("requests are refused", error=new[0], others=len(new) - 1)
            refused.update(new)

    def noted(sink: "Sink") -> "Sink":
        def write(events: "list[Event]") -> None:
            sink(events)
            written.done()

        return write

    rounds = 1 if once else rounds
    with (
        Interruption() as interruption,
        probes(health, settings.health.host, settings.health.poll),
        pushing(settings.otlp, "collect poll", log.warning) as trace,
        Shipper(spools or []) as shipper,
    ):
        if to is not None:
            with Recorder(to) as recorder:
                shipper.send_to(RecordingOutlet(recorder))
                sink = noted(shipper.beside(recorder.publish))
                interruption.run(collect(settings, sink, rounds=rounds, report=report))
                shipper.drain(interruption.at_most(_DRAIN_SECONDS))
        else:
            resend_after_ms = DELIVERY_MS if spools else None
            with (
                open_publisher(settings, settings.source.kind, resend_after_ms=resend_after_ms) as publisher,
                _shares(settings) as shares,
            ):
                shipper.send_to(LogOutlet(publisher))
                sink = noted(shipper.beside(partial(publish, publisher)))
                interruption.run(collect(settings, sink, rounds=rounds, shares=shares, report=report))
                shipper.drain(interruption.at_most(_DRAIN_SECONDS))
        shipper.finish()


def _shares(settings: "Settings") -> "AbstractContextManager[Shares | None]":
    """Join the collectors that divide the groups; None: this one polls all."""
    from streaming.log.kafka_properties import connection_of
    from streaming.log.shares import Shares

    if not settings.collector.share:
        return nullcontext()
    return Shares(connection_of(settings), settings.source.topic, settings.collector.instance)


@app.command()
def spool(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders that the broker hooks write to.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Ship the existing files, then stop.")] = False,
) -> None:
    """Ship the spools of broker hooks to the log as they grow; files that are safely sent are deleted.

    One process can ship the spools of many brokers. It waits while Kafka is unavailable, and resumes after a restart.
    A log of files has one writer: while `collect poll` writes to it, use `collect poll --spool DIR` instead.
    """
    from streaming.collect.shipper import ship
    from streaming.serve.web.probes import probes

    settings, health = load_settings(), Health()
    start_lines(settings.log.format, "collect spool", "fields")
    shipped = health.task("look at the spools", _AGE_MS_MAX)
    with Interruption() as interruption, probes(health, settings.health.host, settings.health.spool):
        ship(settings, folders, interruption.flag, once=once, on_look=shipped.done)
