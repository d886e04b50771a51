"""Append rows to a Delta table from this process, without Spark."""

import errno
import os
import re

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from streaming.base.durable import sync_commits
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.tables.delta import check_writable, delta_at, folder_of
from streaming.tables.versions import after_commit

_NUMBERS = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EIO)
_OF_THE_DISK = re.compile(rf"\(os error ({'|'.join(map(str, _NUMBERS))})\)")
"""The words of delta-rs about a disk that refuses."""
_MEANWHILE = ("Metadata changed", "a concurrent transaction deleted data this operation read")
"""The words of delta-rs if `maintain` has set properties of the table meanwhile, or dropped rows of it, though an
append reads nothing: nothing was appended, and can be again."""
_TRIES = 5
"""`maintain` makes a few such commits one after the other, and each is quick."""


def append(table: Place | DeltaTable, rows: pa.Table, commit_properties: CommitProperties | None = None) -> int | None:
    """Append rows in one commit, which is on the disk when this returns.

    The table may have columns that the rows lack: a newer release has added them, and this one runs again. They are
    null in these rows. Return the number of the table's last commit; None in an object store.

    Raises:
        UserError: the disk is full, or can't be written; or the table has features that are not handled. Nothing was
            appended.
    """
    target = table if isinstance(table, DeltaTable) else delta_at(table)
    check_writable(target)
    has_more = not {field.name for field in target.schema().fields} <= set(rows.schema.names)
    before = target.version()

    def commit() -> None:
        write_deltalake(
            target, rows, mode="append", schema_mode="merge" if has_more else None, commit_properties=commit_properties,
            post_commithook_properties=after_commit(target),
        )  # fmt: skip

    try:
        for left in reversed(range(_TRIES)):
            try:
                commit()
                break
            except CommitFailedError as error:
                if not left or not any(said in str(error) for said in _MEANWHILE):
                    raise
                target.update_incremental()
    except (DeltaError, OSError) as error:
        if (refused := _OF_THE_DISK.search(str(error))) is None:
            raise
        raise UserError(
            f"The table {target.table_uri} can't be written ({os.strerror(int(refused[1]))}): free space, or make it "
            "writable."
        ) from None
    folder = folder_of(target)
    return sync_commits(folder, before) if folder is not None else None
