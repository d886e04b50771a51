"""The group that a command is about; if none is named, the groups to choose from."""

import typer

from streaming.base.shell import group_argument
from streaming.cli.group.list import draw_groups
from streaming.cli.options import Format, Output, instant, named
from streaming.cli.ours import our_command
from streaming.cli.output import AsOf, present
from streaming.cli.tasks import print_error
from streaming.queries.results import Group


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
