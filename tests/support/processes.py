"""The processes of this machine, as a test looks at them."""

import subprocess
from pathlib import Path


def parents() -> dict[int, int]:
    """The parent of each process."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and those that these have started."""
    found, known = {pid}, parents()
    while more := {child for child, parent in known.items() if parent in found} - found:
        found |= more
    return found - {pid}


def command_of(pid: int) -> list[bytes]:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
