"""The files of the operator's state in its checkpoint: whether Spark can read the state that the next batch needs.

Below ``state/0`` each state partition has a folder, with the changes of each batch (``<version>.changelog``) and now
and then a snapshot (``<version>.zip``, and the files that it names in ``SSTs``); the version with which a batch begins
is its number. ``_metadata/v2`` and ``_stateSchema`` describe the state. Spark reads a snapshot and the changes since.
If the last snapshot is not whole, it takes the one before; if changes are not whole, the query fails at each start.
"""

import json
import shutil
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from checkpoints.spark_files import is_as_written, last, numbers, read_lines, remove
from streaming.base.errors import UserError

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
    """Check that the operator can go on from its state.

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
