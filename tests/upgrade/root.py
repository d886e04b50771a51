"""A runtime root as a file: packed as a release has left it, and unpacked in any folder.

Spark's list of the files that it has read, the schema of its state, the Delta logs and `generation.json` have absolute
paths, in text: they are packed with a placeholder. Hadoop's checksums of such files are then wrong, so none is kept.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from streaming.base.settings import Settings, load_settings
from streaming.log.files import files_of

HERE = Path(__file__).parent
PARTITIONS = 2
REST = "rest"
"""The folder of the later half of the log, which the release has not read."""
PARTS = ("log", "tables", "checkpoints", REST)
_PLACE = b"@root@"
_BINARY = (".parquet", ".zip", ".sst", ".changelog", ".gz")
_LEFT_OUT = ("*.crc", "checkpoints/.lock", "checkpoints/lease/*")


def pack(root: Path, target: Path) -> None:
    """Pack the log, the tables, the checkpoints and the rest of the telemetry."""
    with tarfile.open(target, "w:xz") as archive:
        for file in sorted(file for part in PARTS for file in (root / part, *(root / part).rglob("*"))):
            name = file.relative_to(root)
            if not file.is_file() or any(name.match(pattern) for pattern in _LEFT_OUT):
                continue
            content = file.read_bytes()
            if file.suffix not in _BINARY:
                content = content.replace(os.fsencode(root), _PLACE)
            assert os.fsencode(root) not in content, f"{name} has an absolute path"
            entry = tarfile.TarInfo(name.as_posix())
            entry.size, entry.mtime = len(content), file.stat().st_mtime_ns / 1e9
            archive.addfile(entry, BytesIO(content))


def unpack(source: Path, root: Path) -> Path:
    """Unpack a root; the files of its log keep their times, which are those of their rows."""
    with tarfile.open(source) as archive:
        archive.extractall(root, filter="data")
    for file in root.rglob("*"):
        if file.is_file() and file.suffix not in _BINARY and _PLACE in (content := file.read_bytes()):
            file.write_bytes(content.replace(_PLACE, os.fsencode(root)))
    for file in (*(root / "log").rglob("*"), *(root / REST).rglob("*")):
        mtime_ns = round(file.stat().st_mtime_ns, -6)  # tar keeps it as a fraction, and the log counts milliseconds
        os.utime(file, ns=(mtime_ns, mtime_ns))
    return root


def move_half_of_log(root: Path) -> None:
    """Take the later half of the log's files away, before the job reads them."""
    for partition in range(PARTITIONS):
        files = files_of(root / "log", partition)
        for file in files[len(files) // 2 :]:
            target = root / REST / file.relative_to(root / "log")
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)


def append_rest(root: Path) -> None:
    """Move the later half back, as if a collector had written it meanwhile."""
    for file in sorted((root / REST).glob("*/*")):
        file.rename(root / "log" / file.relative_to(root / REST))


def run(root: Path, *arguments: str, code: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command over a root to its end: of this release, or of that whose code is in the folder."""
    environment = os.environ | _environment(root)
    if code is not None:
        environment["PYTHONPATH"] = str(code)  # of Spark's workers, too
    command = [sys.executable, "-m", "streaming.cli.main", *arguments]
    return subprocess.run(command, cwd=code or HERE, env=environment, capture_output=True, text=True, check=False)


@contextmanager
def settings_of(root: Path) -> Iterator[Settings]:
    """Let commands of this process work on a root, the log in one batch; yields their settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _environment(root).items():
            patch.setenv(name, value)
        patch.setenv("REBALANCE_WATCH_SOURCE__FILES_PER_BATCH", "1000")
        yield load_settings()


def _environment(root: Path) -> dict[str, str]:
    given = {"RUNTIME__ROOT": root, "RUNTIME__JARS": load_settings().runtime.jars, "SOURCE__KIND": "files"}
    given |= {"SOURCE__PARTITIONS": PARTITIONS, "SOURCE__FILES_PER_BATCH": 8}
    return {f"REBALANCE_WATCH_{name}": str(value) for name, value in given.items()}
