"""`rebalance-watch run`: run the streaming job."""

import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkpoints.manifest import ARCHIVE, OPERATOR
from streaming.base.health import Health, Task
from streaming.base.lines import start_lines
from streaming.base.place import tables_of
from streaming.base.process import keep_little
from streaming.base.settings import load_policy, load_settings
from streaming.cli.options import PolicyOption

if TYPE_CHECKING:
    from streaming.pipeline.batches import Batch

_BATCH_AGE_MS_MAX = 120_000
"""A query that has neither ended a batch nor waited for rows for this time is stuck; as in the Prometheus rules."""
_LOOK_AGE_MS_MAX = 60_000
"""A standby that has not checked for this time whether it must take over is not ready."""


def run(
    *,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Stop when the whole log is processed.")
    ] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="While another run works on the same root, wait; take over when it ends.")
    ] = False,
    policy: PolicyOption = None,
) -> None:
    """Process the telemetry log into tables until Ctrl-C; a restart resumes at the last checkpoint.

    The log is selected by source.kind (files or Kafka); the tables are under the runtime root.
    """
    keep_little()
    from streaming.pipeline import job
    from streaming.pipeline.sources import source_identity
    from streaming.serve.otlp.start import pushing
    from streaming.serve.web.probes import probes

    settings, thresholds = load_settings(), load_policy(policy)
    log = start_lines(settings.log.format, "run")
    stopping, health = threading.Event(), Health()
    tasks = _Tasks(health, log)

    def stop(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second signal ends the process at once, as a kill would
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        stopping.set()

    def handle_signals() -> None:
        """Let the batch in progress end, now that there may be one."""
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)

    def wait(holder: str) -> None:
        if tasks.wait(holder):
            handle_signals()
        if stopping.is_set():
            log.info("stopped")
            raise typer.Exit

    listener = job.JobListener(tasks.done, tasks.lost, wait if standby else None)
    with (
        probes(health, settings.health.host, settings.health.run),
        pushing(settings.otlp, "run", log.warning) as trace,
    ):
        while True:
            with job.running(settings, thresholds, available_now=available_now, listener=listener) as running:
                tasks.work()
                handle_signals()
                log.info(f"processing the log {source_identity(settings)}; tables: {tables_of(settings)}")
                for batch in running.batches(stopping):
                    _print(log, batch)
                    trace(batch.trace)
                if stopping.is_set():  # not in the handler: it may interrupt the printing of a line
                    log.info("stopping after the current batch (Ctrl-C again to stop at once)")
            if stopping.is_set() or not running.was_interrupted:
                break
            log.info("swapping in the rebuild")
            # `rebuild` may claim the root first, and swap it in itself: wait for it instead of ending.
            listener = replace(listener, on_wait=wait)
    log.info("stopped" if stopping.is_set() else "the whole log is processed")


class _Tasks:
    """The tasks that the probes show: batches of the queries, or that this run is a standby."""

    def __init__(self, health: Health, log: Any) -> None:
        self._health = health
        self._log = log
        self._standby: Task | None = None
        self._queries = self._of_queries()

    def done(self, query: str) -> None:
        """Record that a query has ended a batch or waits for rows."""
        self._queries[query].done()

    def lost(self, query: str, sentence: str) -> None:
        """Report that a query has failed and is started again."""
        self._queries[query].failed(sentence)
        self._log.warning(sentence, query=query)

    def wait(self, holder: str) -> bool:
        """Record that another run works; return whether this is new."""
        is_new = self._standby is None
        if self._standby is None:
            for task in self._queries.values():
                self._health.remove(task)
            self._standby = self._health.task("standby", _LOOK_AGE_MS_MAX)
        self._standby.done(f"waits while another run works ({holder})")
        if is_new:  # last: who reads the line may ask the probe
            self._log.info(f"standby: another run works on the same root ({holder})")
        return is_new

    def work(self) -> None:
        """Record that this run works itself."""
        if self._standby is not None:
            self._health.remove(self._standby)
            self._standby, self._queries = None, self._of_queries()
            self._log.info("standby: taking over")

    def _of_queries(self) -> dict[str, Task]:
        return {name: self._health.task(f"{name} batch", _BATCH_AGE_MS_MAX) for name in (OPERATOR, ARCHIVE)}


def _print(log: Any, batch: "Batch") -> None:
    effects = "" if batch.effects is None else f"{batch.effects:,} derived rows, "
    log.info(
        f"{batch.query} batch {batch.number}: {batch.rows:,} rows, {effects}{batch.milliseconds:,} ms",
        query=batch.query, batch=batch.number, rows=batch.rows, effects=batch.effects, ms=batch.milliseconds,
    )  # fmt: skip
