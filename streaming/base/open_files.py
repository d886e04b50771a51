"""The files that this process may have open: connections count as such, and so do the files of the tables."""

import resource

from streaming.base.limits import OPEN_FILES, OWN_FILES

OPEN_FILES_MIN = 4_096
"""With fewer, a dashboard has fewer connections than its limit, and a shipper fewer spools."""


def open_files() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_open_files() -> None:
    """Let this process, and those that it starts, have as many files open as the system allows, up to `OPEN_FILES`.

    systemd and shells give 1,024, because `select` knows no more, and let those raise it that do not use that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def files_for_connections() -> int:
    """Return how many connections this process may have, so that it can open the files of its own work."""
    allowed = open_files()
    if allowed == resource.RLIM_INFINITY:
        return OPEN_FILES
    return allowed - min(OWN_FILES, allowed // 2)
