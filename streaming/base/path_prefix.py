"""The path prefix of the dashboard's public address (`web.url`)."""

import re

DASHBOARD_PATHS = frozenset(
    {"actions", "api", "client", "clients", "group", "healthz", "incident", "incidents", "login", "logout", "mcp",
     "metrics", "readyz", "rule", "runbook"}
)  # fmt: skip
"""The first parts of the dashboard's own paths, beside those of NiceGUI."""
_PLAIN = re.compile(r"(/[\w.~-]+)*", re.ASCII)
"""A path that nobody has to encode."""


def path_prefix(url: str) -> str:
    """Return the path of an address, such as ``/rw``; empty: none."""
    _, slash, path = url.partition("://")[2].partition("/")
    return f"{slash}{path}".rstrip("/")


def check_prefix(prefix: str) -> None:
    """Check that requests below a prefix can be distinguished from those of the dashboard's own paths.

    Raises:
        ValueError: they can't, or it is no plain path.
    """
    if not _PLAIN.fullmatch(prefix):
        raise ValueError("should have no more than a plain path, such as https://host/rw")
    first = prefix.removeprefix("/").partition("/")[0]
    if first in DASHBOARD_PATHS or first.startswith("_nicegui"):
        raise ValueError(f"should not begin with /{first}, which is a path of the dashboard: use one such as /rw")
