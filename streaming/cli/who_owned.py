"""`rebalance-watch who-owned`: show the owner of a queue at a time."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from rebalance_model.entities import MessageQueue
from streaming.base.terminal import visible
from streaming.base.times import now_ms
from streaming.cli.grid import Cell, Grid, GridColumn
from streaming.cli.options import (
    HELP,
    METAVAR,
    AtOption,
    ClusterOption,
    Format,
    FormatOption,
    GroupOption,
    Output,
    QueueOfAnyGroup,
    TopicOption,
    instant,
    parse_any_queue,
)
from streaming.cli.output import AsOf, present
from streaming.queries import labels
from streaming.queries.columns.column import SHORT_ID
from streaming.queries.health import WithoutOwner
from streaming.queries.results import Interval

if TYPE_CHECKING:
    from streaming.queries.group_at import GroupAt
    from streaming.queries.queue_owners import QueueOwner
    from streaming.tables import ReadModel


def who_owned(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar=METAVAR, help=HELP),
    ] = None,
    *,
    group: GroupOption = None,
    topic: TopicOption = None,
    at: AtOption = None,
    cluster: ClusterOption = None,
    output: FormatOption = "table",
) -> None:
    """Show the owner of a queue at a time, the start and end of the ownership, and the evidence.

    Without a group: in each group that has the queue, as `who-owned Orders@broker-a:3`.
    """
    from streaming.queries.group_at import find_group
    from streaming.queries.groups import last_group_state
    from streaming.queries.known_queues import named_queue
    from streaming.queries.ownership import last_owner
    from streaming.queries.ownership import who_owned as owner_in
    from streaming.queries.present import history_ends

    queue = parse_any_queue(names, group, topic, "rebalance-watch who-owned orders Orders broker-a:0")
    time = instant(at)
    if isinstance(queue, QueueOfAnyGroup):
        _in_every_group(queue, cluster, time, output)
        return
    wanted_group, wanted_topic, name, queue_id = queue
    mq = MessageQueue(wanted_topic or name, name, queue_id)

    before: Interval | None = None
    without_owner, when = ("", ""), "now"

    def ask(model: "ReadModel") -> Interval | None:
        nonlocal before, without_owner, when, mq
        group_at = find_group(model, wanted_group, cluster, time)
        mq = named_queue(model, group_at, wanted_topic, name, queue_id)
        interval = owner_in(model, group_at, mq)
        last = last_group_state(model, group_at)
        if time is None and last.freshness.is_stale:
            when = f"as last known, {labels.duration(last.freshness.age_ms)} ago"
        elif time is None and (ends := history_ends(model)).silent:
            when = labels.moment_in_zone(ends.last, now_ms())
        if interval is None:
            without_owner = _label(model, group_at, mq, last.without_owner)
            before = last_owner(model, group_at, mq)
        return interval

    def draw(interval: Interval | None, now: int) -> RenderableType:
        head = f"{mq} of {wanted_group}, {when if time is None else labels.moment_in_zone(time, now)}: "
        owner = without_owner if interval is None else (visible(interval.client_id), "bold")
        last = f"\nprevious owner: {visible(before.client_id)}" if before is not None else ""
        return Text.assemble(head, owner, last, *_ownership(interval or before, now))

    present(ask, draw, Interval, Output(output), as_of=AsOf(time))


def _in_every_group(queue: QueueOfAnyGroup, cluster: str | None, time: int | None, output: Format) -> None:
    from streaming.queries.queue_owners import QueueOwner, queue_owners

    def ask(model: "ReadModel") -> list[QueueOwner]:
        return queue_owners(model, *queue, cluster=cluster, at=time)

    def draw(owners: Sequence[QueueOwner], now: int) -> RenderableType:
        when = "" if time is None else f", {labels.moment_in_zone(time, now)}"
        grid = Grid([GridColumn(title) for title in ("cluster", "group", "owner", "since", "until", "rebalance")])
        for one in owners:
            grid.add(one.cluster, one.group, *_owner_cells(one, now))
        notes = [f"{one.group}: {one.unknown}" for one in owners if one.unknown is not None]
        return Lines(Text(f"{owners[0].queue}{when}"), grid, *map(Text, notes))

    present(ask, draw, QueueOwner, Output(output), as_of=AsOf(time))


def _owner_cells(row: "QueueOwner", now: int) -> Iterator[str | Cell]:
    """Yield owner, since, until and rebalance."""
    owned = row.owner
    if owned is None:
        yield labels.NOT_KNOWN if row.unknown is not None else Cell("unassigned", "yellow")
        before = row.previous
        left = "" if before is None or before.to_time is None else labels.moment(before.to_time, now)
        yield f"{left} ({before.client_id} before)" if before is not None else ""
        yield from ("", "")
        return
    yield Cell(owned.client_id, "bold")
    yield f"{labels.moment(owned.from_time, now)} {labels.GAINED.get(owned.evidence, owned.evidence)}"
    lost = labels.LOST.get(owned.end_evidence or "", owned.end_evidence or "")
    yield "" if owned.to_time is None else f"{labels.moment(owned.to_time, now)} {lost}"
    yield owned.rebalance_id[:SHORT_ID]


def _label(model: "ReadModel", group_at: "GroupAt", mq: MessageQueue, of_group: "WithoutOwner") -> tuple[str, str]:
    """Return the label of a queue without an owner, and its style: who pops it, if anybody does."""
    from streaming.queries.ownership import queues

    rows = queues(model, group_at, mq.topic, retry=mq.is_retry)
    clients = next((row.shared_by for row in rows if (row.broker, row.queue_id) == (mq.broker, mq.queue_id)), ())
    if clients:
        return f"shared by {labels.some([visible(one) for one in clients])}", ""
    return of_group.label, "yellow" if of_group is WithoutOwner.UNASSIGNED else ""


def _ownership(owned: Interval | None, now: int) -> Iterator[str]:
    if owned is None:
        return
    yield f"\n  since  {labels.moment(owned.from_time, now)}  {labels.GAINED.get(owned.evidence, owned.evidence)}"
    if owned.to_time is not None:
        why = labels.LOST.get(owned.end_evidence or "", owned.end_evidence or labels.NOT_KNOWN)
        yield f"\n  until  {labels.moment(owned.to_time, now)}  {why}"
    if owned.rebalance_id:
        yield f"\n  by rebalance {owned.rebalance_id}"
