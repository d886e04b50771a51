"""The delay from an event to a row that readers see, and to an alert: ``python -m tests.instruments.bench latency``.

Beside it the processor time of the job: how many cores it uses at this rate.

It uses a real Kafka and the real job with its archive query and all rules; the events of a large cluster are sent one
by one at their own times. Every row of a derived table names the event that caused it (``cause``), so its delay is the
time at which its Delta commit appeared minus the time at which that event was sent. The delay has two parts: until the
micro-batch with the event began (its offsets are in the checkpoint), and from then to the commit. An alert is delivered
when a webhook has accepted it, at the time recorded in the ledger of the alert process.
"""

import json
import os
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from rebalance_model.observe.effects import TABLE_OF, QueueProgress
from rebalance_model.observe.events import Tick, key_of
from schemas.arrow import in_epoch_ms
from streaming.base.settings import load_settings
from streaming.collect.collector import until_tick
from streaming.log.kafka import KafkaPublisher, create_topic
from streaming.log.rows import publish
from tests.instruments.figures import keep
from tests.live.alert_receivers import Webhook
from tests.live.commands import Command, Kafka
from tests.support.processes import descendants, processor_seconds
from tests.support.telemetry import START, live_telemetry

PARTITIONS = 8
SETTLE_SECONDS = 15
SAMPLED_EVERY = 5
"""The interval of looks at the processor time of the job; seconds."""
ALERTS = """
group_wait = "0s"
limit = {{messages = 1000000, span = "1m", alerts = 1000000}}
routes = [{{severity = "info", channels = ["hook"]}}]
channels = {{hook = {{kind = "webhook", url = "{url}/ours"}}}}
"""
"""Every alert is sent at once, so that the path is measured and not the waiting time for grouping."""


class Delay(NamedTuple):
    """The delay of one row or alert, and the part of it until its micro-batch began; milliseconds."""

    table: str
    whole: float
    waited: float


def main(
    rate: Annotated[int, typer.Option(help="Events a second.")] = 1_000,
    seconds: Annotated[int, typer.Option(help="Duration of the measurement.")] = 120,
    warm_up: Annotated[int, typer.Option(help="Duration of the warm-up before it; seconds.")] = 60,
) -> None:
    """Measure and print the results."""
    console = Console(highlight=False)
    with (
        tempfile.TemporaryDirectory(prefix="rebalance-watch-bench-") as folder,
        Kafka(Path(folder) / "kafka").start() as kafka,
        Webhook() as webhook,
    ):
        alerts = Path(folder) / "alerts.toml"
        alerts.write_text(ALERTS.format(url=webhook.url))
        root = Path(folder) / "root"
        settings = {
            "RUNTIME__ROOT": root,
            "RUNTIME__JARS": load_settings().runtime.jars,
            "SOURCE__KIND": "kafka",
            "SOURCE__BOOTSTRAP_SERVERS": kafka.bootstrap,
            "SOURCE__TOPIC": "latency",
            "SOURCE__PARTITIONS": PARTITIONS,
            "ALERTS__FILE": alerts,
        }
        create_topic(kafka.administrator, "latency", PARTITIONS, replication=1, retention_ms=3_600_000)
        with (
            Command(Path(folder), settings, "run") as job,
            Command(Path(folder), settings, "alert", "run") as alert,
            KafkaPublisher(kafka.administrator, "latency", PARTITIONS) as log,
        ):
            job.start().wait_for("processing the log", 120)
            alert.start()
            begun: dict[int, float] = {}
            used: list[tuple[float, float]] = []

            def at_tick() -> None:
                begun.update(batches(root))
                if not used or time.time() - used[-1][0] >= SAMPLED_EVERY:
                    family = [job.pid, *descendants(job.pid)]
                    used.append((time.time(), sum(map(processor_seconds, family))))

            sent = send(log, rate, seconds + warm_up, at_tick)
            job.wait_for("operator batch", 60)
            time.sleep(SETTLE_SECONDS)
            begun |= batches(root)
            alert.interrupt()
            job.interrupt()
        after = min(sent.values()) + warm_up
        known = {cause: at for cause, at in sent.items() if at >= after}
        delays = [*of_rows(root, known, begun), *of_alerts(root, known, begun)]
    report(console, delays, rate)
    (began, before), (ended, by_then) = next(one for one in used if one[0] >= after), used[-1]
    console.print(keep("latency", {f"the job's cores, {rate:,} events/s": (by_then - before) / (ended - began)}))


def send(log: KafkaPublisher, rate: int, seconds: int, at_tick: Callable[[], None]) -> dict[str, float]:
    """Send each event at its time; return the times of sending (epoch seconds) by the event's name in ``cause``.

    As a collector does, it ticks right before each whole second.
    """
    sent: dict[str, float] = {}
    events = takewhile(lambda event: event.time < START + seconds * 1000, live_telemetry(rate))
    begin = time.time() + until_tick(time.time())
    for event in track(events, "sending", total=seconds * rate):
        due = begin + (event.time - START) / 1000
        if (left := due - time.time()) > 0:
            time.sleep(left)
        now = time.time()
        publish(log, [msgspec.structs.replace(event, time=round(now * 1000))])
        sent[f"{event.source_id}|{key_of(event)}|{event.seq}"] = now
        if isinstance(event, Tick):
            at_tick()
    log.flush()
    return sent


def of_rows(root: Path, sent: dict[str, float], begun: dict[int, float]) -> Iterator[Delay]:
    """Yield the delay of each row of a derived table that one of these events caused.

    A row of quantities names no event: it has the time of its answer, which is the time of sending.
    """
    first = min(sent.values())
    for kind, table in TABLE_OF.items():
        answers = kind is QueueProgress
        for commit, batch, rows in commits(root / "tables" / table, ["time" if answers else "cause"]):
            for value in rows.column(0).to_pylist():
                at = value / 1000 if answers and value / 1000 >= first else sent.get(value)
                if at is not None:
                    yield Delay(table, 1000 * (commit - at), 1000 * (begun[batch] - at))


def of_alerts(root: Path, sent: dict[str, float], begun: dict[int, float]) -> Iterator[Delay]:
    """Yield the delay of each alert that the webhook has accepted."""
    cause_of = {
        (row["incident_id"], row["seq"]): (row["cause"], batch)
        for _, batch, rows in commits(root / "tables" / "anomalies", ["incident_id", "seq", "cause"])
        for row in rows.to_pylist()
    }
    ledger = ["step", "time", "incident_id", "seq"]
    for _, _, rows in commits(root / "tables" / "alert_deliveries", ledger):
        for row in rows.to_pylist():
            cause, batch = cause_of.get((row["incident_id"], row["seq"]), ("", -1))
            if row["step"] == "SENT" and (at := sent.get(cause)) is not None:
                yield Delay("alerts", row["time"] - 1000 * at, 1000 * (begun[batch] - at))


def batches(root: Path) -> dict[int, float]:
    """Return the start of each of the operator's last micro-batches (epoch seconds); Spark deletes earlier ones."""
    offsets = (root / "checkpoints" / "operator" / "offsets").glob("[0-9]*")
    return {int(file.name): file.stat().st_mtime for file in offsets}


def commits(table: Path, columns: list[str]) -> Iterator[tuple[float, int, pa.Table]]:
    """Yield each commit that added rows: its time (epoch seconds), the job's batch (-1: none), the rows."""
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        batch = next((one["txn"]["version"] for one in actions if "txn" in one), -1)
        for path in (one["add"]["path"] for one in actions if "add" in one):
            yield commit.stat().st_mtime, batch, in_epoch_ms(pq.read_table(table / path, columns=columns))


def report(console: Console, delays: list[Delay], rate: int) -> None:
    """Print the delays of all rows, and of each table's rows."""
    by_table: dict[str, list[Delay]] = defaultdict(list)
    for delay in delays:
        by_table["all rows"].append(delay)
        by_table[delay.table].append(delay)
    table = Table("rows of", "rows", "p50", "p99", "worst", "until the batch began: p50", "p99", box=None)
    kept: dict[str, float] = {}
    for name, delays_of_table in by_table.items():
        whole, waited = sorted(one.whole for one in delays_of_table), sorted(one.waited for one in delays_of_table)
        figures = (*_at(whole, 50, 99, 100), *_at(waited, 50, 99))
        table.add_row(name, f"{len(delays_of_table):,}", *(f"{figure / 1000:.1f} s" for figure in figures))
        kept |= {
            f"{name}, {rate:,} events/s: {percent}, s": figure / 1000
            for percent, figure in zip(("p50", "p99"), figures, strict=False)
        }
    console.print(
        f"{rate:,} events a second, archive query and all rules on; {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}, load {os.getloadavg()[0]:.0f}"
    )
    console.print(table)
    console.print(keep("latency", kept))


def _at(ordered: list[float], *percents: int) -> list[float]:
    return [ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in percents]


if __name__ == "__main__":
    typer.run(main)
