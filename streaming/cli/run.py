"""`rebalance-watch run`: the streaming job."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streaming.settings import load_policy, load_settings


def run(
    *,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="End when everything in the log is in the tables.")
    ] = False,
    policy: Annotated[Path | None, typer.Option(help="Thresholds instead of conf/policy.toml.")] = None,
) -> None:
    """Turn the telemetry log into tables, until Ctrl-C; started again it goes on where it ended.

    The log is source.kind (files or Kafka); the tables are under the runtime root.
    """
    from streaming import job
    from streaming.sources import source_identity

    settings, thresholds = load_settings(), load_policy(policy)
    console = Console(stderr=True, highlight=False)
    stopping = threading.Event()

    def stop(_signal: int, _frame: object) -> None:
        console.print("stopping after the batch that is under way (Ctrl-C again: at once)")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        stopping.set()

    while True:
        with job.running(settings, thresholds, available_now=available_now) as running:
            # Only now: Spark's own handler, which it sets at its start, would throw away the batch under way.
            signal.signal(signal.SIGINT, stop)
            signal.signal(signal.SIGTERM, stop)
            console.print(
                f"running over the log in {source_identity(settings)}; tables in {settings.runtime.tables}",
                soft_wrap=True,
            )
            for batch in running.batches(stopping):
                effects = "" if batch.effects is None else f"{batch.effects:,} effects, "
                console.print(
                    f"{batch.query} batch {batch.number}: {batch.rows:,} rows, {effects}{batch.milliseconds:,} ms"
                )
        if stopping.is_set() or not running.is_interrupted():
            break
        console.print("swapping in the rebuild")
    console.print("ended" if stopping.is_set() else "everything in the log is in the tables")
