"""The demo's report: the faults, who owns and owned which queue, rebalances, incidents and evidence."""

import json
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from streaming.lab.state import FaultRecord
from streaming.queries.evidence import evidence_items
from streaming.queries.health import HEALTH, SEVERITY
from streaming.queries.labels import (
    LOST,
    clock,
    duration,
    estimate,
    number,
    pause,
    quantity,
    queue_name,
    strategy_name,
    trigger,
    yes_no,
)
from streaming.queries.ownership import queues
from streaming.tables.reader import ReadModel, Row


def print_faults(fault_log: Path, console: Console) -> None:
    """Print the faults that were injected during the recording."""
    table = _table("at", "fault", "what a watcher should see")
    for line in fault_log.read_bytes().splitlines():
        record = msgspec.json.decode(line, type=FaultRecord)
        table.add_row(clock(record.time), f"{record.kind} cured" if record.cure else record.kind, record.expect)
    _print(console, "What was done to the cluster while it was recorded (times are UTC)", table)


def print_report(model: ReadModel, console: Console) -> None:
    """Print the content of the tables."""
    groups = model.groups()
    for group in groups:
        _owners(model, group, console)
    _history(model, console)
    for group in groups:
        _rebalances(model, group["group"], console)
    _incidents(model, console)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _print(console: Console, title: str, table: Table) -> None:
    console.print(f"[bold]{title}[/]", highlight=False)
    console.print(table, "")


def _owners(model: ReadModel, group: Row, console: Console) -> None:
    health = f"[{HEALTH[group['health']].style}]{group['health']}[/] {group['health_reason']}".rstrip()
    kind = {True: "ordered", False: "concurrent", None: "kind not known"}[group["orderly"]]
    name = strategy_name(group["strategy"])
    table = _table("queue", "owner", "since", "expected", "lag", "age", "status")
    for queue in queues(model, group["group"]):
        table.add_row(
            queue_name(queue.topic, queue.broker, queue.queue_id),
            queue.owner or "unassigned",
            clock(queue.since),
            queue.expected_owner or "not known" if queue.is_elsewhere or not queue.owner else "as expected",
            quantity(
                number(queue.lag),
                queue.lag_age_ms,
                is_stale=queue.lag_is_stale,
                bound="≥" if queue.lag_is_at_least else "",
            ),
            duration(queue.lag_age_ms),
            f"[{HEALTH[queue.status].style}]{queue.status}[/] {queue.status_reason}",
        )
    _print(console, f"{group['group']}: {kind}, {len(group['members'])} members, {name}, {health}", table)


def _history(model: ReadModel, console: Console) -> None:
    busiest = model.rows(
        "SELECT h.group, h.topic, h.broker, h.queue_id FROM assignment_history h WHERE NOT starts_with(h.topic, ?)"
        " GROUP BY ALL ORDER BY count(*) DESC, h.group, h.topic, h.broker, h.queue_id LIMIT 1",
        [RETRY_TOPIC_PREFIX],
    )
    for queue in busiest:
        table = _table("from", "to", "owner", "for", "taken away because")
        for interval in model.history(queue["group"], queue["topic"], queue["broker"], queue["queue_id"]):
            table.add_row(
                clock(interval["from_time"]),
                "now" if interval["to_time"] is None else clock(interval["to_time"]),
                interval["client_id"],
                duration(interval["duration_ms"]),
                LOST.get(interval["end_evidence"], ""),
            )
        name = queue_name(queue["topic"], queue["broker"], queue["queue_id"])
        _print(console, f"Who owned {name} of {queue['group']}", table)


def _rebalances(model: ReadModel, group: str, console: Console) -> None:
    table = _table(
        "start", "cause", "members", "moved", "minimum", "interrupted", "unassigned", "took", "longest pause",
        "duplicates (estimated)", "converged",
    )  # fmt: skip
    for one in model.rebalances(group):
        table.add_row(
            clock(one["start_time"]),
            trigger(one["trigger"], one["trigger_client"], len(one["causes"])),
            f"{len(one['members_before'])} → {len(one['members_after'])}",
            str(one["queues_moved"]),
            str(one["queues_moved_min"]),
            str(one["queues_interrupted"]),
            str(one["queues_unassigned"]),
            duration(one["end_time"] - one["start_time"]),
            pause(one["pause_ms_max"], at_most=one["pause_is_at_most"]),
            estimate(one["reconsumed"], one["reconsumed_min"], one["reconsumed_max"]),
            "[yellow]no[/]" if one["converged"] is False else yes_no(one["converged"]),
        )
    if table.row_count:
        _print(console, f"Rebalances of {group}", table)


def _incidents(model: ReadModel, console: Console) -> None:
    table = _table("opened", "for", "what", "where", "who")
    opened = {row["incident_id"]: row for row in model.rows("SELECT * FROM anomalies a WHERE a.transition = 'OPENED'")}
    told: dict[tuple[str, str], Row] = {}
    for incident in model.incidents():
        first = opened[incident["incident_id"]]
        ended = incident["resolved_at"]
        table.add_row(
            clock(incident["opened_at"]),
            duration(ended - incident["opened_at"]) if ended is not None else "[red]still[/]",
            f"[{SEVERITY[incident['severity']].style}]{incident['code']} {incident['main_cause']}[/]".rstrip(),
            incident["subject"],
            incident["main_client_id"] or "-",
        )
        told.setdefault((first["code"], first["sub_cause"]), first)
    _print(console, "Incidents", table)
    for (code, sub_cause), first in sorted(told.items()):
        console.print(f"[bold]{code} {sub_cause}[/]".replace(" [/]", "[/]"), highlight=False)
        console.print(f"  {first['explanation']}", highlight=False)
        shown = ", ".join(map(" ".join, evidence_items(code, json.loads(first["evidence"]), first["time"])))
        console.print(f"  For instance {first['subject']}: {shown}", highlight=False)
        console.print(f"  First: {first['first_step']}", highlight=False)
