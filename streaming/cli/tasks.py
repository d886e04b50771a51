"""The help of the whole command: commands by what a user wants to do, and examples."""

from typing import Any

from typer.core import TyperGroup

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
        "sql \"SELECT * FROM owners_at(now() - INTERVAL 1 HOUR)\" --format csv": "a function of an instant",
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


class ByTask(TyperGroup):
    """Lists commands in the order of `TASKS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        known = super().list_commands(ctx)
        return sorted(known, key=[name for names in TASKS.values() for name in names].index)


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
