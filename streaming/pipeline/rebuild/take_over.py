"""Swap in a rebuild, in the process that holds the checkpoints, while no query runs."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import msgspec
import structlog

from checkpoints.generation import complete_swap, decide_swap
from checkpoints.manifest import ARCHIVE, OPERATOR, Basis, Swap, required_manifest
from checkpoints.position import position_of_query
from checkpoints.spark_files import torn_state
from checkpoints.swap import copy_rows, copy_tree
from rebalance_model.observe.group_store import KEY_PREFIX
from rebalance_model.observe.state import STATE_VERSION, decode_group, encode_group
from schemas.contract import CommitKind, Operation, tables_of
from schemas.tables import DERIVED
from streaming.base.errors import UserError
from streaming.base.files import replace_atomically
from streaming.base.place import Place
from streaming.pipeline.rebuild.build import ArchivedPartition, require_manifest
from streaming.pipeline.rebuild.folder import MANIFEST, Folder, Ready, Seed, read_seed, write_seed
from streaming.pipeline.rebuild.rows import REBUILT, GroupKey, RowFiles, without_dropped
from streaming.tables import ReadModel
from streaming.tables.delta import delta_at
from streaming.tables.files import files_of

UNDONE = tables_of(Operation.UNDO, CommitKind.REPLACE)
"""The tables whose rows from before a rebuild are kept, and restored when it is undone."""
_LOG = structlog.get_logger(__name__)


def take_over(
    checkpoints: Path, tables: Place, archive_to_end: Callable[[], None], empty_state: Callable[[Path], None]
) -> None:
    """Swap in the rebuild that is ready, if there is one; if that fails, drop it and keep the current rows.

    The caller holds the checkpoints, and no query runs. ``archive_to_end`` runs the archive's query to the end of the
    log; ``empty_state`` empties the state in a copy of the operator's checkpoint.
    """
    folder = Folder(checkpoints)
    ready = folder.ready()
    if ready is None:
        return
    try:
        _prepare(folder, ready, checkpoints, tables, archive_to_end)
        operator = _with_empty_state(folder.operator(ready.rebuild_id), checkpoints, empty_state)
        rows, basis = folder.rows(ready.rebuild_id).relative_to(checkpoints), _basis(checkpoints)
        decide_swap(checkpoints, Swap(ready.rebuild_id, REBUILT, str(rows), ready.rebuild_id, operator, basis))
    except Exception as error:  # noqa: BLE001  the job must continue as before after any error
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        _LOG.warning("the rebuild was not swapped in", why=why)
        folder.fail(ready.rebuild_id, why)
        return
    complete_swap(checkpoints, tables)
    folder.withdraw()


def undo(checkpoints: Path, tables: Place) -> None:
    """Restore the rows from before the last rebuild's swap; the caller holds the checkpoints, and no query runs.

    Raises:
        UserError: there is nothing to restore.
    """
    folder, manifest = Folder(checkpoints), require_manifest(checkpoints)
    before = folder.before(manifest.seed) if manifest.seed else None
    if before is None or not (before / MANIFEST).is_file():
        raise UserError("There is nothing to undo: the tables are not from a rebuild, or it is already undone.")
    was = folder.manifest_before(manifest.seed)
    rows = without_dropped(before / "tables", tables)
    swap = Swap(
        f"{manifest.seed}-undone", UNDONE, str(rows.relative_to(checkpoints)), was.seed,
        str((before / OPERATOR).relative_to(checkpoints)), was.basis, Operation.UNDO, _newest_of_others(tables),
    )  # fmt: skip
    decide_swap(checkpoints, swap)
    complete_swap(checkpoints, tables)


def _newest_of_others(tables: Place) -> dict[str, int]:
    """Return the time of the newest row of each derived table that keeps its rows when a rebuild is undone.

    The operator then reads the log again from the rebuild on, so it makes these rows a second time.
    """
    others = set(DERIVED).difference(UNDONE)
    files = {table: files_of(table, delta_at(tables / table)) for table in others}
    return {table: max(file.ends for file in of) for table, of in files.items() if of}


def _prepare(
    folder: Folder, ready: Ready, checkpoints: Path, tables: Place, archive_to_end: Callable[[], None]
) -> None:
    if ready.state_version != STATE_VERSION:
        raise UserError("It was made by another release: run `rebalance-watch rebuild` again with this one.")
    require_manifest(checkpoints)
    until = position_of_query(checkpoints / OPERATOR)
    if _is_behind(checkpoints, until):
        archive_to_end()
    if _is_behind(checkpoints, until):
        raise UserError("The archive lacks rows that the operator has read: check why the archive query fails.")
    rebuild_id, last_seq = ready.rebuild_id, {(cluster, group): seq for cluster, group, seq in ready.last_seq}
    for left in folder.rows(rebuild_id).glob("*/rest-*.parquet"):
        left.unlink()  # left by an interrupted attempt
    rows = RowFiles(folder.rows(rebuild_id), "rest", last_seq)
    with ReadModel(tables) as model:
        for number, offset in until.items():
            found = read_seed(folder.shards(rebuild_id), number)
            shard = ArchivedPartition(number, ready.policy, found)
            for effects in shard.go_on(model, offset):
                rows.add(effects)
            saved = shard.save()
            groups = {
                key: blob if key.startswith(KEY_PREFIX) else _shifted(blob, last_seq)
                for key, blob in shard.groups.items()
            }
            write_seed(folder.seeds(rebuild_id), number, Seed(offset, saved, groups))
    rows.close()
    _keep_what_is(folder.before(rebuild_id), checkpoints, tables)


def _with_empty_state(copy: Path, checkpoints: Path, empty_state: Callable[[Path], None]) -> str:
    """Make a copy of the operator's checkpoint, without a state that can't be read; return it, or "" if it can.

    What another version has written may have another form in Spark's store, too.
    """
    is_of_this_version = require_manifest(checkpoints).basis.state_version == STATE_VERSION
    if is_of_this_version and torn_state(checkpoints / OPERATOR) is None:
        return ""
    copy_tree(checkpoints / OPERATOR, copy)
    empty_state(copy)
    return str(copy.relative_to(checkpoints))


def _basis(checkpoints: Path) -> Basis:
    basis = require_manifest(checkpoints).basis
    if basis.state_version == STATE_VERSION:
        return basis
    return msgspec.structs.replace(basis, state_version=STATE_VERSION, code_version=version("rebalance-watch"))


def _is_behind(checkpoints: Path, until: dict[int, int]) -> bool:
    archived = position_of_query(checkpoints / ARCHIVE)
    return any(archived.get(number, 0) < offset for number, offset in until.items())


def _shifted(blob: bytes, last_seq: dict[GroupKey, int]) -> bytes:
    """Return the group's state with its row counter continued as in the written rows (`RowFiles`)."""
    group = decode_group(blob)
    group.rows += last_seq.get((group.cluster, group.group), 0)
    return encode_group(group)


def _keep_what_is(before: Path, checkpoints: Path, tables: Place) -> None:
    copy_rows(tables, before / "tables", UNDONE)
    copy_tree(checkpoints / OPERATOR, before / OPERATOR)
    replace_atomically(before / MANIFEST, msgspec.json.encode(required_manifest(checkpoints)))
