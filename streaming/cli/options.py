"""Options that several commands share."""

import getpass
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, overload

import typer

from streaming.base import times
from streaming.base.times import instant_ms, now_ms

if TYPE_CHECKING:
    from streaming.serve.operator_actions import Actor
    from streaming.tables import ReadModel

Format = Literal["table", "wide", "json", "csv", "yaml"]
FormatOption = Annotated[Format, typer.Option("--format", "-o", help="Output format; wide: a table with all columns.")]
TableOrJsonOption = Annotated[Literal["table", "json"], typer.Option("--format", "-o", help="Output format.")]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", "-c", help="Cluster; required if the group exists in several.")
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", help="Show state at this time: 15:58, '11-21 15:58:00', 2026-11-21T15:58Z (UTC), 2h (ago)."),
]
SinceOption = Annotated[str | None, typer.Option("--since", help="Start time, such as 2h (ago), 15:58 or 2026-11-21.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="End time; default: now.")]
CheckOption = Annotated[bool, typer.Option("--check", help="Exit with code 3 if anything shown is not OK, or stale.")]
RetryOption = Annotated[bool, typer.Option("--retry", help="Include the group's retry topic.")]
TopicOption = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")]
GroupArgument = Annotated[str | None, typer.Argument(help="Consumer group.", show_default=False)]
PolicyOption = Annotated[Path | None, typer.Option("--policy", help="Policy file to use instead of conf/policy.toml.")]
GroupOption = Annotated[str | None, typer.Option("--group", "-g", help="Consumer group, as in mqadmin.")]


class Shape(NamedTuple):
    """The columns and rows of an answer that are printed, and their order; options of each command with a format."""

    columns: tuple[str, ...] = ()
    """Names of columns; empty: those of the table, or all fields."""
    sort: str = ""
    """Name of a field; with a minus before it the largest first. Empty: the order of the answer."""
    headers: bool = True


_AS_IT_IS = Shape()
SHAPE: ContextVar[Shape] = ContextVar("shape", default=_AS_IT_IS)
"""The form in which the command that runs prints its answer."""


@dataclass(frozen=True)
class Output:
    """The output that the user chose: options of a command that can be refreshed."""

    format: FormatOption = "table"
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False
    every: Annotated[float, typer.Option(min=0.5, help="With --watch: refresh interval in seconds.")] = 2.0


def shaped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options `--columns`, `--sort` and `--no-headers`, if it prints rows.

    One that can be refreshed has an `Output`, whose fields are options, too.
    """
    asked = signature(command, eval_str=True)
    output = asked.parameters.get("output")
    if output is None or output.annotation not in {FormatOption, Output}:
        return command
    fields = signature(Output, eval_str=True).parameters if output.annotation is Output else {}

    @wraps(command)
    def run(
        *args: Any, columns: str | None = None, sort: str | None = None, no_headers: bool = False, **given: Any
    ) -> None:
        names = tuple(name.strip().replace("-", "_") for name in columns.split(",")) if columns else ()
        token = SHAPE.set(Shape(names, sort or "", headers=not no_headers))
        if fields:
            given["output"] = Output(**{name: given.pop(name) for name in fields})
        try:
            command(*args, **given)
        finally:
            SHAPE.reset(token)

    added = {
        "columns": (str | None, None, "Only these columns, in this order, such as health,group,lag."),
        "sort": (str | None, None, "Sort by this field of the JSON; with a minus before it the largest first."),
        "no_headers": (bool, False, "Print no titles of columns."),
    }
    extra = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=default,
            annotation=Annotated[kind, typer.Option(f"--{name.replace('_', '-')}", help=text)],
        )
        for name, (kind, default, text) in added.items()
    ]  # fmt: skip
    own = [one for one in asked.parameters.values() if not fields or one is not output]
    whole = [*own, *(one.replace(kind=Parameter.KEYWORD_ONLY) for one in fields.values()), *extra]
    run.__signature__ = asked.replace(parameters=whole)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in whole}
    return run


@overload
def instant(text: str) -> int: ...
@overload
def instant(text: str | None) -> int | None: ...
def instant(text: str | None) -> int | None:
    """Convert an optional time, in the zone of the command, to epoch milliseconds; None is now.

    Raises:
        UserError: the text is no valid time.
    """
    return None if text is None else instant_ms(text, now_ms(), times.current())


def begin(model: "ReadModel", since: str | None, end: int | None) -> int:
    """Return the begin of a period that ends at an instant, in the zone of the command; see `begin_of`.

    Raises:
        UserError: the text is no valid time.
    """
    from streaming.queries.present import begin_of

    return begin_of(model, since, end, times.current())


def named(argument: str | None, option: str | None, what: str = "group") -> str:
    """Return the name given as an argument or, as in mqadmin, as an option.

    Raises:
        BadParameter: neither or both are given.
    """
    if (argument is None) == (option is None):
        raise typer.BadParameter(f"Specify one {what}, as an argument or with -{what[0]}.")
    return argument or option or ""


_QUEUE = re.compile(r"(?:(?P<topic>[^@]+)@)?(?P<name>.+):(?P<queue_id>\d{1,9})", re.ASCII)
"""A queue as TOPIC@BROKER:QUEUE, as BROKER:QUEUE or as TOPIC:QUEUE."""
METAVAR = "[GROUP] [TOPIC] BROKER:QUEUE"
HELP = "Queue; TOPIC@BROKER:QUEUE is also accepted, and TOPIC:QUEUE if one broker has the topic."


class NamedQueue(NamedTuple):
    """A queue as it was typed."""

    group: str
    topic: str | None
    """None: ``name`` is the topic, and the broker is the one that has the queue."""
    name: str
    """The broker, or the topic."""
    queue_id: int


class QueueOfAnyGroup(NamedTuple):
    """A queue as it was typed, without a group."""

    topic: str
    broker: str | None
    """None: the one that has the queue."""
    queue_id: int


def parse_any_queue(
    names: Sequence[str] | None, group: str | None, topic: str | None, example: str
) -> NamedQueue | QueueOfAnyGroup:
    """Return the queue that arguments and options name, perhaps without a group.

    Args:
        names: the arguments.
        group: the option of the group.
        topic: the option of the topic.
        example: a valid command, for the error message.

    Raises:
        BadParameter: the queue is missing, or too much is given.
    """
    given = list(names or ())
    queue = _QUEUE.fullmatch(given.pop()) if given else None
    if queue is None:
        raise typer.BadParameter(f"Specify the queue last, as BROKER:QUEUE: {example}")
    if topic is not None and queue["topic"] not in {None, topic}:
        raise typer.BadParameter(f"Specify one topic: {queue['topic']} or {topic}.")
    named_topic, queue_id = queue["topic"] or topic, int(queue["queue_id"])
    if not given and group is None:
        if named_topic is not None:
            return QueueOfAnyGroup(named_topic, queue["name"], queue_id)
        return QueueOfAnyGroup(queue["name"], None, queue_id)
    wanted_topic = named_topic or (given.pop() if len(given) > (group is None) else None)
    wanted_group = group or given.pop()
    if given:
        raise typer.BadParameter(f"Specify group, topic and queue: {example}")
    return NamedQueue(wanted_group, wanted_topic, queue["name"], queue_id)


def author() -> str:
    """Return the name of the user who runs this command; empty if the system has none for the user id."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def actor(name: str | None = None) -> "Actor":
    """Return who does something by a command: the system's user, under a name of its own or a given one."""
    from streaming.serve.operator_actions import Actor

    user = author()
    return Actor(user, user if name is None else name, "CLI")
