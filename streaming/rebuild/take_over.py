"""The swap: by whoever holds the checkpoints, while no query runs."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from checkpoints.generation import (
    ARCHIVE,
    OPERATOR,
    Swap,
    complete_swap,
    decide_swap,
    read_manifest,
    replace,
)
from checkpoints.position import position_of_query
from checkpoints.swap import copy_rows, copy_tree
from rebalance_model.observe.progress import KEY
from rebalance_model.observe.state import STATE_VERSION, decode_group, encode_group
from schemas.tables import DERIVED
from streaming.errors import UserError
from streaming.read_model import ReadModel
from streaming.rebuild.archived import Partition
from streaming.rebuild.build import checked
from streaming.rebuild.folder import MANIFEST, Folder, Ready
from streaming.rebuild.rows import REBUILT, GroupKey, RowFiles
from streaming.rebuild.seed import Seed, read_seed, write_seed

_LOG = structlog.get_logger(__name__)
_PROGRESS = KEY.format("")


def take_over(checkpoints: Path, tables: Path, archive_to_end: Callable[[], None]) -> None:
    """Swap in the rebuild that waits, if there is one; one that can't be is given up, and what was stays.

    Args:
        checkpoints: held by the caller; no query runs.
        tables: the tables.
        archive_to_end: runs the archive's query until the log ends.
    """
    folder = Folder(checkpoints)
    ready = folder.ready()
    if ready is None:
        return
    try:
        _prepare(folder, ready, checkpoints, tables, archive_to_end)
    except Exception as error:  # noqa: BLE001  whatever it is, the job is to go on as it was
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        _LOG.warning("the rebuild was not swapped in", why=why)
        folder.fail(ready.rebuild_id, why)
        return
    complete_swap(checkpoints, tables)
    folder.withdraw()


def undo(checkpoints: Path, tables: Path) -> None:
    """Put back what was before the last rebuild's swap; the caller holds the checkpoints, and no query runs.

    Raises:
        UserError: there is nothing to put back.
    """
    folder, manifest = Folder(checkpoints), checked(checkpoints)
    before = folder.before(manifest.seed) if manifest.seed else None
    if before is None or not (before / MANIFEST).is_file():
        raise UserError("There is nothing to undo: these tables are not those of a rebuild, or it was undone before.")
    was = folder.manifest_before(manifest.seed)
    relative = before.relative_to(checkpoints)
    swap = Swap(f"{manifest.seed}-undone", tuple(DERIVED), str(relative / "tables"), was.seed, str(relative / OPERATOR))
    decide_swap(checkpoints, swap)
    complete_swap(checkpoints, tables)


def _prepare(folder: Folder, ready: Ready, checkpoints: Path, tables: Path, archive_to_end: Callable[[], None]) -> None:
    """Fold the rest, keep what is, and decide."""
    if ready.state_version != STATE_VERSION:
        raise UserError("It was made by another release: rebuild again with this one.")
    until = position_of_query(checkpoints / OPERATOR)
    if _is_behind(checkpoints, until):
        archive_to_end()
    if _is_behind(checkpoints, until):
        raise UserError("The archive does not have all that the operator has read: see why its query fails.")
    rebuild_id, last_seq = ready.rebuild_id, {(cluster, group): seq for cluster, group, seq in ready.last_seq}
    for left in folder.rows(rebuild_id).glob("*/rest-*.parquet"):
        left.unlink()  # of an attempt that was cut off
    rows = RowFiles(folder.rows(rebuild_id), "rest", last_seq)
    with ReadModel(tables) as model:
        for number, offset in until.items():
            found = read_seed(folder.shards(rebuild_id), number)
            shard = Partition(number, ready.policy, found)
            for effects in shard.go_on(model, offset):
                rows.add(effects)
            saved = shard.save()
            groups = {
                key: blob if key.startswith(_PROGRESS) else _shifted(blob, last_seq)
                for key, blob in shard.groups.items()
            }
            write_seed(folder.seeds(rebuild_id), number, Seed(offset, saved, groups))
    rows.close()
    _keep_what_is(folder.before(rebuild_id), checkpoints, tables)
    swap_rows = folder.rows(rebuild_id).relative_to(checkpoints)
    decide_swap(checkpoints, Swap(rebuild_id, REBUILT, str(swap_rows), rebuild_id))


def _is_behind(checkpoints: Path, until: dict[int, int]) -> bool:
    archived = position_of_query(checkpoints / ARCHIVE)
    return any(archived.get(number, 0) < offset for number, offset in until.items())


def _shifted(blob: bytes, last_seq: dict[GroupKey, int]) -> bytes:
    """The group's state, its rows counted as they were written (`RowFiles`)."""
    group = decode_group(blob)
    group.rows += last_seq.get((group.cluster, group.group), 0)
    return encode_group(group)


def _keep_what_is(before: Path, checkpoints: Path, tables: Path) -> None:
    manifest = read_manifest(checkpoints)
    assert manifest is not None  # noqa: S101  `checked`
    copy_rows(tables, before / "tables", DERIVED)
    copy_tree(checkpoints / OPERATOR, before / OPERATOR)
    replace(before / MANIFEST, msgspec.json.encode(manifest))
