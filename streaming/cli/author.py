"""Name the person who gives a command, for the rows of `alert_controls` and `operator_actions`."""

import getpass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streaming.serve.operator_actions import Actor


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
