"""Options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, overload

import typer

from streaming.base import zone
from streaming.base.times import instant_ms, now_ms

if TYPE_CHECKING:
    from streaming.tables import ReadModel

Format = Literal["table", "json", "csv"]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
TableOrJsonOption = Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")]
EveryOption = Annotated[float, typer.Option("--every", min=0.5, help="With --watch: refresh interval in seconds.")]
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


@dataclass(frozen=True)
class Output:
    """The output that the user chose; ``every`` is in seconds."""

    format: Format = "table"
    watch: bool = False
    every: float = 2.0


@overload
def instant(text: str) -> int: ...
@overload
def instant(text: str | None) -> int | None: ...
def instant(text: str | None) -> int | None:
    """Convert an optional time, in the zone of the command, to epoch milliseconds; None is now.

    Raises:
        UserError: the text is no valid time.
    """
    return None if text is None else instant_ms(text, now_ms(), zone.current())


def begin(model: "ReadModel", since: str | None, end: int | None) -> int:
    """Return the begin of a period that ends at an instant, in the zone of the command; see `begin_of`.

    Raises:
        UserError: the text is no valid time.
    """
    from streaming.queries.period import begin_of

    return begin_of(model, since, end, zone.current())


def named(argument: str | None, option: str | None, what: str = "group") -> str:
    """Return the name given as an argument or, as in mqadmin, as an option.

    Raises:
        BadParameter: neither or both are given.
    """
    if (argument is None) == (option is None):
        raise typer.BadParameter(f"Specify one {what}, as an argument or with -{what[0]}.")
    return argument or option or ""
