"""`rebalance-watch demo`: run the job on the bundled recording of a real cluster and print the result."""

import os
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.markup import escape
from rich.text import Text

from rebalance_model.entities import INT64_MAX
from streaming.base.place import tables_of
from streaming.base.settings import Settings, load_settings
from streaming.base.terminal import command_line
from streaming.base.times import written, zone_at
from streaming.cli.grid import Grid, GridColumn, incident_grid
from streaming.cli.group.changes import rebalance_table
from streaming.cli.output import health, print_table, screen, section, severity
from streaming.lab.state import FaultRecord
from streaming.queries import labels
from streaming.queries.columns import QUEUE
from streaming.queries.columns.column import SHORT_ID, Context
from streaming.queries.evidence import evidence_items
from streaming.queries.group_at import GroupAt
from streaming.queries.groups import groups
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.queries.ownership import intervals, queues
from streaming.queries.present import history_ends
from streaming.queries.rebalances import rebalance_totals, rebalances
from streaming.queries.results import Group, Incident, IncidentDetail, Interval
from streaming.serve.links import incident_link
from streaming.tables import ReadModel


def demo() -> None:
    """Run the streaming job on a recording of a real RocketMQ cluster and print the result.

    The recording covers 26 minutes with every fault of the lab injected. No cluster and no Kafka are needed.
    """
    from streaming.lab.demo import CAPTURE, FAULT_LOG, demo_settings, play
    from streaming.tables.reader import ReadModel

    console, progress = screen(), Console(stderr=True)
    settings = demo_settings(load_settings())
    began = time.monotonic()
    progress.print(f"Recording: {CAPTURE.stat().st_size / 1024:.0f} KB.", highlight=False)
    with progress.status("starting") as status:
        batches = play(settings, status.update)
    rows = sum(batch.rows for batch in batches if batch.effects is not None)
    effects = sum(batch.effects or 0 for batch in batches)
    progress.print(
        f"{rows} telemetry rows, {effects} derived rows, {time.monotonic() - began:.0f} s.\n", highlight=False
    )
    print_faults(FAULT_LOG, console)
    with ReadModel(tables_of(settings)) as model:
        print_report(model, console)
        lines = list(_ending(model, settings))
    console.print()
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _ending(model: "ReadModel", settings: Settings) -> Iterator[str]:
    """Yield five lines: what was found, and what to open or run next."""
    from streaming.queries.groups import groups
    from streaming.queries.incidents import incidents

    ours = partial(command_line, _program(), "--root", _short(settings.runtime.root))
    opened, moved = incidents(model), model.rows("SELECT count(*) AS rebalances FROM rebalances")
    stuck = max(
        (one for one in opened if one.code == "ORDERED_QUEUE_STUCK"),
        key=lambda one: (one.sub_cause == "SUSPEND_LOOP", one.opened_at),
    )
    address = f"http://{settings.web.host}:{settings.web.port}"
    queue = (str(stuck.topic), f"{stuck.broker}:{stuck.queue_id}")
    owned = ours("who-owned", stuck.group, *queue, "--at", written(stuck.opened_at))
    yield _line("Found", f"{len(groups(model))} groups, {moved[0]['rebalances']} rebalances, {len(opened)} incidents")
    yield _line("Open", f"[bold]{escape(ours('dashboard'))}[/], then {address}{incident_link(stuck.incident_id)}")
    yield _line("Why it was stuck", f"[bold]{escape(ours('incident', 'show', stuck.incident_id[:SHORT_ID]))}[/]")
    yield _line("Who owned it", f"[bold]{escape(owned)}[/]")
    yield _line(
        "Your own cluster", "[bold]rebalance-watch up[/] (see README); a test cluster: [bold]rebalance-watch lab up[/]"
    )


def _line(title: str, text: str) -> str:
    return f"{title + ':':<18}{text}"


def _program() -> str:
    """Return the command that starts this program from the working directory."""
    return "rebalance-watch" if shutil.which("rebalance-watch") else _short(Path(sys.argv[0]))


def _short(path: Path) -> str:
    """Return a path relative to the working directory if it is below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def print_faults(fault_log: Path, console: Console) -> None:
    """Print the faults that were injected during the recording."""
    records = [msgspec.json.decode(line, type=FaultRecord) for line in fault_log.read_bytes().splitlines()]
    table = Grid([GridColumn("at"), GridColumn("fault"), GridColumn("expected observation")])
    for record in records:
        fault = f"{record.kind} cured" if record.cure else record.kind
        table.add(labels.moment(record.time, records[-1].time), fault, record.expect)
    title = f"Faults injected during the recording (times are {zone_at(records[-1].time)})"
    print_table(Lines(*section(title, table)), console)


def print_report(model: ReadModel, console: Console) -> None:
    """Print the content of the tables. The newest row is taken as now: times of its day are shown without the date."""
    now = history_ends(model).last
    groups_at = [(group, GroupAt(group.cluster, group.group, now)) for group in groups(model, now)]
    parts: list[RenderableType] = []
    for group, group_at in groups_at:
        grid = Grid.of(QUEUE.grid, queues(model, group_at), Context(now, group.without_owner))
        parts += section(_title(group), grid)
    owned = [interval for _, group_at in groups_at for interval in intervals(model, group_at, 0, INT64_MAX)]
    parts += _history(owned, now)
    for _, group_at in groups_at:
        if of_group := rebalances(model, group_at):
            table = rebalance_table(of_group, rebalance_totals(model, group_at), now)
            parts += section(f"Rebalances of {group_at.group}", table)
    parts += _incidents(model, incidents(model), now)
    print_table(Lines(*parts), console)


def _title(group: Group) -> str:
    state = health(group.health, group.health_reason)
    return f"{group.group}: {group.kind}, {len(group.members)} members, {labels.strategy_name(group.strategy)}, {state}"


def _history(owned: Sequence[Interval], now: int) -> Iterator[RenderableType]:
    """Yield the owners of the queue with the most owners."""
    by_queue: dict[tuple[object, ...], list[Interval]] = defaultdict(list)
    for interval in owned:
        by_queue[interval.cluster, interval.group, interval.topic, interval.broker, interval.queue_id].append(interval)
    busiest = max(by_queue.values(), key=len, default=[])
    table = Grid(
        [
            GridColumn("from"),
            GridColumn("to"),
            GridColumn("owner"),
            GridColumn("for", right=True),
            GridColumn("taken away because"),
        ]
    )
    for interval in busiest:
        table.add(
            labels.moment(interval.from_time, now),
            "now" if interval.to_time is None else labels.moment(interval.to_time, now),
            interval.client_id,
            labels.duration(interval.duration_ms),
            labels.LOST.get(interval.end_evidence or "", ""),
        )
    for interval in busiest[:1]:
        yield from section(
            f"Who owned {labels.queue_name(interval.topic, interval.broker, interval.queue_id)} of {interval.group}",
            table,
        )


def _incidents(model: ReadModel, listed: Sequence[Incident], now: int) -> Iterator[RenderableType]:
    """Yield all incidents, and the first one of each kind in detail."""
    yield from section("Incidents", incident_grid(listed, now))
    first: dict[str, Incident] = {}
    for example in sorted(listed, key=lambda one: (one.title, one.opened_at, one.subject)):
        first.setdefault(example.title, example)
    for example in first.values():
        yield from _diagnosis(incident(model, example.incident_id), now)


def _diagnosis(detail: IncidentDetail, now: int) -> Iterator[RenderableType]:
    incident = detail.incident
    evidence = ", ".join(map(" ".join, evidence_items(incident.code, incident.evidence, now)))
    yield Text(f"\n{incident.title}", style=severity(incident.severity).style)
    yield Text(f"  {incident.explanation}")
    yield Text(f"  For instance {incident.subject or 'the group'}: {evidence}")
    yield Text(f"  First: {incident.first_step}")
