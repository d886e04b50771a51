"""Name the person who gives a command, for the rows of `alert_controls`."""

import getpass


def author() -> str:
    """Return the name of the user who runs this command; empty if the system has none for the user id."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
