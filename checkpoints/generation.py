"""The generation of the checkpoints: which tables they belong to, and what they must be continued with.

Delta skips an append whose (application id, version) it has. So a checkpoint that was reset would silently write
nothing under its old id, and double every row under a new one. Therefore the checkpoints of a runtime root have one
generation, every table carries it as a property and every append in its application id; a start where these do not
fit is refused with a sentence.

`generation.json` beside the checkpoints also keeps what the state was made with. The source, the partition count and
the number of state partitions are for ever; policy and code version may change between batches, not within one: a
batch that was begun is finished under its own, or its rows would not be those of a run that was not interrupted.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from rebalance_model.observe.policy import Policy
from schemas.arrow import arrow_schema
from schemas.tables import DERIVED, PARTITIONED_BY, TABLES
from streaming.errors import UserError

PROPERTY = "rebalance_watch.generation"
SWAP_MARK = "rebalance_watch.swap"
"""Marks the commits of a swap in the tables' history: their rows are all that the table has from then on."""
OPERATOR = "operator"
ARCHIVE = "archive"
QUERY_TABLES: Mapping[str, tuple[str, ...]] = {
    OPERATOR: tuple(DERIVED),
    ARCHIVE: ("telemetry", "telemetry_rejected", "quality_results"),
}
"""Which tables each query appends to. A query's checkpoint is the folder of its name. The alerts' are no query's."""

_LOG_KEPT = dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), "interval 1 days")
"""A commit a second makes 2.6 million of the log's files within Delta's own 30 days, and each append reads the
list of them. Nobody asks for an older version: the past is in the rows."""
_MANIFEST = "generation.json"
_POLICY = "policy.toml"


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What the state rests on: with another basis the same log leads to other rows."""

    source: str
    partitions: int
    state_partitions: int
    code_version: str
    policy: Policy
    state_version: int = 1
    """Of the operator's state; manifests from before version 2 do not say it."""


class Swap(msgspec.Struct, frozen=True):
    """Other rows for tables, and the state that goes with them; paths are relative to the checkpoints."""

    swap_id: str
    tables: tuple[str, ...]
    """In this order; the others stay."""
    rows: str
    """Has a folder for each table, with its Parquet files."""
    seed: str
    """The id of the rebuild whose state the operator takes; empty: that of its checkpoint."""
    operator: str = ""
    """A copy of the operator's checkpoint that takes its place; empty: it stays."""


class Manifest(msgspec.Struct, frozen=True):
    """What `generation.json` holds."""

    generation: str
    basis: Basis
    tables: tuple[str, ...] = tuple(TABLES)
    """Which tables there were: one that a later release adds is made, not missed."""
    seed: str = ""
    """The rebuild whose state the operator goes on from; empty: its checkpoint's own."""
    swapped: dict[str, str] = {}
    """By table, the swap that last put other rows into it."""
    swap: Swap | None = None
    """What has been decided, and is not known to be done."""


def app_id(query: str, table: str, generation: str, swap_id: str = "") -> str:
    """Delta's application id of a query's appends to a table.

    After a swap (`Manifest.swapped`) it is another one: a batch that had been begun appends its rows anew.
    """
    return f"{query}/{table}/{generation}" + (f"/{swap_id}" if swap_id else "")


@contextmanager
def claimed(checkpoints: Path, tables: Path, basis: Basis) -> Iterator[str]:
    """Hold the checkpoints and tables for one run, made if there are none; yields their generation.

    Raises:
        UserError: another run holds them, or they do not belong together or to this basis.
    """
    checkpoints.mkdir(parents=True, exist_ok=True)
    with _locked(checkpoints):
        complete_swap(checkpoints, tables)
        found = verify(checkpoints, tables)
        if found is not None:
            _check_basis(found.basis, checkpoints, basis)
        found = found or Manifest(secrets.token_hex(8), basis)
        there = _tables_in(tables)
        for table in TABLES:
            if table in there:
                _add_columns(there[table], table)
            else:
                _create(tables / table, table, found.generation)
        _write_manifest(checkpoints, msgspec.structs.replace(found, basis=basis, tables=tuple(TABLES)))
        yield found.generation


def verify(checkpoints: Path, tables: Path) -> Manifest | None:
    """What the checkpoints were made with, None where there are neither checkpoints nor tables; nothing is changed.

    Raises:
        UserError: checkpoints and tables do not belong together.
    """
    found, there = read_manifest(checkpoints), _tables_in(tables)
    if found is not None and found.swap is not None:
        return found  # the next start completes it, and looks then
    if found is None:
        _check_nothing_is_there(checkpoints, there)
    else:
        _check_tables(found, checkpoints, there)
    return found


def read_manifest(checkpoints: Path) -> Manifest | None:
    """What the checkpoints were made with; None where there are none.

    Raises:
        UserError: the file can't be read.
    """
    file = checkpoints / _MANIFEST
    try:
        return msgspec.json.decode(file.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise UserError(f"{file} can't be read ({error}): restore it, or start under a new runtime.root.") from None


def is_claimed(checkpoints: Path) -> bool:
    """Whether a run works on the checkpoints."""
    try:
        with _locked(checkpoints):
            return False
    except UserError:
        return True


def decide_swap(checkpoints: Path, swap: Swap) -> None:
    """Decide that tables get other rows, for `complete_swap` to do: from now on nothing goes on before that is done."""
    found = read_manifest(checkpoints)
    if found is None:
        raise UserError(f"There is no {checkpoints / _MANIFEST}: start `rebalance-watch run` first.")
    _write_manifest(checkpoints, msgspec.structs.replace(found, swap=swap))


def complete_swap(checkpoints: Path, tables: Path) -> None:
    """Do what has been decided and is not done, as after a crash."""
    found = read_manifest(checkpoints)
    if found is None or found.swap is None:
        return
    from checkpoints.swap import apply  # noqa: PLC0415  brings DuckDB into the job's process

    swap = found.swap
    apply(swap, checkpoints, tables)
    swapped = found.swapped | dict.fromkeys(swap.tables, swap.swap_id)
    _write_manifest(checkpoints, msgspec.structs.replace(found, seed=swap.seed, swapped=swapped, swap=None))


def last_batch(checkpoint: Path) -> int | None:
    """The last batch that was begun; None before the first."""
    return max(_batches(checkpoint / "offsets"), default=None)


def unfinished_batch(checkpoint: Path) -> int | None:
    """The batch that was begun and not finished, if there is one."""
    begun = last_batch(checkpoint)
    return begun if begun is not None and begun not in _batches(checkpoint / "commits") else None


def _batches(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.glob("*") if file.name.isdecimal()}


def _tables_in(tables: Path) -> dict[str, DeltaTable]:
    return {table: DeltaTable(tables / table) for table in TABLES if DeltaTable.is_deltatable(str(tables / table))}


@contextmanager
def _locked(checkpoints: Path) -> Iterator[None]:
    with (checkpoints / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Another run works on {checkpoints.parent}: stop it, or set another runtime.root."
            ) from None
        yield  # closing the file frees the lock, and so does the death of the process


def _check_nothing_is_there(checkpoints: Path, there: Mapping[str, DeltaTable]) -> None:
    begun = next((query for query in QUERY_TABLES if last_batch(checkpoints / query) is not None), None)
    if there or begun is not None:
        what = f"the table {next(iter(there))}" if there else f"the checkpoint of the {begun} query"
        raise UserError(
            f"There is {what} but no {checkpoints / _MANIFEST}, so where to go on is not known: rebuild under a new "
            f"runtime.root, or remove both {checkpoints} and the tables."
        )


def _check_tables(found: Manifest, checkpoints: Path, there: Mapping[str, DeltaTable]) -> None:
    """Whether the tables are those that the checkpoints have written, up to the batch that they know."""
    mend = f"rebuild under a new runtime.root, or remove both {checkpoints} and the tables"
    for query, tables in QUERY_TABLES.items():
        begun = last_batch(checkpoints / query)
        for name in tables:
            if name not in there:
                if begun is not None and name in found.tables:
                    raise UserError(f"The table {name} is gone, but the checkpoint has passed its rows: {mend}.")
                continue
            if there[name].metadata().configuration.get(PROPERTY) != found.generation:
                raise UserError(f"The table {name} belongs to other checkpoints than {checkpoints}: {mend}.")
            written = there[name].transaction_version(
                app_id(query, name, found.generation, found.swapped.get(name, ""))
            )
            if written is not None and (begun is None or written > begun):
                raise UserError(
                    f"The table {name} has batch {written} of the {query} query, but its checkpoint was reset to an "
                    f"earlier one, so new rows would silently be left out: {mend}."
                )


def _check_basis(kept: Basis, checkpoints: Path, wanted: Basis) -> None:
    if kept.state_version != wanted.state_version:
        raise UserError(
            f"The tables and checkpoints beside {checkpoints} were made by a release whose state has version "
            f"{kept.state_version}, this one has {wanted.state_version}: rebuild under a new runtime.root."
        )
    for name, setting in (
        ("source", "source"),
        ("partitions", "source.partitions"),
        ("state_partitions", "job.state_partitions"),
    ):
        before, now = getattr(kept, name), getattr(wanted, name)
        if before != now:
            raise UserError(
                f"The checkpoints in {checkpoints} were made with {setting} = {before}, not {now}: set it back, or "
                "rebuild under a new runtime.root."
            )
    batch = unfinished_batch(checkpoints / OPERATOR)
    if batch is None:
        return
    if kept.policy != wanted.policy:
        raise UserError(
            f"Batch {batch} was begun under another policy: finish it with `rebalance-watch run --available-now "
            f"--policy {checkpoints / _POLICY}`, then start with the new one."
        )
    if kept.code_version != wanted.code_version:
        raise UserError(
            f"Batch {batch} was begun by version {kept.code_version}, this is {wanted.code_version}: finish it with "
            "`rebalance-watch run --available-now` of that version, then start this one."
        )


def _write_manifest(checkpoints: Path, manifest: Manifest) -> None:
    """Write it, and the policy once more as the file that `--policy` takes."""
    replace(checkpoints / _POLICY, _as_toml(manifest.basis.policy).encode())
    replace(checkpoints / _MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))


def _as_toml(policy: Policy) -> str:
    """The policy as a file; its numbers and strings read the same in JSON and TOML."""
    thresholds = {name: value for name, value in msgspec.structs.asdict(policy).items() if name != "group"}
    tables = [("", thresholds), *(("[[group]]\n", override) for override in policy.group)]
    return "\n".join(
        head + "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items()) for head, table in tables
    )


def replace(file: Path, content: bytes) -> None:
    """Write a file that is there either as it was or complete, also after a crash."""
    temporary = file.with_name(f".{file.name}.tmp")
    with temporary.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)


def _create(path: Path, table: str, generation: str) -> None:
    DeltaTable.create(
        path,
        schema=arrow_schema(table),
        partition_by=list(PARTITIONED_BY.get(table, ())),
        configuration={PROPERTY: generation, **_LOG_KEPT},
        raise_if_key_not_exists=False,
    )


def _add_columns(there: DeltaTable, table: str) -> None:
    """Give a table of an older release the columns that it lacks; its rows have no value there."""
    known = {field.name for field in there.schema().fields}
    lacking = [field.with_nullable(True) for field in arrow_schema(table) if field.name not in known]  # noqa: FBT003  Arrow's own form
    if lacking:
        there.alter.add_columns(DeltaSchema.from_arrow(pa.schema(lacking)).fields)
