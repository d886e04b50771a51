"""The options that the questions have in common."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from streaming.times import instant_ms, now_ms

Format = Literal["table", "json", "csv"]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Again and again, until Ctrl-C.")]
EveryOption = Annotated[float, typer.Option("--every", min=0.5, help="With --watch: after how many seconds.")]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", "-c", help="The cluster; needed where two have the group.")
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", help="As it was then: 2026-11-21T15:00 (UTC), epoch, 2h, '10 minutes ago', 'yesterday 9:00'."),
]
SinceOption = Annotated[
    str | None, typer.Option("--since", help="From when: a time as for --at elsewhere, such as 2h or 2026-11-21T15:00.")
]
UntilOption = Annotated[str | None, typer.Option("--until", help="Up to when; now if it isn't given.")]
CheckOption = Annotated[bool, typer.Option("--check", help="End with exit code 3 where anything shown is not OK.")]
RetryOption = Annotated[bool, typer.Option("--retry", help="The group's retry topic, too.")]
TopicOption = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")]
GroupArgument = Annotated[str | None, typer.Argument(help="The consumer group.", show_default=False)]
GroupOption = Annotated[str | None, typer.Option("--group", "-g", help="The same, as mqadmin has it.")]


@dataclass(frozen=True)
class Output:
    """How the user wants it."""

    format: Format = "table"
    watch: bool = False
    every: float = 2.0


def instant(text: str | None) -> int | None:
    """A time that may not be given; None is now.

    Raises:
        UserError: it is no time.
    """
    return None if text is None else instant_ms(text, now_ms())


def named(argument: str | None, option: str | None, what: str = "group") -> str:
    """What is given as argument or, as in mqadmin, as option."""
    if (argument is None) == (option is None):
        raise typer.BadParameter(f"Name one {what}: as argument, or with -{what[0]}.")
    return argument or option or ""
