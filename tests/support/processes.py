"""The processes of this machine, as a test looks at them."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

_CLOSE_WAIT = "08"
_TICKS = os.sysconf("SC_CLK_TCK")


def parents() -> dict[int, int]:
    """The parent of each process."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and those that these have started."""
    family, known = {pid}, parents()
    while more := {child for child, parent in known.items() if parent in family} - family:
        family |= more
    return family - {pid}


def command_of(pid: int) -> list[bytes]:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def processor_seconds(pid: int) -> float:
    """The processor time of a process and of its children that have ended; 0 if it has ended itself."""
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


def left_open(pid: int) -> int:
    """Return how many connections a process has that the other end has closed."""
    mine = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            mine.add(str(file.readlink()).removeprefix("socket:[").removesuffix("]"))
    tables = [Path(f"/proc/{pid}/net/{table}") for table in ("tcp", "tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return sum(line[3] == _CLOSE_WAIT and line[9] in mine for line in lines)
