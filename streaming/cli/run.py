"""`rebalance-watch run`: run the streaming job."""

import signal
import threading
from typing import Annotated

import typer
from rich.console import Console

from checkpoints.manifest import ARCHIVE, OPERATOR
from streaming.base.health import Health
from streaming.base.settings import load_policy, load_settings
from streaming.cli.options import PolicyOption

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
    console = Console(stderr=True, highlight=False)
    stopping, health = threading.Event(), Health()
    queries = {name: health.task(f"{name} batch", _BATCH_AGE_MS_MAX) for name in (OPERATOR, ARCHIVE)}

    def stop(_signal: int, _frame: object) -> None:
        console.print("stopping after the current batch (Ctrl-C again to stop at once)")
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
                on_restart=lambda line: console.print(line, soft_wrap=True),
            ) as running:
                # Only now: Spark's own handler, which it sets at its start, would discard the batch in progress.
                signal.signal(signal.SIGINT, stop)
                signal.signal(signal.SIGTERM, stop)
                console.print(
                    f"processing the log {source_identity(settings)}; tables: {settings.runtime.tables}",
                    soft_wrap=True,
                )
                for batch in running.batches(stopping):
                    effects = "" if batch.effects is None else f"{batch.effects:,} derived rows, "
                    console.print(
                        f"{batch.query} batch {batch.number}: {batch.rows:,} rows, {effects}{batch.milliseconds:,} ms"
                    )
            if stopping.is_set() or not running.is_interrupted():
                break
            console.print("swapping in the rebuild")
    console.print("stopped" if stopping.is_set() else "the whole log is processed")
