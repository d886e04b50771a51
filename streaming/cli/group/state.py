"""`rebalance-watch group list|show|assignments`: the state of groups at an instant."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from streaming.base.terminal import group_argument, visible
from streaming.cli.grid import Cell, Grid, incident_grid
from streaming.cli.options import (
    AtOption,
    CheckOption,
    ClusterOption,
    Format,
    GroupArgument,
    GroupOption,
    Output,
    RetryOption,
    TopicOption,
    instant,
    named,
)
from streaming.cli.ours import our_command
from streaming.cli.output import AsOf, health, present, section
from streaming.cli.tasks import print_error
from streaming.queries import labels
from streaming.queries.columns import FAILED_MESSAGES, GROUP, MEMBER, PROXIED_COLUMNS, QUEUE, REBALANCE
from streaming.queries.columns.column import Context
from streaming.queries.columns.groups import freshness
from streaming.queries.health import WithoutOwner
from streaming.queries.results import (
    FailedMessages,
    Group,
    GroupBroker,
    GroupMember,
    Overview,
    Queue,
    TelemetryCoverage,
)


def groups(
    *,
    cluster: ClusterOption = None,
    at: AtOption = None,
    check: CheckOption = False,
    output: Output,
) -> None:
    """List all groups, unhealthy ones first."""
    from streaming.queries.groups import groups as ask

    present(
        lambda model: ask(model, instant(at), cluster),
        draw_groups,
        Group,
        output,
        as_of=AsOf(instant(at)),
        is_healthy=(lambda listed: all(group.health == "OK" for group in listed)) if check else None,
    )


def draw_groups(groups: Sequence[Group], now: int) -> RenderableType:
    """Return groups as a table."""
    if not groups:
        return Text("No consumer groups: start `rebalance-watch collect poll` and `rebalance-watch run`.")
    several = len({group.cluster for group in groups}) > 1
    return Grid.of(GROUP.grid, groups, Context(now), without=() if several else {"cluster"})


def named_group(
    argument: str | None, option: str | None, command: str, cluster: str | None, at: str | None, output: Format
) -> str:
    """Return the group that a command names; if it names none, print all groups as a table.

    Args:
        argument: the name given as an argument.
        option: the name given by -g.
        command: the command, such as ``assignments``.
        cluster: only groups of this cluster are printed.
        at: the instant, as the user has written it.
        output: the format of the command; a program that reads JSON or CSV gets no other rows than it has asked for.

    Raises:
        BadParameter: two names are given, or none and the output is for a program.
        Exit: none is given; the groups are printed. The code is that of wrong usage.
    """
    if argument is not None or option is not None or output not in {"table", "wide"}:
        return named(argument, option)
    from streaming.queries.groups import groups

    time = instant(at)
    found = present(lambda model: groups(model, time, cluster), draw_groups, Group, Output(), as_of=AsOf(time))
    if found:
        example = our_command("group", command, *group_argument(found[0].group))
        print_error(f"Specify one group of these, as an argument or with -g: {example}")
    raise typer.Exit(2)


_SHARED = {
    WithoutOwner.EVERY_CLIENT: "read by every client",
    WithoutOwner.SHARED: "shared by the clients",
    WithoutOwner.UNKNOWN: "owners unknown",
}
"""The text for a group whose queues have no single owner."""
_MEMBERS = 20
"""The maximum number of members listed; of more, those with the most and the fewest queues are."""


def show(
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    at: AtOption = None,
    check: CheckOption = False,
    output: Output,
) -> None:
    """Show one group: health and reason, telemetry coverage, members, open incidents and last rebalances."""
    from streaming.queries.group_at import find_group
    from streaming.queries.groups import overview

    name = named_group(group, group_option, "show", cluster, at, output.format)
    present(
        lambda model: overview(model, find_group(model, name, cluster, instant(at))),
        _draw_overview,
        Overview,
        output,
        as_of=AsOf(instant(at)),
        is_healthy=(lambda answer: answer.group.health == "OK") if check else None,
    )


def _draw_overview(overview: Overview, now: int) -> RenderableType:
    group = overview.group
    head = Text.assemble((group.group, "bold"), f" ({group.cluster})  ", _state(group, now))
    parts: list[RenderableType] = [head, Text("\n".join(_summary(overview, now))), *_coverage(group.coverage)]
    parts += _brokers(overview.brokers)
    parts += section(f"Members ({len(group.members)})", _members(group, overview.members, now))
    if overview.proxied:
        grid = Grid.of(PROXIED_COLUMNS, overview.proxied, Context(now))
        parts += section(f"Clients of proxies ({len(overview.proxied)})", grid)
    if overview.incidents:
        parts += section("Open incidents", incident_grid(overview.incidents, now, with_group=False))
    if any(one.messages or one.added for one in overview.failed):
        parts += section("Retry and dead letters", Grid.of(FAILED_MESSAGES.grid, overview.failed, Context(now)))
    if overview.rebalances:
        parts += section("Last rebalances", Grid.of(REBALANCE.grid, overview.rebalances, Context(now)))
    return Lines(*parts)


def _state(group: Group, now: int) -> tuple[str, str]:
    """Return the health with its reason and its style; nothing that is stale is green."""
    shown = GROUP["health"].value(group, Context(now))
    text = f"{shown} {labels.reason(group.health_reason)}".rstrip()
    return text, "dim" if shown.tone == "stale" else health(group.health).style


def _summary(overview: Overview, now: int) -> Iterator[str]:
    group = overview.group
    yield f"{group.kind}, {labels.strategy_name(group.strategy)}, updated {labels.moment_in_zone(group.time, now)}"
    topics = [visible(topic) for topic in group.subscriptions if not topic.startswith(RETRY_TOPIC_PREFIX)]
    yield f"topics: {', '.join(topics) or 'unknown'}"
    count = f"{group.unowned or 0:,} unassigned"
    unassigned = _SHARED.get(group.without_owner, count if group.coverage.owners_known else "owners not all known")
    yield f"{group.queues:,} queues, {unassigned}, lag {_lag(group)}"
    if group.incidents.closed:
        yield f"incidents closed while their condition holds: {group.incidents.closed}, see `incident list --all`"
    retry, dead = (_sum_of(overview.failed, given_up=given_up) for given_up in (False, True))
    yield f"failed messages: {retry} to be tried again, {dead} dead letters"


def _lag(group: Group) -> str:
    """Format the sum of the known, fresh lags, the age of the oldest one, and the number of queues with unknown lag."""
    total = labels.total(group.lag, group.lag_unknown, at_least=group.lag_is_at_least)
    age = f", {labels.duration(group.lag_age_ms)} old" if group.lag_age_ms is not None else ""
    stale = f", {group.lag_stale:,} of them stale" if group.lag_stale else ""
    missing = f" (unknown for {group.lag_unknown:,} queues{stale})" if group.lag_unknown else ""
    return f"{total}{age}{missing}"


def _sum_of(failed: Sequence[FailedMessages], *, given_up: bool) -> str:
    """Format how many messages the retry topic or the dead-letter topic has at the brokers that answer."""
    found = [one.messages if not one.is_stale else None for one in failed if one.given_up == given_up]
    known = [messages for messages in found if messages is not None]
    return labels.total(sum(known) if known else None, len(found) - len(known))


def _coverage(coverage: TelemetryCoverage) -> Iterator[RenderableType]:
    polls = (
        f"polls ({coverage.brokers_answering} of {coverage.brokers} brokers and {coverage.members_answering} of "
        f"{coverage.members} members respond, {'with' if coverage.offsets else 'without'} offsets)"
    )
    sources = [
        *([f"hooks of {coverage.hooks} of {coverage.brokers} brokers"] if coverage.hooks else []),
        *([polls] if coverage.polls else []),
    ]
    yield Text(f"telemetry: {' and '.join(sources) or 'none'}")
    for text in coverage.unreadable:
        yield Text(f"can't be read: {visible(text)}", style=health("UNKNOWN").style)
    if coverage.unreadable_more:
        yield Text(f"and {coverage.unreadable_more:,} more that can't be read", style=health("UNKNOWN").style)
    for text in coverage.routes_incomplete:
        yield Text(
            f"no expected owner: the collector's route lacks a broker ({visible(text)})", style=health("UNKNOWN").style
        )
    if coverage.silent_rules:
        yield Text(
            f"rules suspended (missing telemetry) or not applicable: {', '.join(coverage.silent_rules)}",
            style=health("UNKNOWN").style,
        )


def _brokers(brokers: Sequence[GroupBroker]) -> Iterator[RenderableType]:
    for broker in brokers:
        if not broker.is_fresh:
            yield Text(f"broker {visible(broker.broker)}: {freshness(broker)}", style=health("UNKNOWN").style)


def _members(group: Group, members: Sequence[GroupMember], now: int) -> RenderableType:
    if not members:
        return Text("none")
    if group.unowned is None:
        return Text("\n".join(visible(member.client_id) for member in members))
    listed = members
    if len(members) > _MEMBERS:
        ranked = sorted(members, key=lambda member: -member.queues)
        listed = [*ranked[: _MEMBERS // 2], *ranked[-_MEMBERS // 2 :]]
    table = Grid.of(MEMBER.grid, listed, Context(now))
    if group.unowned:
        table.add(Cell("unassigned", "yellow"), Cell(f"{group.unowned:,}", "yellow"), "")
    if len(members) > _MEMBERS:
        note = Text(
            f"members with the most and the fewest queues, of {len(members):,}; --format json lists all", style="dim"
        )
        return Lines(table, note)
    return table


def assignments(
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    at: AtOption = None,
    problems: Annotated[
        bool, typer.Option("--problems", help="Problems only: queues that are not OK or have an unexpected owner.")
    ] = False,
    retry: RetryOption = False,
    output: Output,
) -> None:
    """Show owner, expected owner and status of each queue of a group.

    Lag and waiting time are the last values observed by the chosen time, with their age. The ages of lock, pull and
    consumption refer to the chosen time.
    """
    from streaming.queries.group_at import find_group
    from streaming.queries.groups import last_group_state
    from streaming.queries.ownership import queues
    from streaming.tables import ReadModel

    name = named_group(group, group_option, "assignments", cluster, at, output.format)
    without_owner = WithoutOwner.UNASSIGNED

    def ask(model: ReadModel) -> list[Queue]:
        nonlocal without_owner
        group_at = find_group(model, name, cluster, instant(at))
        without_owner = last_group_state(model, group_at).without_owner
        of_group = queues(model, group_at, topic, retry=retry)
        return [queue for queue in of_group if not problems or queue.is_problem]

    def draw(rows: Sequence[Queue], now: int) -> RenderableType:
        return Grid.of(QUEUE.grid, rows, Context(now, without_owner)) if rows else Text("No queues.")

    present(ask, draw, Queue, output, as_of=AsOf(instant(at)))
