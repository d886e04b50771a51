"""Spark's files in a query's checkpoint: read, checked, mended, and moved with their root.

Spark writes a file under another name and renames it, so a process that is killed leaves it whole or absent. It syncs
neither content nor name: after a power cut, the files that were written last may be empty, torn or missing. Hadoop
keeps checksums beside each file of a local disk, and may refuse a file for those that are torn.

- State: below ``state/0`` each state partition has a folder, with the changes of each batch (``<version>.changelog``)
  and some snapshots (``<version>.zip``, and the files that it names in ``SSTs``); a batch begins with the version of
  its number. ``_metadata/v2`` and ``_stateSchema`` describe the state. Spark reads a snapshot and the changes since. If
  the last snapshot is not whole, it takes the one before; if changes are not whole, the query fails at each start.
- The last Delta commit that a query has made to each of its tables, in a file of this program. Without its last commits
  a Delta table is a whole, older table, so a start compares. The file is written after the commits and before Spark
  records the batch, hence never ahead of the tables.
- Addresses: Spark's file source knows the files that it has read by them, so in another folder it would read every row
  again, and the description of the state has those of its schemas. They are rewritten after a root or a log of files
  was moved or restored; the log's id shows that it is the same log. All else has relative paths.
"""

import json
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec

from checkpoints.manifest import Basis
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
    expected, recorded = _checksums(file)
    return bool(expected) and (not recorded.startswith(_CHECKSUM_HEAD) or expected.startswith(recorded))


def remove_torn_checksums(folder: Path) -> None:
    """Remove the checksums that are torn beside a whole file: Hadoop may refuse the file for them."""
    for checksums in folder.glob(".*.crc"):
        expected, recorded = _checksums(folder / checksums.name.removeprefix(".").removesuffix(".crc"))
        if expected != recorded and expected.startswith(recorded):
            checksums.unlink(missing_ok=True)


def _checksums(file: Path) -> tuple[bytes, bytes]:
    """Return the checksums of a file's content as Hadoop writes them, and those beside it; empty for no content."""
    try:
        content = file.read_bytes()
    except OSError:
        return b"", b""
    checksums = checksum_of(file)
    chunks = (content[at : at + _CHUNK_BYTES] for at in range(0, len(content), _CHUNK_BYTES))
    expected = _CHECKSUM_HEAD + b"".join(struct.pack(">I", zlib.crc32(one)) for one in chunks)
    return expected if content else b"", checksums.read_bytes() if checksums.is_file() else b""


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


STATE = "state"
_SNAPSHOT, _CHANGES = ".zip", ".changelog"
_STORE = f"{STATE}/0"
DESCRIPTIONS = f"{_STORE}/_metadata/v2"


def version_of_state(checkpoint: Path) -> int:
    """Return the version of the state with which the next batch begins; 0 before the first."""
    return max(last(checkpoint / "offsets"), last(checkpoint / "commits") + 1)


def mend_state(checkpoint: Path) -> None:
    """Remove what a batch that was not recorded has left: it writes that again, and may be planned otherwise."""
    version = version_of_state(checkpoint)
    if version == 0:
        shutil.rmtree(checkpoint / STATE, ignore_errors=True)
    for number in numbers(checkpoint / DESCRIPTIONS):
        if number >= version:
            remove(checkpoint / DESCRIPTIONS / str(number))
    for kind in (_SNAPSHOT, _CHANGES):
        for file in checkpoint.glob(f"{_STORE}/[0-9]*/[0-9]*{kind}"):
            if file.stem.isdecimal() and int(file.stem) > version:
                remove(file)


def check_state(checkpoint: Path) -> None:
    """Check that the operator can continue from its state.

    Raises:
        UserError: it can't.
    """
    if (torn := torn_state(checkpoint)) is not None:
        raise UserError(
            f"A file of the operator's state is missing or not whole ({torn}): make the state again from the archive "
            "with `rebalance-watch rebuild`, then start again."
        )


def torn_state(checkpoint: Path) -> Path | None:
    """Return a file without which Spark can't read the operator's state; None: it is whole, or there is none yet."""
    version = version_of_state(checkpoint)
    if version == 0:
        return None
    description = checkpoint / DESCRIPTIONS / str(max(0, last(checkpoint / DESCRIPTIONS)))
    lines = read_lines(description)
    if lines is None:
        return description
    [store] = lines[0]["stateStoreInfo"]
    schemas = [Path(unquote(urlsplit(file).path)) for file in store["stateSchemaFilePaths"]]
    partitions = [checkpoint / _STORE / str(number) for number in range(store["numPartitions"])]
    lacking = [file for file in schemas if not is_as_written(file)]
    lacking += [file for partition in partitions if (file := _torn_changes(partition, version)) is not None]
    return lacking[0] if lacking else None


def _torn_changes(partition: Path, version: int) -> Path | None:
    """Return a file of changes that a partition lacks; None if it has all since its last snapshot that is whole."""
    snapshots, changes = numbers(partition, _SNAPSHOT), numbers(partition, _CHANGES)
    if partition.is_dir() and not snapshots and not changes and any(partition.iterdir()):
        return None  # files of another format, by the section [spark]: only Spark knows
    whole = (one for one in sorted(snapshots, reverse=True) if one <= version and _is_whole(partition, one))
    since = next(whole, 0)
    needed = (partition / f"{number}{_CHANGES}" for number in range(since + 1, version + 1))
    return next((file for file in needed if not is_as_written(file)), None)


def _is_whole(partition: Path, snapshot: int) -> bool:
    file = partition / f"{snapshot}{_SNAPSHOT}"
    if not is_as_written(file):
        return False
    try:
        with zipfile.ZipFile(file) as content:
            files = json.loads(content.read("metadata").splitlines()[1])["sstFiles"]
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError):
        return False
    names = {partition / "SSTs" / one["dfsSstFileName"]: one["sizeBytes"] for one in files}
    return all(is_as_written(file) and file.stat().st_size == size for file, size in names.items())


_FILES = "files "
"""The beginning of the source of a log of files; its folder follows."""
_ADDRESS = re.compile(r"(file:(?://)?)(/.*)")
_SCHEMA = re.compile(r'"(file:(?://)?)/[^"]*(/state/\d+/_stateSchema/[^"]*)"')
"""The address of a schema in a description: its scheme, and its path below the checkpoint."""
_LEGAL = "/_-!.~'()*,;:$&+=@"
"""Characters that java.net.URI leaves in a path as they are, beside letters, digits and what is not ASCII."""


def has_moved(kept: Basis, now: Basis) -> bool:
    """Return whether the log is the same one, of files, in another folder than before."""
    are_files = kept.source.startswith(_FILES) and now.source.startswith(_FILES)
    return are_files and kept.source != now.source and bool(kept.log.log) and kept.log.log == now.log.log


def follow(checkpoint: Path, kept: Basis, now: Basis) -> None:
    """Rewrite the addresses of the log's files in a query's checkpoint; what is rewritten already stays.

    Raises:
        UserError: a list of files is not whole, or has files of another folder.
    """
    former, folder = (_address(basis.source.removeprefix(_FILES)) for basis in (kept, now))
    for file in sorted((checkpoint / "sources" / "0").glob("[0-9]*")):
        if (entries := read_lines(file)) is None:
            raise refusal(file)
        version = file.read_bytes().partition(b"\n")[0].decode()
        lines = [version, *_moved(entries, former, folder, file)]
        checksum_of(file).unlink(missing_ok=True)  # before: without checksums a file counts as whole
        replace_atomically(file, "\n".join(lines).encode())


def follow_itself(checkpoint: Path) -> None:
    """Rewrite the addresses of the state's schemas in the descriptions of a query's state, if they are not here."""
    for number in numbers(checkpoint / DESCRIPTIONS):
        file = checkpoint / DESCRIPTIONS / str(number)
        if not is_as_written(file):
            continue  # whether it is needed is checked later
        text = file.read_text("utf-8")
        moved = _SCHEMA.sub(lambda found: f'"{found[1]}{_address(str(checkpoint.resolve()))}{found[2]}"', text)
        if moved != text:
            checksum_of(file).unlink(missing_ok=True)
            replace_atomically(file, moved.encode())


def _moved(entries: list[dict[str, object]], former: str, folder: str, file: Path) -> Iterator[str]:
    for entry in entries:
        found = _ADDRESS.fullmatch(str(entry["path"]))
        scheme, path = found.groups() if found else ("", "")
        base = next((one for one in (former, folder) if path.startswith(f"{one}/partition=")), None)
        if base is None:
            raise UserError(
                f"{file} has a file of another folder than that of the log ({entry['path']}): restore source.path, or "
                "start under a new runtime.root, which reads the log from its beginning."
            )
        moved = entry | {"path": f"{scheme}{folder}{path[len(base) :]}"}
        yield json.dumps(moved, ensure_ascii=False, separators=(",", ":"))


def _address(folder: str) -> str:
    """Return the path of a folder as it is in the addresses that Hadoop makes."""
    return "".join(letter if ord(letter) > ord("~") else quote(letter, safe=_LEGAL) for letter in folder)
