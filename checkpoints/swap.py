"""Replace rows of tables, and the state that belongs to them: after a rebuild, or to undo one.

A swap is decided when it is written to ``generation.json``. The process that holds the checkpoints then carries it out,
now or at the next start: each step can be repeated. Each table gets one Delta commit, which removes all its files and
adds the new ones. So a reader sees the old or the new rows of a table, the table keeps its folder and its id, and a
long-lived reader continues.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from checkpoints.manifest import OPERATOR, SWAP_MARK, Swap
from schemas.arrow import arrow_schema
from schemas.tables import PARTITIONED_BY
from streaming.base.durable import sync, sync_commits
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.base.times import now_ms
from streaming.tables.database import connected
from streaming.tables.delta import answered, check_writable, delta_at, folder_of
from streaming.tables.files import files_of
from streaming.tables.folder import TableFolder, folder_at
from streaming.tables.maintenance import MARK, stats_of
from streaming.tables.versions import USER_METADATA, named, set_properties

_TRIES = 5


def apply(swap: Swap, checkpoints: Path, tables: Place) -> None:
    """Carry out a decided swap; completed steps are skipped.

    Raises:
        UserError: another process keeps rewriting a table; or the object store does not answer.
    """
    if swap.operator:
        copy_tree(checkpoints / swap.operator, checkpoints / OPERATOR)
    for table in swap.tables:
        _replace_rows(tables / table, table, checkpoints / swap.rows / table, swap)
        _note_swap(tables / table, swap.swap_id)


def copy_tree(source: Path, target: Path) -> None:
    """Replace a folder by a copy of another."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    sync(*target.rglob("*"), target, target.parent)


def copy_rows(tables: Place, target: Path, names: Iterable[str]) -> None:
    """Keep the current rows of tables by links to their files.

    Raises:
        UserError: the object store does not answer.
    """
    shutil.rmtree(target, ignore_errors=True)
    for name in names:
        folder, there = folder_at(tables / name), delta_at(tables / name)
        with answered(tables / name):
            files = files_of(name, there)
        folder.fetch(files)
        for file in files:
            copy = target / name / unquote(file.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            _link(str(folder.path / unquote(file.path)), str(copy))


def _replace_rows(place: Place, table: str, rows: Path, swap: Swap) -> None:
    """Replace all rows in one commit that removes files and adds some: a stream of appends ends at such a one only.

    A file without rows stands for none, before or after: a commit that only added or removed would not be noticed.
    """
    swap_id = swap.swap_id
    for _ in range(_TRIES):
        target = delta_at(place)
        check_writable(target)
        with answered(place):
            if target.transaction_version(swap_id) is not None:
                return
            former = files_of(table, target)
        if not former:
            _add_empty_file(place, target, table, swap)
            continue
        added = list(_added(folder_at(place), table, rows, swap_id)) or [_empty_file(place, table, f"{swap_id}-to")]
        names = PARTITIONED_BY.get(table, ())
        removed = [
            RemoveAction(file.path, True, now_ms(), file.size, dict(zip(names, file.partition, strict=True)))  # noqa: FBT003  delta-rs's order
            for file in former
        ]
        before, local = target.version(), folder_of(target)
        if local is not None:
            files = [local / unquote(action.path) for action in added]
            sync(*files, *(file.parent for file in files), local)
        with answered(place):
            if not _commit(target, [*added, *removed], names, swap):
                continue
        if local is not None:
            sync_commits(local, before)
        return
    raise UserError(
        f"The table {table} is being rewritten by another process: stop `rebalance-watch maintain`, then try again."
    )


def _note_swap(place: Place, swap_id: str) -> None:
    """Let the table's properties name its last swap, so that programs that copied rows see that they changed."""
    there = delta_at(place)
    with answered(place):
        set_properties(there, {SWAP_MARK: swap_id}, raise_if_not_exists=False)


def _add_empty_file(place: Place, target: DeltaTable, table: str, swap: Swap) -> None:
    """Add a file without rows to a table that has no files, which changes no row."""
    empty = _empty_file(place, table, f"{swap.swap_id}-from", data_change=False)
    what = named(swap.operation, "a file without rows, for the commit that replaces all rows")
    with answered(place), suppress(CommitFailedError):
        target.create_write_transaction(
            [empty], mode="append", schema=target.schema(), partition_by=[],
            commit_properties=CommitProperties(custom_metadata={MARK: "true", USER_METADATA: what}),
        )  # fmt: skip


def _empty_file(place: Place, table: str, name: str, *, data_change: bool = True) -> AddAction:
    folder, file = folder_at(place), f"part-{name}.zstd.parquet"
    path = folder.path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow_schema(table).empty_table(), path, compression="zstd")
    sync(path, path.parent)
    folder.publish(Path(file))
    return AddAction(file, path.stat().st_size, {}, now_ms(), data_change, json.dumps({"numRecords": 0}))


def _commit(target: DeltaTable, actions: list[AddAction | RemoveAction], names: Sequence[str], swap: Swap) -> bool:
    """Commit a swap to a table with these columns of partitions; return False if another process was faster."""
    what = named(swap.operation, "all rows were replaced")
    marks = CommitProperties(
        custom_metadata={MARK: "true", SWAP_MARK: swap.swap_id, USER_METADATA: what},
        app_transactions=[Transaction(swap.swap_id, 1)],
    )
    try:
        target.create_write_transaction(
            actions, mode="append", schema=target.schema(), partition_by=list(names), commit_properties=marks
        )
    except CommitFailedError:  # as by `maintain`
        return False
    return True


def _added(folder: TableFolder, table: str, rows: Path, swap_id: str) -> Iterator[AddAction]:
    """Link the files into the table's folder; no reader sees them before the commit."""
    with connected(folder.path) as database:
        for number, file in enumerate(sorted(rows.glob("**/*.parquet"))):
            parent = file.relative_to(rows).parent
            target = folder.path / parent / f"part-{number:05d}-{swap_id}.zstd.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            _link(str(file), str(target))
            folder.publish(parent / target.name)
            partition = dict(part.split("=", 1) for part in parent.parts)
            stats = json.dumps(stats_of(database, table, target))
            path = (parent / target.name).as_posix()
            yield AddAction(path, target.stat().st_size, partition, now_ms(), True, stats)  # noqa: FBT003  delta-rs's order


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)
