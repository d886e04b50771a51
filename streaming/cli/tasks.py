"""The help of the whole command: commands by what a user wants to do, and examples.

A command is imported when it runs, or its own help is asked for: all of them take half a second.
"""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

TASKS = {
    "Ask, now or at any time (--at)": (
        "group", "incident", "who-owned", "queue", "client", "allocate", "sql",
    ),
    "Collect and process": ("up", "collect", "run", "topic", "hook"),
    "Show and alert": ("dashboard", "alert", "metrics", "mcp"),
    "Check and maintain": (
        "doctor", "config", "maintain", "quality", "checkpoint", "backtest", "rebuild", "replay", "job",
    ),
    "Try it without a cluster of your own": ("demo", "lab"),
}  # fmt: skip
"""The commands by task, in the order of the help."""

EXAMPLES = {
    "": {
        "up": "collect, process and serve the dashboard",
        "group list": "which groups are unhealthy, and why",
        "incident list": "what is wrong now",
        "who-owned Orders@broker-a:3 --at 2h": "who owned a queue two hours ago",
        "demo": "try it on a recording",
    },
    "group": {
        "group show orders": "health, members and incidents of one group",
        "group assignments orders --problems": "its queues that are not OK",
        "group diff orders --from 1h": "what has moved within an hour",
    },
    "incident": {
        "incident list --all --since 1d": "those of a day, also resolved ones",
        "incident show 4fd2": "evidence, next step, timeline",
        "incident close 4fd2 --reason 'queue removed'": "count it as resolved",
    },
    "who-owned": {
        "who-owned Orders@broker-a:3": "in every group that has the queue",
        "who-owned orders Orders broker-a:3 --at 15:58": "in one group at a time",
    },
    "allocate": {
        "allocate orders --leave orders-2": "what moves if a client leaves",
        "allocate orders --join 2 --queues": "each queue that moves if two join",
        "allocate orders --rolling-restart": "the order that moves least",
    },
    "sql": {
        "sql 'FROM open_incidents'": "a view",
        "sql \"SELECT * FROM owners_at(now() - INTERVAL 1 HOUR)\" -o csv": "a function of an instant",
    },
    "alert": {
        "alert run": "send alerts until Ctrl-C",
        "alert test chat": "send a sample to one channel",
        "alert silence add -g 'pay-*' --for 2h --reason upgrade": "send nothing of these groups",
    },
    "lab": {
        "lab up": "start a cluster on this machine",
        'eval "$(rebalance-watch lab env)" && rebalance-watch up': "observe it",
        "lab fault poison": "break it",
    },
}  # fmt: skip
"""Command lines by the command whose help shows them; without the program's name unless they are more than it."""


_MARKUP: Final = "rich"
SUMMARIES: Final[Mapping[str, str]] = dict(
    line.split(": ", 1)
    for line in resources.files("streaming.cli").joinpath("summaries.txt").read_text("utf-8").splitlines()
)
"""The first line of the help of each command or group of them, by its words; `tests.docs` writes the file."""


class CommandGroup(TyperGroup):
    """A group of commands that are listed by their summaries, and imported to run."""

    path: tuple[str, ...] = ()

    @classmethod
    def of(cls, *path: str) -> "CommandGroup":
        """Return the group of this path, such as alert, silence."""
        group = cls(
            name=path[-1],
            help=SUMMARIES[" ".join(path)],
            epilog=examples_of(" ".join(path)),
            no_args_is_help=True,
            rich_markup_mode=_MARKUP,
            rich_help_panel=task_of(path[0]),
        )
        group.path = path
        group.commands = Imported(path)  # type: ignore[assignment]  # click only reads it
        return group

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what a list of commands shows of one; None: there is none of this name."""
        del ctx
        path = (*self.path, cmd_name)
        if (summary := SUMMARIES.get(" ".join(path))) is None:
            return None
        if _names_below(path):
            return CommandGroup.of(*path)
        panel = None if self.path else task_of(cmd_name)
        return TyperCommand(cmd_name, help=summary, rich_markup_mode=_MARKUP, rich_help_panel=panel)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of its commands."""
        del ctx
        return _names_below(self.path)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run, imported."""
        name, found, rest = super().resolve_command(ctx, args)
        if isinstance(found, CommandGroup) or name is None:
            return name, found, rest
        return name, self.commands[name], rest


class ByTask(CommandGroup):
    """All commands, in the order of `TASKS`."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = Imported(())  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return [name for names in TASKS.values() for name in names]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the options of the whole command."""
        with _one_sentence():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _one_sentence():
            return super().invoke(ctx)


def print_error(sentence: str) -> None:
    """Print what is wrong; see `streaming.base.lines`, which takes a tenth of a second to import."""
    from streaming.base.lines import print_error as print_line

    print_line(sentence)


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Print a wrong command line as all errors are, instead of in a frame under the usage."""
    try:
        yield
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # which typer does not export: its text is the help
            raise
        context = getattr(error, "ctx", None)
        said = error.format_message()
        said = said if said.endswith(("?", ".")) else f"{said}."
        print_error(said if context is None else f"{said} See `{context.command_path} --help`.")
        raise typer.Exit(error.exit_code) from None


class Imported(Mapping[str, Any]):
    """The commands of a group, each imported when it is read."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path

    def __iter__(self) -> Iterator[str]:
        return iter(_names_below(self._path))

    def __len__(self) -> int:
        return len(_names_below(self._path))

    def __getitem__(self, name: str) -> Any:
        first, *rest = (*self._path, name)
        if first not in _names_below(()):
            raise KeyError(name)
        command = _imported(first)
        for one in rest:
            command = command.commands[one]
        return command


_MODULES: Final = {"dashboard": "serve", "metrics": "serve", "mcp": "serve"}
"""The modules of commands that are not in one of their own name."""


@cache
def _imported(name: str) -> Any:
    """Import a command of the first level."""
    from streaming.cli.options import shaped

    module = importlib.import_module(f"streaming.cli.{_MODULES.get(name, name).replace('-', '_')}")
    holder = typer.Typer(rich_markup_mode=_MARKUP, pretty_exceptions_enable=False)
    holder.callback()(_nothing)
    if (app := getattr(module, "app", None)) is not None:
        for one in app.registered_commands:
            one.callback = shaped(one.callback)
        holder.add_typer(app, name=name, rich_help_panel=task_of(name), epilog=examples_of(name))
    else:
        command = getattr(module, name.replace("-", "_"))
        holder.command(name, rich_help_panel=task_of(name), epilog=examples_of(name))(shaped(command))
    return typer.main.get_group(holder).commands[name]


def _nothing() -> None:
    """Stand for the options of the whole command, which `main` has."""


def _names_below(path: tuple[str, ...]) -> list[str]:
    """Return the names of the commands of a group, in the order of their list."""
    names = [tuple(one.split()) for one in SUMMARIES]
    return [one[-1] for one in names if one[:-1] == path]


def task_of(command: str) -> str:
    """Return the task of a command.

    Raises:
        StopIteration: it is in none.
    """
    return next(task for task, names in TASKS.items() if command in names)


def examples_of(command: str) -> str | None:
    """Return the examples of a command, each a paragraph, as its help shows them; None if it has none."""
    if (found := EXAMPLES.get(command)) is None:
        return None
    lines = {one if "rebalance-watch" in one else f"rebalance-watch {one}": what for one, what in found.items()}
    return "\n\n".join(["Examples:", *(f"{_plain(line)}  [dim]# {what}[/]" for line, what in lines.items())])


def _plain(line: str) -> str:
    return line.replace("[", "\\[")
