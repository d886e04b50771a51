"""`rebalance-watch group show`: one group, as a person wants to see it first."""

from collections.abc import Iterator, Sequence

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from streaming.cli.grid import Cell, Column, Grid, visible
from streaming.cli.group.rebalances import rebalance_grid
from streaming.cli.incident.grid import incident_grid
from streaming.cli.options import (
    AtOption,
    CheckOption,
    ClusterOption,
    EveryOption,
    FormatOption,
    GroupArgument,
    GroupOption,
    Output,
    WatchOption,
    instant,
    named,
)
from streaming.cli.output import health, present, section
from streaming.queries import words
from streaming.queries.answers import Coverage, Group, Member, Overview

_SHARED = {
    "every client": "each client reads them all",
    "shared": "its clients share them",
    words.NOT_KNOWN: "who has which is not known",
}
"""What is said of a group whose clients do not divide its queues; see `words.without_owner`."""
_MEMBERS = 20
"""So many are listed; of more, those with the most and the fewest queues."""


def show(  # noqa: PLR0913  a command line
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    at: AtOption = None,
    check: CheckOption = False,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """One group: its health and why, what it is judged by, its members, open incidents and last rebalances."""
    from streaming.queries.groups import overview

    name = named(group, group_option)
    told = present(
        lambda model: overview(model, name, cluster, instant(at)),
        _draw,
        Overview,
        Output(output, watch, every),
        current=at is None,
    )
    if check and told.group.health != "OK":
        raise typer.Exit(3)


def _draw(told: Overview, now: int) -> RenderableType:
    group = told.group
    head = Text.assemble(
        (group.group, "bold"), f" ({group.cluster})  ", _styled(health(group.health, group.health_reason))
    )
    parts: list[RenderableType] = [head, Text("\n".join(_facts(group, now))), *_coverage(group.coverage)]
    parts += section(f"Members ({len(group.members)})", _members(group, told.members))
    if told.incidents:
        parts += section("Open incidents", incident_grid(told.incidents, now, with_group=False))
    if told.rebalances:
        parts += section("Last rebalances", rebalance_grid(told.rebalances, now))
    return Lines(*parts)


def _styled(cell: Cell) -> tuple[str, str]:
    return cell.text, cell.style


def _facts(group: Group, now: int) -> Iterator[str]:
    kind = words.kind(orderly=group.orderly, message_model=group.message_model, consume_type=group.consume_type)
    yield f"{kind}, {words.strategy_name(group.strategy)}, updated {words.moment(group.time, now)} UTC"
    topics = [visible(told) for told in group.subscriptions if not told.startswith(RETRY_TOPIC_PREFIX)]
    yield f"subscribes {', '.join(topics) or 'nothing that is known'}"
    unowned = _SHARED.get(group.without_owner, f"{group.unowned or 0:,} unassigned")
    yield f"{group.queues:,} queues, {unowned}, lag {_lag(group)}"


def _lag(group: Group) -> str:
    """The sum of what is known and not stale, how old it is, and of how many queues it is not known."""
    known = words.total(group.lag, group.lag_unknown, at_least=group.lag_is_at_least)
    age = f", {words.duration(group.lag_age_ms)} old" if group.lag_age_ms is not None else ""
    stale = f", {group.lag_stale:,} of them stale" if group.lag_stale else ""
    missing = f" (of {group.lag_unknown:,} queues not known{stale})" if group.lag_unknown else ""
    return f"{known}{age}{missing}"


def _coverage(coverage: Coverage) -> Iterator[RenderableType]:
    polls = (
        f"polls ({coverage.brokers_answering} of {coverage.brokers} brokers and {coverage.members_answering} of "
        f"{coverage.members} members answer, {'with' if coverage.offsets else 'without'} offsets)"
    )
    sources = [
        *([f"hooks of {coverage.hooks} of {coverage.brokers} brokers"] if coverage.hooks else []),
        *([polls] if coverage.polls else []),
    ]
    yield Text(f"judged by {' and '.join(sources) or 'nothing: no source tells of it'}")
    if coverage.silent_rules:
        yield Text(
            f"silent for want of telemetry, or not applicable: {', '.join(coverage.silent_rules)}",
            style=health("UNKNOWN").style,
        )


def _members(group: Group, members: Sequence[Member]) -> RenderableType:
    if not members:
        return Text("none")
    if group.unowned is None:
        return Text("\n".join(visible(member.client_id) for member in members))
    table = Grid([Column("client"), Column("queues", right=True), Column("")])
    shown = members
    if len(members) > _MEMBERS:
        ranked = sorted(members, key=lambda member: -member.queues)
        shown = [*ranked[: _MEMBERS // 2], *ranked[-_MEMBERS // 2 :]]
    for member in shown:
        table.add(member.client_id, f"{member.queues:,}", "" if member.is_member else Cell("no member", "yellow"))
    if group.unowned:
        table.add(Cell("unassigned", "yellow"), Cell(f"{group.unowned:,}", "yellow"), "")
    if len(members) > _MEMBERS:
        note = Text(f"those with the most and the fewest of {len(members):,}; --format json has all", style="dim")
        return Lines(table, note)
    return table
