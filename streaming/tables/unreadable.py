"""Say which file of the tables can't be read, and what to do about it.

DuckDB, delta-rs and Arrow each have words of their own for a file that this user may not read, that was cut off or that
is gone, and some name no file. So after an error the files themselves are looked at: rights, size, footer.
"""

import getpass
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from deltalake.exceptions import DeltaError

from streaming.base.errors import UserError, first_line

_DENIED = re.compile(r"[Pp]ermission denied|\(os error (1|13)\)")
_PATH = re.compile(r"(?:file|on) \"?(/[^\"\n]+)")
_LAYERS = re.compile(r"(\x1b\[\d+m|\s|↳)+")
"""The separator of delta-rs between the errors of its layers."""
_BACKTRACE = re.compile(r"\n\s+0: ")
"""The place at which delta-rs begins to list its own calls, if RUST_BACKTRACE is set."""
_LENGTH = 300


class TableFile(Protocol):
    """A file as Delta's log has it (`streaming.tables.files.File`)."""

    @property
    def path(self) -> str:
        """The path as in the log: relative to the table, and URL-encoded."""

    @property
    def size(self) -> int:
        """Bytes."""


def reading_errors() -> tuple[type[Exception], ...]:
    """Return the errors of reading a table; Arrow is imported when something has failed, not by each command."""
    from pyarrow import ArrowException

    return OSError, DeltaError, ArrowException


def denied(path: Path | str) -> UserError:
    """Return the error about a file or folder that this user may not read."""
    return UserError(
        f"{path} can't be read by {_user()} (permission denied): run this as the user of the job, or let this user "
        "read the tables."
    )


def damaged(what: str, why: str) -> UserError:
    """Return the error about a file that is not whole or is gone."""
    return UserError(
        f"{what} can't be read ({why}), see checkpoints/README.md: restore tables and checkpoints from one backup."
    )


def meaning(table: Path, error: Exception) -> UserError | None:
    """Return what an error of delta-rs or Arrow about a table's folder means; None: nothing about its files."""
    from pyarrow import ArrowException

    text = str(error)
    if isinstance(error, PermissionError) or _DENIED.search(text):
        found = _PATH.search(text)
        return denied(getattr(error, "filename", None) or (found[1].strip() if found else table))
    if isinstance(error, ArrowException) or "arquet" in text or "thrift" in text:
        return damaged(f"A file of the table {table.name} in {table.parent}", cause(error))
    return None


def fault_in(table: str, folder: Path, files: Iterable[TableFile]) -> UserError | None:
    """Return the error about the first of a table's files without the right to read, the right size or a footer."""
    from pyarrow.parquet import read_metadata

    for file in files:
        path = folder / unquote(file.path)
        what = f"The file {path} of the table {table}"
        try:
            size = path.stat().st_size
            if size != file.size:
                return damaged(what, f"it has {size:,} bytes instead of {file.size:,}")
            with path.open("rb") as content:
                read_metadata(content)
        except PermissionError:
            return denied(path)
        except FileNotFoundError:
            return damaged(what, "it is missing")
        except reading_errors() as error:
            return damaged(what, cause(error))
    return None


def check_rights(table: Path) -> None:
    """Check that the log of a table may be looked for: delta-rs takes a folder that it may not read for none.

    Raises:
        UserError: this user may not.
    """
    try:
        with os.scandir(table / "_delta_log"):
            pass
    except PermissionError as error:
        raise denied(error.filename) from None
    except OSError:
        return


def cause(error: Exception) -> str:
    """Return what a library says of the cause, in a line that can be part of a sentence."""
    said = _BACKTRACE.split(str(error))[0]
    return _LAYERS.sub(" ", said).strip(" .")[:_LENGTH] or first_line(error) or type(error).__name__


def _user() -> str:
    try:
        return f"the user {getpass.getuser()}"
    except (KeyError, OSError):  # a user id without a name
        return f"the user {os.getuid()}"
