"""`rebalance-watch incident show`: one incident with all that is known of it."""

import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Column, Grid
from streaming.cli.incident.grid import SHORT_ID, incident_grid
from streaming.cli.options import EveryOption, FormatOption, Output, WatchOption
from streaming.cli.output import present, section, severity
from streaming.cli.quantities import lag_of, waiting_of
from streaming.queries import words
from streaming.queries.answers import IncidentStory
from streaming.times import written

_EVENT = 1_500
"""So many characters of an event are shown: a picture of a large group fills a book."""


def show(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or how it begins.", show_default=False)],
    *,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """One incident: what it means, what to do first, its evidence and life, and the event behind it."""
    from streaming.queries.incident_story import incident

    present(lambda model: incident(model, incident_id), _draw, IncidentStory, Output(output, watch, every))


def _draw(story: IncidentStory, now: int) -> RenderableType:
    shown = story.incident
    parts: list[RenderableType] = [
        Text.assemble((shown.title, severity(shown.severity).style), f"  {shown.severity}"),
        *map(Text, _facts(story, now)),
        *section("What it means", Text(shown.main_explanation)),
        *section("First", Text(shown.first_step)),
    ]
    judged = next((step for step in reversed(story.life) if step.transition != "RESOLVED"), story.life[-1])
    evidence = words.evidence_items(judged.evidence, now)
    if evidence:
        table = Grid([Column("name"), Column("value")])
        for item in evidence:
            table.add(*item)
        parts += section(f"Evidence at {words.moment(judged.time, now)}", table)
    parts += section("Life", _life(story, now))
    if story.absorbed:
        parts += section("Explains", incident_grid(story.absorbed, now, with_group=not shown.group))
    parts += section("The event behind it", _event(story))
    at = f"--cluster {shown.cluster} --at {written(shown.opened_at)}"
    then = f"The group then: rebalance-watch group show {shown.group} {at}"
    parts.append(Text("\n" + (then if shown.group else f"The groups then: rebalance-watch group list {at}")))
    return Lines(*parts)


def _facts(story: IncidentStory, now: int) -> Iterator[str]:
    shown = story.incident
    client = "" if shown.main_client_id in {None, shown.subject} else f", client {shown.main_client_id}"
    yield f"{shown.subject or 'the group'} of {shown.group or 'the cluster'} ({shown.cluster}){client}"
    if story.reach is not None:
        yield f"touches {story.reach.groups} groups, {story.reach.queues} queues"
    if shown.sub_cause != shown.main_cause:
        yield f"main cause {shown.main_cause or 'none'}, at last {shown.sub_cause or 'none'}: {shown.explanation}"
    ended = shown.resolved_at
    until = "open" if ended is None else f"to {words.moment(ended, now)}, {words.duration(ended - shown.opened_at)}"
    yield f"opened {words.moment(shown.opened_at, now)} UTC, {until}; id {shown.incident_id}"
    if (queue := story.queue) is not None:
        age = f", {words.duration(queue.lag_age_ms)} old" if queue.lag is not None and not queue.lag_is_stale else ""
        owner = queue.owner or "no known owner"
        yield f"now: {owner}, lag {lag_of(queue)}{age}, waiting {waiting_of(queue)}, {queue.status}"
    if shown.parent is not None:
        yield f"part of {shown.parent[:SHORT_ID]}, which explains it: rebalance-watch incident show {shown.parent}"


def _life(story: IncidentStory, now: int) -> Grid:
    table = Grid([Column("time"), Column("transition"), Column("severity"), Column("why"), Column("event", spare=True)])
    for step in story.life:
        part = f"part of {step.parent[:SHORT_ID]}" if step.parent is not None else ""
        table.add(
            words.moment(step.time, now),
            step.transition,
            severity(step.severity),
            ", ".join(filter(None, (step.sub_cause, part))),
            step.cause,
        )
    return table


def _event(story: IncidentStory) -> Text:
    cause = story.life[0].cause
    if story.cause_event is None:
        return Text(f"{cause} (the archive does not have it, or not any more)")
    event = json.dumps(story.cause_event, ensure_ascii=False)
    cut = event if len(event) <= _EVENT else f"{event[:_EVENT]} … (--format json has all)"
    return Text(f"{cause}\n{cut}")
