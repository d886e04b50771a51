"""Limits of open files: as many as the system allows, and some of them for the process's own work."""

import subprocess
import sys

import pytest

from streaming.base.limits import OPEN_FILES, OWN_FILES

_RAISE = (
    "from streaming.base import process as o; o.raise_open_files(); print(o.open_files(), o.files_for_connections())"
)


@pytest.mark.parametrize(
    ("limits", "allowed", "connections"),
    [
        ("ulimit -Sn 256; ulimit -Hn 2000", 2_000, 2_000 - OWN_FILES),
        ("ulimit -Sn 100; ulimit -Hn 100", 100, 50),
        ("ulimit -Sn 1024", None, None),
    ],
)
def test_a_process_takes_what_the_system_allows(limits, allowed, connections):
    command = ["bash", "-c", f'{limits}; ulimit -Hn; exec "$0" -c "$1"', sys.executable, _RAISE]
    hard, *numbers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    if allowed is None:
        allowed = OPEN_FILES if hard == "unlimited" else min(OPEN_FILES, int(hard))
        connections = allowed - OWN_FILES
    assert numbers == [str(allowed), str(connections)]
