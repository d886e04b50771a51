"""`rebalance-watch who-owned`: who had one queue at a time."""

import re
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.options import (
    AtOption,
    ClusterOption,
    FormatOption,
    GroupOption,
    Output,
    TopicOption,
    instant,
)
from streaming.cli.output import present
from streaming.queries import words
from streaming.queries.answers import Interval

_QUEUE = re.compile(r"(?:(?P<topic>[^@]+)@)?(?P<broker>.+):(?P<queue_id>\d{1,9})", re.ASCII)


def who_owned(  # noqa: PLR0913  a command line
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP] [TOPIC] BROKER:QUEUE", help="The queue; TOPIC@BROKER:QUEUE is fine, too."),
    ] = None,
    *,
    group: GroupOption = None,
    topic: TopicOption = None,
    at: AtOption = None,
    cluster: ClusterOption = None,
    output: FormatOption = "table",
) -> None:
    """Who owned a queue at a time, since when, until when, and what shows it."""
    from streaming.queries.ownership import who_owned as ask

    given = list(names or ())
    queue = _QUEUE.fullmatch(given.pop()) if given else None
    if queue is None:
        raise typer.BadParameter(
            "Name the queue last, as BROKER:QUEUE: rebalance-watch who-owned orders Orders broker-a:0"
        )
    wanted_topic = queue["topic"] or topic or (given.pop() if given else None)
    wanted_group = group or (given.pop() if given else None)
    if wanted_group is None or wanted_topic is None or given:
        raise typer.BadParameter("Name group, topic and queue: rebalance-watch who-owned orders Orders broker-a:0")
    broker, queue_id = queue["broker"], int(queue["queue_id"])
    time = instant(at)

    def draw(found: Interval | None, now: int) -> RenderableType:
        name = words.queue_name(wanted_topic, broker, queue_id)
        head = f"{name} of {wanted_group}, {'now' if time is None else f'{words.moment(time, now)} UTC'}: "
        return Text.assemble(head, *_owner(found, now))

    present(
        lambda model: ask(model, wanted_group, wanted_topic, broker, queue_id, cluster=cluster, at=time),
        draw,
        Interval,
        Output(output),
    )


def _owner(found: Interval | None, now: int) -> tuple[tuple[str, str] | str, ...]:
    if found is None:
        return (("nobody", "yellow"),)
    ended = ""
    if found.to_time is not None:
        why = words.LOST.get(found.end_evidence or "", found.end_evidence or words.NOT_KNOWN)
        ended = f"\n  until  {words.moment(found.to_time, now)}  {why}"
    gained = words.GAINED.get(found.evidence, found.evidence)
    since = f"\n  since  {words.moment(found.from_time, now)}  {gained}"
    rebalance = f"\n  by rebalance {found.rebalance_id}" if found.rebalance_id else ""
    return (found.client_id, "bold"), since, ended, rebalance
