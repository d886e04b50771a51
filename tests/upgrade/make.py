"""Make the fixture of this release: ``python -m tests.upgrade.make``, once for each release, just before its tag.

Fixtures of former releases are never made again: they are what upgrades start from.
"""

from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from tests.support.telemetry import START, telemetry
from tests.upgrade.root import HERE, PARTITIONS, move_half_of_log, pack, run

GROUPS, ROUNDS = 6, 40
FILE_MS = 20_000


def make(root: Path, code: Path | None = None) -> None:
    """Run the job of this release, or of that whose code is in a folder, over the first half of some telemetry."""
    for _, part in groupby(telemetry(GROUPS, ROUNDS), lambda event: (event.time - START) // FILE_MS):
        events = list(part)
        clock = patch("streaming.log.files.now_ms", lambda: events[-1].time)  # noqa: B023  used at once
        with clock, FilePublisher(root / "log", PARTITIONS, roll_seconds=1e9) as log:
            publish(log, events)
    move_half_of_log(root)
    ended = run(root, "run", "--available-now", code=code)
    assert ended.returncode == 0, ended.stderr


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        make(Path(folder))
        target = HERE / f"{version('rebalance-watch')}.tar.xz"
        pack(Path(folder), target)
    print(f"{target}: {target.stat().st_size / 1000:,.0f} kB")
