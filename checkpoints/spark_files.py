"""The files that Spark writes into a query's checkpoint: their names, their form and their checksums.

Spark writes a file under another name and renames it, so a process that is killed leaves it whole or absent. It syncs
neither content nor name: after a power cut, what was written last may be empty, torn or missing. Hadoop keeps checksums
beside each file of a local disk, but Spark does not look at them.

The last Delta commit that a query has made to each of its tables, in a file of its checkpoint.

Without its last commits a Delta table is a whole, older table: nothing in it says that rows are gone. So a start
compares. The file is written after the commits and before Spark records the batch, hence never ahead of the tables.
"""

import json
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from streaming.base.errors import UserError
from streaming.base.files import replace_atomically

_FILE = "last_commits.json"


def note_last_commits(checkpoint: Path, commits: Mapping[str, int]) -> None:
    """Write down the last commits of some tables; what is known of the others stays."""
    if commits:
        replace_atomically(checkpoint / _FILE, msgspec.json.encode({**last_commits(checkpoint), **commits}))


def last_commits(checkpoint: Path) -> dict[str, int]:
    """Return the last known commit of each table; none without a file that can be read, so nothing is compared then."""
    try:
        return msgspec.json.decode((checkpoint / _FILE).read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


_CHUNK_BYTES = 512
_CHECKSUM_HEAD = b"crc\0" + struct.pack(">i", _CHUNK_BYTES)


def numbers(folder: Path, suffix: str = "") -> list[int]:
    """Return the numbers by which files of a folder are named; none if there is no folder.

    Raises:
        OSError: the folder can't be read.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208  `glob` takes a folder that can't be read for an empty one
    except FileNotFoundError:
        return []
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [int(stem) for stem in stems if stem.isdecimal()]


def last(folder: Path, suffix: str = "") -> int:
    """Return the highest of the numbers by which files are named; -1 if there are none."""
    return max(numbers(folder, suffix), default=-1)


def read_lines(file: Path) -> list[Any] | None:
    """Return the values of a file that has a version and then lines of JSON; None if it is missing or not whole."""
    if not is_as_written(file):
        return None
    try:
        version, *lines = file.read_bytes().decode().splitlines()
        values = [json.loads(line) for line in lines]
    except ValueError:
        return None
    # Spark's Kafka source writes a zero byte before the version of its initial offsets (SPARK-19517).
    return values if version.removeprefix("\0").startswith("v") and values else None


def is_as_written(file: Path) -> bool:
    """Return whether a file has a content that no checksum contradicts; a power cut may tear checksums, too."""
    try:
        content = file.read_bytes()
    except OSError:
        return False
    if not content:
        return False
    checksums = checksum_of(file)
    recorded = checksums.read_bytes() if checksums.is_file() else b""
    chunks = (content[at : at + _CHUNK_BYTES] for at in range(0, len(content), _CHUNK_BYTES))
    expected = _CHECKSUM_HEAD + b"".join(struct.pack(">I", zlib.crc32(one)) for one in chunks)
    return not recorded.startswith(_CHECKSUM_HEAD) or expected.startswith(recorded)


def checksum_of(file: Path) -> Path:
    """Return the file with the checksums of another."""
    return file.with_name(f".{file.name}.crc")


def remove(file: Path) -> None:
    """Remove a file, if it is there, and its checksums."""
    file.unlink(missing_ok=True)
    checksum_of(file).unlink(missing_ok=True)


def refusal(torn: Path) -> UserError:
    """Return the error for a file that a query needs to continue, and that can't be made again."""
    return UserError(
        f"A file of a checkpoint is missing or not whole ({torn}), and the query can't go on without it: restore "
        "checkpoints and tables from one backup, or start under a new runtime.root, which reads the log from its "
        "beginning."
    )
