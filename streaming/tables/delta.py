"""Open and create the Delta tables of a folder or of an object store.

In an object store delta-rs writes and reads the tables, from every process of the program. A commit is an object that
can be created only once (``PUT`` with ``If-None-Match``), so any number of writers, on any machine, lose no commit of
each other: the job, `maintain`, the alerts. Spark writes none of these tables: its log store for S3 sends no such
request, and is safe only if a single process writes a table.

Features: a table's protocol says what a reader or a writer must understand. Somebody may raise it: with deletion
vectors, for example, a row that another engine has deleted is still in its file, and a reader that does not know them
shows it. So each table is looked at when it is opened, and one with a feature that is not listed here is refused, by
name. As the protocol has it, a reader needs only the reader features: a table that can't be written may still be shown.
"""

import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake._internal import DeltaFileSystemHandler
from deltalake.exceptions import DeltaError, TableNotFoundError

from streaming.base.errors import UserError
from streaming.base.place import ObjectPlace, Place
from streaming.tables.unreadable import cause, check_rights, damaged, meaning, reading_errors

READ = {
    "timestampNtz": "a type of columns, and no column that is read has it",
    "vacuumProtocolCheck": "is about removing files, not about reading them",
}
"""Reader features that are handled, and why; of the versions without a list, 1 has none."""
WRITTEN = {
    "timestampNtz": READ["timestampNtz"],
    "appendOnly": "matters only with `delta.appendOnly = true`, which is refused, because rows are dropped",
    "invariants": "appends check them; merged and rebuilt rows are rows that were appended",
    "checkConstraints": "matters only with a constraint, which is refused, because rebuilt rows are not checked",
    "changeDataFeed": "a commit adds rows or removes them, never both in a file, so it needs no files of changes",
    "generatedColumns": "implied by version 4; no column that is written is one",
}
"""Writer features that are handled, and why; the versions up to 4 imply some of them."""
_READER_VERSION, _WRITER_VERSION = 1, 4
"""The highest versions without a list of features, all of whose features are handled."""
_TABLE_FEATURES = 3, 7
"""The versions of reader and writer from which on the protocol lists its features."""
_IMPLIED = "columnMapping"
"""The features that reader version 2 implies, and writer version 5 (6 adds identityColumns)."""


def check_readable(delta: DeltaTable) -> None:
    """Check that the rows of a table are read as they are.

    Raises:
        UserError: it has a reader feature that is not handled.
    """
    protocol = delta.protocol()
    if protocol.min_reader_version < _TABLE_FEATURES[0]:
        named = [_IMPLIED] if protocol.min_reader_version > _READER_VERSION else []
    else:
        named = [name for name in sorted(protocol.reader_features or ()) if name not in READ]
    for feature in named:
        raise _refusal(delta, f"the Delta feature {feature}", "read")


def check_writable(delta: DeltaTable) -> None:
    """Check that rows of a table may be appended, merged, dropped and replaced.

    Raises:
        UserError: it has a feature that is not handled, or a property that forbids some of this.
    """
    check_readable(delta)
    for what in _unwritten(delta):
        raise _refusal(delta, what, "write")


def _unwritten(delta: DeltaTable) -> Iterator[str]:
    """Yield what a writer must know, or keep to, and this program does not."""
    protocol, properties = delta.protocol(), delta.metadata().configuration
    if protocol.min_writer_version < _TABLE_FEATURES[1]:
        named = [_IMPLIED] if protocol.min_writer_version > _WRITER_VERSION else []
    else:
        named = [name for name in sorted(protocol.writer_features or ()) if name not in WRITTEN]
    yield from (f"the Delta feature {name}" for name in named)
    if properties.get("delta.appendOnly", "").lower() == "true":
        yield "the property delta.appendOnly"
    constraints = (name for name in properties if name.startswith("delta.constraints."))
    yield from (f"the constraint {name.removeprefix('delta.constraints.')}" for name in constraints)


def _refusal(delta: DeltaTable, what: str, verb: str) -> UserError:
    place = unquote(delta.table_uri.removeprefix("file://").rstrip("/"))
    return UserError(
        f"The table {place.rpartition('/')[2]} has {what}, with which this program does not {verb} it: "
        f"restore the version before it with Spark (RESTORE TABLE delta.`{place}`, see schemas/BUILDING.md), or tables "
        "and checkpoints from one backup."
    )


_WRITERS, _COMMITS = 2, 3
"""Size of the check of a store: of six commits a store without conditions keeps three."""
_SENTENCES = (
    (("NoSuchBucket",), "There is no bucket {bucket} at {at}: create it, or correct its name in [storage]."),
    (
        ("CredentialsNotLoaded", "no providers in chain", "InstanceMetadata", "169.254.169.254"),
        "No keys for the object store were found: set storage.access_key and storage.secret_key, or AWS's own.",
    ),
    (
        ("SecondLevelDomainForbidden",),  # as OSS says it
        "The object store at {at} wants the bucket in the host's name: set storage.path_style = false.",
    ),
    (
        ("NotImplemented", "501 Not Implemented"),
        "The object store at {at} refuses conditional writes: tables need one that knows If-None-Match.",
    ),
    (
        ("SignatureDoesNotMatch", "InvalidAccessKeyId", "AccessDenied", "403 Forbidden", "401 Unauthorized"),
        "The object store at {at} refuses access to {url}: correct its keys, or grant the rights of conf/STORAGE.md.",
    ),
    (
        ("error sending request", "client error", "dns error", "operation timed out", "Connection refused"),
        "No object store answers at {at}: start it, or correct [storage].",
    ),
)
"""The meaning of an error of an object store, by any of the texts in it; the first one that fits."""


def delta_at(table: Place) -> DeltaTable:
    """Open a table whose rows this program reads as they are.

    Raises:
        TableNotFoundError: there is none.
        UserError: as by `any_delta_at`; or the table has features that are not handled.
    """
    opened = any_delta_at(table)
    check_readable(opened)
    return opened


def any_delta_at(table: Place) -> DeltaTable:
    """Open a table, whatever its features.

    Raises:
        TableNotFoundError: there is none.
        UserError: the object store does not answer, or refuses it; or the log of a folder's table is damaged, or this
            user may not read it.
    """
    if isinstance(table, Path):
        try:
            opened = DeltaTable(table.resolve())
        except TableNotFoundError:
            check_rights(table)
            raise
        except (DeltaError, OSError) as error:
            what = f"The Delta log of the table {table.name} in {table.parent}"
            raise meaning(table, error) or damaged(what, cause(error)) from None
        _check_last_commit(table, opened.version())
        return opened
    with answered(table):
        return DeltaTable(table.url, storage_options=dict(table.options))


def folder_of(table: DeltaTable) -> Path | None:
    """Return the folder of an open table; None: it is in an object store."""
    address = urlsplit(table.table_uri)
    return Path(unquote(address.path)) if address.scheme in {"", "file"} else None


def _check_last_commit(table: Path, version: int) -> None:
    """Refuse an empty commit, which a power cut leaves of one that was not synced; delta-rs takes it for no rows."""
    commit = table / "_delta_log" / f"{version:020}.json"
    if commit.is_file() and not commit.stat().st_size:
        raise UserError(
            f"The last commit of the table {table.name} is empty ({commit}), as after a power cut: restore tables and "
            "checkpoints from one backup."
        )


def is_delta_at(table: Place) -> bool:
    """Return whether there is a table.

    Raises:
        UserError: the object store does not answer, or refuses it; or this user may not read the folder.
    """
    if isinstance(table, Path):
        check_rights(table)
        return DeltaTable.is_deltatable(str(table))
    with answered(table):
        return DeltaTable.is_deltatable(table.url, dict(table.options))


def create_at(table: Place, **definition: Any) -> DeltaTable:
    """Create a table: `DeltaTable.create` with these arguments.

    Raises:
        UserError: the object store does not answer, or refuses it.
    """
    if isinstance(table, Path):
        return DeltaTable.create(table, **definition)
    with answered(table):
        return DeltaTable.create(table.url, storage_options=dict(table.options), **definition)


def check_commits(tables: Place) -> None:
    """Check that an object store lets only one of two writers make a commit; of a folder nothing is checked.

    Two writers commit to a table of their own at the same time, a few times: then all their commits must be there.

    Raises:
        UserError: some are lost; or the store does not answer, or refuses it.
    """
    if isinstance(tables, Path):
        return
    probe = tables / f"_commits-{secrets.token_hex(8)}"
    together = threading.Barrier(_WRITERS)
    import pyarrow as pa

    with answered(probe), ThreadPoolExecutor(_WRITERS) as pool:
        create_at(probe, schema=pa.schema([("number", pa.int64())]))
        for _ in pool.map(partial(_commit, probe, together), range(_WRITERS)):
            pass
        made = delta_at(probe).version()
        objects = DeltaFileSystemHandler(probe.url, dict(probe.options))
        for version in range(made + 1):
            objects.delete_file(f"_delta_log/{version:020}.json")
    if made < _WRITERS * _COMMITS:
        raise UserError(
            f"The object store of {tables} lets two writers create the same object, so commits could be lost: use one "
            "that knows If-None-Match."
        )


def _commit(table: ObjectPlace, together: threading.Barrier, writer: int) -> None:
    try:
        delta = delta_at(table)
        for number in range(_COMMITS):
            together.wait()
            turn = CommitProperties(app_transactions=[Transaction(f"{writer}-{number}", 1)])
            delta.create_write_transaction(
                [], mode="append", schema=delta.schema(), partition_by=[], commit_properties=turn
            )
    except threading.BrokenBarrierError:  # the other one has failed, and says why
        return
    except BaseException:
        together.abort()
        raise


@contextmanager
def answered(place: Place) -> Iterator[None]:
    """Turn what an object store answers instead of an object into a `UserError`; of a folder, let errors pass."""
    try:
        yield
    except (TableNotFoundError, FileNotFoundError):
        raise
    except reading_errors() as error:  # Arrow's while rows are read
        if isinstance(place, Path):
            raise
        raise UserError(sentence(place, error)) from None


@contextmanager
def readable(table: Place) -> Iterator[None]:
    """Turn an error of reading a table's log or files into a `UserError`, wherever it is, if it means anything."""
    try:
        with answered(table):
            yield
    except FileNotFoundError:
        raise
    except reading_errors() as error:
        if isinstance(table, Path) and (found := meaning(table, error)) is not None:
            raise found from None
        raise


def sentence(place: ObjectPlace, error: Exception) -> str:
    """Return an error of an object store as one sentence; it has no secret, which the text of the error may have."""
    text, bucket = str(error), urlsplit(place.url).netloc
    at = place.options.get("aws_endpoint", "AWS") if place.url.startswith("s3:") else bucket
    for texts, means in _SENTENCES:
        if any(one in text for one in texts):
            return means.format(at=at, bucket=bucket, url=place.url)
    return f"The object store at {at} failed for {place.url}: {cause(error)}."
