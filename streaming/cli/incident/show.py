"""`rebalance-watch incident show`: show one incident with its evidence, timeline and triggering event."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.base.shell import command_line, group_argument
from streaming.base.times import written
from streaming.cli.grid import Grid, GridColumn
from streaming.cli.incident.grid import incident_grid
from streaming.cli.options import EveryOption, FormatOption, Output, WatchOption
from streaming.cli.output import AsOf, present, section, severity
from streaming.queries import labels
from streaming.queries.columns import QUEUE, TRANSITION
from streaming.queries.columns.column import SHORT_ID, Context
from streaming.queries.health import WithoutOwner
from streaming.queries.results import IncidentDetail, ListenerStacks, SuggestedCommand

if TYPE_CHECKING:
    from streaming.tables import ReadModel

_EVENT = 1_500
"""The maximum characters shown of an event: a snapshot of a large group has megabytes."""


def show(
    incident_id: Annotated[
        str, typer.Argument(metavar="ID", help="Incident id, or a unique prefix of it.", show_default=False)
    ],
    *,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """Show one incident: diagnosis, first step, evidence, timeline and triggering event."""
    from streaming.queries.incident_detail import incident, queue_without_owner

    without_owner = WithoutOwner.UNASSIGNED

    def ask(model: "ReadModel") -> IncidentDetail:
        nonlocal without_owner
        detail = incident(model, incident_id)
        without_owner = queue_without_owner(model, detail)
        return detail

    def draw(detail: IncidentDetail, now: int) -> RenderableType:
        return _draw(detail, Context(now, without_owner))

    present(ask, draw, IncidentDetail, Output(output, watch, every), as_of=AsOf(None))


def _draw(detail: IncidentDetail, context: Context) -> RenderableType:
    from streaming.queries.evidence import evidence_items
    from streaming.queries.rule_text import headline

    incident, now = detail.incident, context.now
    parts: list[RenderableType] = [
        Text.assemble((headline(incident), severity(incident.severity).style), f"  {incident.severity}"),
        Text(incident.title, style="dim"),
        *map(Text, _summary(detail, context)),
        *section("Diagnosis", Text(incident.explanation)),
        *section("First step", Text(incident.first_step)),
        *_commands(detail.commands),
        *_stacks(detail.stacks, now),
    ]
    evidence = evidence_items(incident.code, incident.evidence, now)
    if evidence:
        table = Grid([GridColumn("name"), GridColumn("value")])
        for item in evidence:
            table.add(*item)
        parts += section(f"Evidence at {labels.moment(incident.judged_at, now)}", table)
    parts += section("Timeline", Grid.of(TRANSITION.grid, detail.life, Context(now)))
    if detail.absorbed:
        parts += section("Explains", incident_grid(detail.absorbed, now, with_group=not incident.group))
    parts += section("Triggering event", _event(detail))
    at = ("--cluster", incident.cluster, "--at", written(incident.opened_at))
    what, words = ("Group", ("show", *group_argument(incident.group))) if incident.group else ("Groups", ("list",))
    parts.append(Text(f"\n{what} at that time: {command_line('rebalance-watch', 'group', *words, *at)}"))
    return Lines(*parts)


def _commands(commands: Sequence[SuggestedCommand]) -> list[RenderableType]:
    if not commands:
        return []
    lines = [f"# {command.purpose}\n{command.text}" for command in commands]
    return section("Commands", Text("\n".join([*lines, f"# {labels.NAME_SERVER}"])))


def _stacks(stacks: ListenerStacks | None, now: int) -> list[RenderableType]:
    if stacks is None:
        return []
    if not stacks.threads:
        return section(
            f"Listener of {stacks.client_id} at {labels.moment(stacks.time, now)}", Text("no thread was in it")
        )
    threads = [
        "\n".join([f"{thread.name} {thread.state}", *(f"    at {frame}" for frame in thread.frames)])
        for thread in stacks.threads
    ]
    return section(f"Listener of {stacks.client_id} at {labels.moment(stacks.time, now)}", Text("\n".join(threads)))


def _summary(detail: IncidentDetail, context: Context) -> Iterator[str]:
    from streaming.queries.incident_detail import unknown_text, waiting_text
    from streaming.queries.notifications import step_text

    incident, now = detail.incident, context.now
    client = "" if incident.client_id in {None, incident.subject} else f", client {incident.client_id}"
    yield f"{incident.subject or 'the group'} of {incident.group or 'the cluster'} ({incident.cluster}){client}"
    if detail.reach is not None:
        yield f"affects {detail.reach.groups} groups, {detail.reach.queues} queues"
    ended = incident.resolved_at
    until = (
        "still open"
        if ended is None
        else f"resolved {labels.moment(ended, now)}, after {labels.duration(ended - incident.opened_at)}"
    )
    yield f"opened {labels.moment_in_zone(incident.opened_at, now)}, {until}; id {incident.incident_id}"
    if incident.resolution:
        yield f"ended: {incident.resolution}"
    if (queue := detail.queue) is not None:
        lag, waiting = (QUEUE[name].value(queue, context) for name in ("lag", "waiting_ms"))
        owner = QUEUE["owner"].value(queue, context).text
        owner = "unknown" if owner == labels.NOT_KNOWN else owner
        yield f"its queue: owner {owner}, lag {lag}, waiting {waiting}, {queue.status}"
    if (impact := detail.impact) is not None:
        time = impact.lag_time
        observed = (
            f"Observed {labels.moment_in_zone(time, now)}, {labels.ago(detail.as_of - time)}."
            if time is not None
            else ""
        )
        yield " ".join(filter(None, (waiting_text(impact), unknown_text(impact), observed)))
    for one in detail.notifications:
        what = ", ".join(filter(None, ((one.message or "").lower(), step_text(one))))
        yield f"{one.channel or 'no channel'}: {what} {labels.moment(one.time, now)}"
    if (ack := detail.acknowledged) is not None:
        yield f"acknowledged by {ack.author or 'unknown'} at {labels.moment(ack.time, now)}"
    for silence in detail.silences:
        yield f"silenced by {silence.author or 'unknown'} until {labels.moment(silence.until, now)}: {silence.reason}"
    if incident.parent is not None:
        command = command_line("rebalance-watch", "incident", "show", incident.parent)
        yield f"explained by {incident.parent[:SHORT_ID]}: {command}"


def _event(detail: IncidentDetail) -> Text:
    cause = detail.life[0].cause
    if not cause:
        return Text("none: a time limit had passed")
    if detail.cause_event is None:
        return Text(f"{cause} (not in the archive)")
    event = json.dumps(detail.cause_event, ensure_ascii=False)
    cut = event if len(event) <= _EVENT else f"{event[:_EVENT]} … (--format json has it in full)"
    return Text(f"{cause}\n{cut}")
