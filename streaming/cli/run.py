"""`rebalance-watch run`: run the streaming job."""

import signal
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkpoints.manifest import ARCHIVE, OPERATOR
from streaming.base.health import Health
from streaming.base.lines import start_lines
from streaming.base.settings import load_policy, load_settings
from streaming.cli.options import PolicyOption

if TYPE_CHECKING:
    from streaming.pipeline.job import Batch

_BATCH_AGE_MS_MAX = 120_000
"""A query that has neither ended a batch nor waited for rows for this time is stuck; as in the Prometheus rules."""


def run(
    *,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Stop when the whole log is processed.")
    ] = False,
    policy: PolicyOption = None,
) -> None:
    """Process the telemetry log into tables until Ctrl-C; a restart resumes at the last checkpoint.

    The log is selected by source.kind (files or Kafka); the tables are under the runtime root.
    """
    from streaming.pipeline import job
    from streaming.pipeline.sources import source_identity
    from streaming.serve.web.probes import probes

    settings, thresholds = load_settings(), load_policy(policy)
    log = start_lines(settings.log.format, "run")
    stopping, health = threading.Event(), Health()
    queries = {name: health.task(f"{name} batch", _BATCH_AGE_MS_MAX) for name in (OPERATOR, ARCHIVE)}

    def stop(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        stopping.set()

    with probes(health, settings.health.host, settings.health.run):
        while True:
            with job.running(
                settings,
                thresholds,
                available_now=available_now,
                on_progress=lambda query: queries[query].done(),
                on_restart=log.warning,
            ) as running:
                # Only now: Spark's own handler, which it sets at its start, would discard the batch in progress.
                signal.signal(signal.SIGINT, stop)
                signal.signal(signal.SIGTERM, stop)
                log.info(f"processing the log {source_identity(settings)}; tables: {settings.runtime.tables}")
                for batch in running.batches(stopping):
                    _print(log, batch)
                if stopping.is_set():  # not in the handler: it may interrupt the printing of a line
                    log.info("stopping after the current batch (Ctrl-C again to stop at once)")
            if stopping.is_set() or not running.is_interrupted():
                break
            log.info("swapping in the rebuild")
    log.info("stopped" if stopping.is_set() else "the whole log is processed")


def _print(log: Any, batch: "Batch") -> None:
    effects = "" if batch.effects is None else f"{batch.effects:,} derived rows, "
    log.info(
        f"{batch.query} batch {batch.number}: {batch.rows:,} rows, {effects}{batch.milliseconds:,} ms",
        query=batch.query, batch=batch.number, rows=batch.rows, effects=batch.effects, ms=batch.milliseconds,
    )  # fmt: skip
