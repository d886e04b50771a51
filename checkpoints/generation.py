"""The generation of the checkpoints: the tables that they belong to, and the settings with which they may continue.

Delta skips an append whose (application id, version) it has. So a checkpoint that was reset would silently write
nothing under its old id, and duplicate every row under a new one. Therefore the checkpoints of a runtime root have one
generation; every table has it as a property, and every append has it in its application id. If these do not match, the
start is refused with a `UserError`.

`generation.json` beside the checkpoints also records the settings that the state was made with. The source, the
partition count and the number of state partitions never change; policy and code version may change between batches, not
within one: a batch must be finished with those with which it was started, or its rows would differ from those of an
uninterrupted run.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Field
from deltalake import Schema as DeltaSchema

from checkpoints.lease import Lease
from checkpoints.manifest import (
    MANIFEST,
    OPERATOR,
    POLICY,
    PROPERTY,
    QUERY_TABLES,
    Basis,
    Manifest,
    Swap,
    app_id,
    decode_manifest,
    read_manifest,
    required_manifest,
    write_manifest,
)
from checkpoints.position import last_batch, mend, unfinished_batch
from checkpoints.spark_files import follow, follow_itself, has_moved, last_commits, mend_state
from schemas.arrow import arrow_schema
from schemas.meanings import meaning_of, meanings_of
from schemas.tables import PARTITIONED_BY, TABLES
from streaming.base.durable import torn_file
from streaming.base.errors import UserError
from streaming.base.place import ObjectPlace, Place
from streaming.log.identity import LogId
from streaming.tables.delta import answered, check_commits, check_writable, create_at, delta_at, folder_of, is_delta_at
from streaming.tables.folder import folder_at
from streaming.tables.versions import keep_versions, version_properties

_CHECKPOINT_INTERVAL = {"delta.checkpointInterval": "20"}
"""Commits between two checkpoints of the Delta log. Who opens a table reads the commits since the last checkpoint: with
delta-rs's default of 100 a table of 370 files takes four times as long to open, and a commit 1.6 times as long."""


@contextmanager
def claimed(
    checkpoints: Path,
    tables: Place,
    basis: Basis,
    lease: Lease | None = None,
    queries: Place | None = None,
    *,
    versions_days: int | None = None,
) -> Iterator[str]:
    """Claim checkpoints and tables for one run, creating them if there are none; yield their generation.

    Without ``lease`` one is taken for the time of the block. ``queries``: where the queries' own checkpoints are; None:
    in the folder of the checkpoints. ``versions_days``: for how many days former versions of the tables can be read;
    None: as their properties say.

    Raises:
        UserError: another run holds them, or they do not belong together or to this basis.
    """
    with nullcontext(lease) if lease else Lease.acquire(checkpoints):
        complete_swap(checkpoints, tables)
        queries = queries or checkpoints
        if queries == checkpoints:
            follow_itself(checkpoints / OPERATOR)
            _mend(checkpoints, tables)
        former = verify(checkpoints, tables, queries)
        if former is not None:
            moved = queries == checkpoints and has_moved(former.basis, basis)
            _check_basis(former.basis, queries, basis, moved=moved)
            for query in QUERY_TABLES if moved else ():
                follow(checkpoints / query, former.basis, basis)
            basis = msgspec.structs.replace(basis, log=basis.log.completed_by(former.basis.log))
            if queries == checkpoints:
                mend_state(checkpoints / OPERATOR)  # only now: a start that is refused removes nothing of the state
        check_commits(tables)
        former = former or Manifest(secrets.token_hex(8), basis)
        existing = _tables_in(tables)
        for table in TABLES:
            if table in existing:
                bring_up_to_date(existing[table], table)
                if versions_days is not None:
                    with answered(tables / table):
                        keep_versions(existing[table], versions_days)
            else:
                _create(tables / table, table, former.generation, versions_days)
        manifest = msgspec.structs.replace(former, basis=basis, tables=tuple(TABLES))
        if isinstance(queries, ObjectPlace):
            folder_at(queries).write(MANIFEST, msgspec.json.encode(manifest))
        write_manifest(checkpoints, manifest)
        yield former.generation


def verify(checkpoints: Path, tables: Place, queries: Place | None = None) -> Manifest | None:
    """Return the checkpoints' manifest; None if there are neither checkpoints nor tables. Changes nothing.

    If the queries' checkpoints are elsewhere, the manifest beside them counts: this machine's is only a copy of it.

    Raises:
        UserError: checkpoints and tables do not belong together.
    """
    queries = queries or checkpoints
    existing = _tables_in(tables)
    manifest = _manifest_at(queries) if isinstance(queries, ObjectPlace) else read_manifest(checkpoints)
    if manifest is not None and manifest.swap is not None:
        return manifest  # the next start completes it, and checks then
    if manifest is None:
        _check_nothing_is_there(queries, existing)
    else:
        _check_tables(manifest, queries, existing)
    return manifest


def check_state_version(kept: Basis, checkpoints: Place, version: int) -> None:
    """Check that this release can continue from the version of the state beside the checkpoints.

    Raises:
        UserError: it was made by a newer or an older release.
    """
    if kept.state_version < version:
        raise UserError(
            f"The state in {checkpoints} was made by the older release {kept.code_version} and has version "
            f"{kept.state_version}, this release has {version}: make it again from the archive with "
            "`rebalance-watch rebuild`, or start that release again."
        )
    _check_not_newer(kept, checkpoints, version)


def check_log(source: str, kept: LogId, now: LogId | None) -> None:
    """Check that a log is the one whose offsets the checkpoints have.

    ``kept`` are its ids when it was first read, ``now`` those of now; None: it is gone.

    Raises:
        UserError: it is another one, or gone.
    """
    if now is None:
        raise UserError(
            f"The log ({source}) that the checkpoints were made with is gone: restore it, or start under a new "
            "runtime.root."
        )
    if kept.is_other(now):
        raise UserError(
            f"This log ({source}) is not the one that the checkpoints were made with: it was created again, or is in "
            "another cluster, and its rows would be skipped or mixed with the former ones. Correct the setting source, "
            "or start under a new runtime.root, which reads this log from its beginning."
        )


def check_rebuild(kept: Basis, checkpoints: Place, version: int) -> None:
    """Check that this release can make the state again from the archive.

    Raises:
        UserError: the state was made by a newer release, or a batch must be finished by the older one that started it.
    """
    _check_not_newer(kept, checkpoints, version)
    batch = unfinished_batch(checkpoints / OPERATOR)
    if kept.state_version < version and batch is not None:
        raise UserError(
            f"Batch {batch} was started by version {kept.code_version}: finish it with `rebalance-watch run "
            "--available-now` of that version, then rebuild with this one."
        )


def decide_swap(checkpoints: Path, swap: Swap) -> None:
    """Record that rows of tables will be replaced; `complete_swap` must run before any batch."""
    write_manifest(checkpoints, msgspec.structs.replace(required_manifest(checkpoints), swap=swap))


def complete_swap(checkpoints: Path, tables: Place) -> None:
    """Complete a swap that was decided but not finished, for example after a crash."""
    manifest = read_manifest(checkpoints)
    if manifest is None or manifest.swap is None:
        return
    from checkpoints.swap import apply

    swap = manifest.swap
    apply(swap, checkpoints, tables)
    swapped = manifest.swapped | dict.fromkeys([*swap.tables, *swap.repeated_until], swap.swap_id)
    swapped_in = msgspec.structs.replace(
        manifest, basis=swap.basis or manifest.basis, seed=swap.seed, swapped=swapped, swap=None,
        repeated_until=manifest.repeated_until | swap.repeated_until,
    )  # fmt: skip
    write_manifest(checkpoints, swapped_in)


def _mend(checkpoints: Path, tables: Place) -> None:
    manifest = read_manifest(checkpoints)
    if manifest is None:
        return
    for query in QUERY_TABLES:
        mend(checkpoints / query, partial(_written, manifest, tables, query))


def _written(manifest: Manifest, tables: Place, query: str) -> int:
    """Return the last batch of a query of which a table has rows; -1 if none has."""
    there = {name: delta_at(tables / name) for name in QUERY_TABLES[query] if is_delta_at(tables / name)}
    batches = (_batch_in(table, manifest, query, name) for name, table in there.items())
    return max((batch for batch in batches if batch is not None), default=-1)


def _batch_in(table: DeltaTable, manifest: Manifest, query: str, name: str) -> int | None:
    """Return the last batch of a query that a table has; None before the first."""
    return table.transaction_version(app_id(query, name, manifest.generation, manifest.swapped.get(name, "")))


def _manifest_at(queries: ObjectPlace) -> Manifest | None:
    try:
        content = folder_at(queries).read(MANIFEST)
    except FileNotFoundError:
        return None
    return decode_manifest(content, queries / MANIFEST)


def _tables_in(tables: Place) -> dict[str, DeltaTable]:
    return {table: delta_at(tables / table) for table in TABLES if is_delta_at(tables / table)}


def _check_nothing_is_there(checkpoints: Place, existing: Mapping[str, DeltaTable]) -> None:
    begun = next((query for query in QUERY_TABLES if last_batch(checkpoints / query) is not None), None)
    if existing or begun is not None:
        what = f"the table {next(iter(existing))}" if existing else f"the checkpoint of the {begun} query"
        raise UserError(
            f"There is {what} but no {checkpoints / MANIFEST}, so the position is unknown: start under a new "
            f"runtime.root, which reads the log from its beginning, or remove both {checkpoints} and the tables."
        )


def _check_tables(manifest: Manifest, checkpoints: Place, existing: Mapping[str, DeltaTable]) -> None:
    """Check that the tables were written by these checkpoints, and contain no batch after the checkpoints' last one."""
    remedy = "restore checkpoints and tables from one backup, or start under a new runtime.root"
    for name, table in existing.items():
        check_writable(table)
        folder = folder_of(table)
        if folder is not None and (torn := torn_file(folder)) is not None:
            raise UserError(
                f"A file of the table {name} is not whole ({torn}), as after a power cut: restore tables and "
                "checkpoints from one backup, or start under a new runtime.root."
            )
    for query, tables in QUERY_TABLES.items():
        begun = last_batch(checkpoints / query)
        for name in tables:
            if name not in existing:
                if begun is not None and name in manifest.tables:
                    raise UserError(f"The table {name} is missing, but the checkpoint is past its rows: {remedy}.")
                continue
            if existing[name].metadata().configuration.get(PROPERTY) != manifest.generation:
                raise UserError(f"The table {name} belongs to other checkpoints than {checkpoints}: {remedy}.")
            written = _batch_in(existing[name], manifest, query, name)
            if written is not None and (begun is None or written > begun):
                raise UserError(
                    f"The table {name} has batch {written} of the {query} query, but its checkpoint was reset to an "
                    f"earlier one, so new rows would silently be skipped: {remedy}."
                )
        _check_commits_are_there(checkpoints / query, existing)


def _check_commits_are_there(checkpoint: Place, existing: Mapping[str, DeltaTable]) -> None:
    noted = last_commits(checkpoint) if isinstance(checkpoint, Path) else {}
    for name, commit in noted.items():
        if name in existing and existing[name].version() < commit:
            raise UserError(
                f"The table {name} ends with commit {existing[name].version()}, but the {checkpoint.name} query has "
                f"made commit {commit}, so rows are gone: restore tables and checkpoints from one backup, or start "
                "under a new runtime.root."
            )


def _check_not_newer(kept: Basis, checkpoints: Place, version: int) -> None:
    if kept.state_version > version:
        raise UserError(
            f"The state in {checkpoints} was made by the newer release {kept.code_version} and has version "
            f"{kept.state_version}, this release has {version}: start that release again, go back with its "
            "`rebalance-watch rebuild --undo` if a rebuild made the state, or start this release under a new "
            "runtime.root."
        )


def _check_basis(kept: Basis, checkpoints: Place, basis: Basis, *, moved: bool) -> None:
    check_state_version(kept, checkpoints, basis.state_version)
    for name, setting in (
        ("source", "source"),
        ("partitions", "source.partitions"),
        ("state_partitions", "job.state_partitions"),
    ):
        before, now = getattr(kept, name), getattr(basis, name)
        if before != now and not (moved and name == "source"):
            raise UserError(
                f"The checkpoints in {checkpoints} were made with {setting} = {before}, not {now}: restore it, or "
                "start under a new runtime.root, which reads the log from its beginning."
            )
    check_log(basis.source, kept.log, basis.log)
    batch = unfinished_batch(checkpoints / OPERATOR)
    if batch is None:
        return
    if kept.policy != basis.policy:
        raise UserError(
            f"Batch {batch} was started under another policy: finish it with `rebalance-watch run --available-now "
            f"--policy {checkpoints / POLICY}`, then start with the new one."
        )
    if kept.code_version != basis.code_version:
        raise UserError(
            f"Batch {batch} was started by version {kept.code_version}, this is {basis.code_version}: finish it with "
            "`rebalance-watch run --available-now` of that version, then start this one."
        )


def _create(path: Place, table: str, generation: str, versions_days: int | None) -> None:
    kept = version_properties(versions_days) if versions_days is not None else {}
    create_at(
        path,
        schema=commented_schema(table),
        description=meaning_of(table),
        partition_by=list(PARTITIONED_BY.get(table, ())),
        configuration={PROPERTY: generation, **kept, **_CHECKPOINT_INTERVAL},
        raise_if_key_not_exists=False,
    )


_COMMENT = "comment"


def commented_schema(table: str) -> pa.Schema:
    """Return the schema with which a table is created.

    Raises:
        KeyError: the table does not exist.
    """
    comments = meanings_of(table)
    return pa.schema([field.with_metadata({_COMMENT: comments[field.name]}) for field in arrow_schema(table)])


def bring_up_to_date(delta: DeltaTable, table: str) -> None:
    """Add the columns and comments that a table of an older release lacks; existing rows have null in new columns.

    No data is written: all of it is one commit, two with another description, and one more for each comment that was
    another one.

    Raises:
        UserError: a column has another type than in this release.
    """
    existing = {field.name: field for field in delta.schema().fields}
    lacking, changed = [], []
    for field in DeltaSchema.from_arrow(commented_schema(table)).fields:
        old = existing.get(field.name)
        if old is None:
            lacking.append(Field(field.name, field.type, nullable=True, metadata=field.metadata))
        elif old.type != field.type:
            raise UserError(
                f"The table {table} was made by another release: its column {field.name} has another type. Start that "
                "release again, or this one under a new runtime.root, which reads the log from its beginning."
            )
        elif _COMMENT not in old.metadata:
            metadata = {**old.metadata, **field.metadata}
            lacking.append(Field(field.name, old.type, nullable=old.nullable, metadata=metadata))
        elif old.metadata[_COMMENT] != field.metadata[_COMMENT]:
            changed.append(field)
    if lacking:
        delta.alter.add_columns(lacking)
    for field in changed:
        delta.alter.set_column_metadata(field.name, {**existing[field.name].metadata, **field.metadata})
    if delta.metadata().description != meaning_of(table):
        delta.alter.set_table_description(meaning_of(table))
