"""`rebalance-watch incident …`: list, show and close incidents."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.base.errors import UserError
from streaming.base.terminal import command_line, group_argument, visible
from streaming.base.times import now_ms, written
from streaming.cli.grid import Grid, GridColumn, incident_grid
from streaming.cli.options import (
    AtOption,
    ClusterOption,
    Output,
    SinceOption,
    actor,
    begin,
    instant,
)
from streaming.cli.output import AsOf, present, section, severity, tables_by_settings
from streaming.queries import labels
from streaming.queries.columns import QUEUE, TRANSITION
from streaming.queries.columns.column import SHORT_ID, Context
from streaming.queries.health import Severity, WithoutOwner
from streaming.queries.results import Incident, IncidentDetail, ListenerStacks, SuggestedCommand

if TYPE_CHECKING:
    from streaming.tables import ReadModel

_Id = Annotated[str, typer.Argument(metavar="ID", help="Incident id, or a unique prefix of it.", show_default=False)]
_By = Annotated[str | None, typer.Option(help="Who does it; default: the user of this command.", show_default=False)]


def close(
    incident_id: _Id,
    *,
    reason: Annotated[str, typer.Option(help="Why it is closed; kept with the incident.")],
    by: _By = None,
) -> None:
    """Close an incident: it counts as resolved until it becomes worse.

    So do those that it explains and that have no alert of their own. Its alert is resolved, and it leaves the lists and
    counts of open incidents. What is observed stays: the health of its group and its queues is judged as before.
    """
    from streaming.serve.alerting import status
    from streaming.serve.operator_actions import recorded

    tables, who = tables_by_settings(), actor(by)
    with recorded(tables, who, "CLOSE", incident_id, reason) as action:
        _check(reason, who.name)
        closed = status.close(tables, incident_id, reason, who.name, now_ms())
        action.target = closed.incident_id
    again = command_line("rebalance-watch", "incident", "reopen", closed.incident_id[:SHORT_ID])
    typer.echo(visible(f"closed: {_named(closed)}; open it again with `{again}`"))


def reopen(
    incident_id: _Id,
    *,
    reason: Annotated[str, typer.Option(help="Reason, kept for reference.")] = "",
    by: _By = None,
) -> None:
    """Undo `incident close`: the incident is open again if its condition still holds, and its alert is sent again."""
    from streaming.serve.alerting import status
    from streaming.serve.operator_actions import recorded

    tables, who = tables_by_settings(), actor(by)
    with recorded(tables, who, "REOPEN", incident_id, reason) as action:
        _check(reason or "as it was closed", who.name)
        found = status.reopen(tables, incident_id, reason, who.name, now_ms())
        action.target = found.incident_id
    typer.echo(visible(f"opened again: {_named(found)}"))


def _check(reason: str, name: str) -> None:
    """Check what the options give.

    Raises:
        UserError: there is no reason, or no name.
    """
    if not reason.strip():
        raise UserError("Closing an incident needs a reason: give it with --reason.")
    if not name.strip():
        raise UserError("The incident keeps who closed it: give a name with --by.")


def _named(incident: "Incident") -> str:
    return " ".join(part for part in (incident.code, incident.group, incident.subject) if part)


def incidents(
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only incidents of this group.")] = None,
    cluster: ClusterOption = None,
    code: Annotated[str | None, typer.Option("--code", help="Only this code, such as ORDERED_QUEUE_STUCK.")] = None,
    severity: Annotated[Severity | None, typer.Option(help="Only this severity.")] = None,
    unfold: Annotated[
        bool, typer.Option("--unfold", "-u", help="Include incidents that another one explains.")
    ] = False,
    every_one: Annotated[bool, typer.Option("--all", "-a", help="Include resolved incidents.")] = False,
    resolved: Annotated[bool, typer.Option("--resolved", help="Only resolved incidents.")] = False,
    since: SinceOption = None,
    at: AtOption = None,
    output: Output,
) -> None:
    """List open incidents, with --all or --since also resolved ones. Open ones come first, then the newest.

    Incidents that another one in the list explains are counted in its line; --unfold lists them.
    """
    from streaming.queries.incidents import incidents as ask

    only_open = since is None and not every_one and not resolved
    present(
        lambda model: ask(
            model,
            cluster=cluster,
            group=group,
            code=code,
            severity=severity,
            only_open=only_open,
            only_resolved=resolved,
            since=begin(model, since, instant(at)),
            at=instant(at),
            unfold=unfold,
        ),
        lambda found, now: _draw_list(found, now, only_open=only_open),
        Incident,
        output,
        as_of=AsOf(instant(at)),
    )


def _draw_list(listed: Sequence[Incident], now: int, *, only_open: bool) -> RenderableType:
    if listed:
        return incident_grid(listed, now)
    return Text("No open incidents; --all includes resolved ones." if only_open else "No incidents.")


_EVENT = 1_500
"""The maximum characters shown of an event: a snapshot of a large group has megabytes."""


def show(
    incident_id: Annotated[
        str, typer.Argument(metavar="ID", help="Incident id, or a unique prefix of it.", show_default=False)
    ],
    *,
    output: Output,
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
        return _draw_one(detail, Context(now, without_owner))

    present(ask, draw, IncidentDetail, output, as_of=AsOf(None))


def _draw_one(detail: IncidentDetail, context: Context) -> RenderableType:
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


app = typer.Typer(help="Query open and resolved incidents with evidence and first step; close one.",
                  no_args_is_help=True)  # fmt: skip
app.command("list")(incidents)
app.command("show")(show)
app.command("close")(close)
app.command("reopen")(reopen)
