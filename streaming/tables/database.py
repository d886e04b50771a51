"""The only way to open a database of DuckDB: in memory, on this machine, and never with the network.

DuckDB installs and loads extensions by itself when a query or a path looks as if it needed one. What this program needs
(Parquet, JSON, ICU) is linked into it, so nothing has to be fetched, and a path that is wrong asks no server.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from streaming.tables.files import literal

MEMORY = "1GB"
"""The memory limit; larger sorts and aggregates spill to disk."""
CTRL_C = "Query interrupted"
"""DuckDB's message for a KeyboardInterrupt while a query runs."""
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}

# The rows of an answer are few: to copy them takes less than to bind its query once more, as the relation does.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the work of DuckDB, which turns it into an error of its own that would be reported as such.

    Raises:
        KeyboardInterrupt: there was Ctrl-C.
    """
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except RuntimeError as error:
        if str(error) != CTRL_C:
            raise
        raise KeyboardInterrupt from None


def connected(*folders: Path, spill: Path | None = None, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """Open a database that reads and writes files below these absolute folders only, and reaches no other place.

    Without folders it has only what is registered in it. What is larger than memory goes to the folder ``spill``; None:
    then a query fails.
    """
    database = duckdb.connect(":memory:", config=_OFFLINE | ({} if threads is None else {"threads": threads}))
    database.execute(f"SET memory_limit = '{MEMORY}'; SET temp_directory = {literal(str(spill or ''))}")
    if folders:
        database.execute(f"SET allowed_directories = [{', '.join(literal(str(folder)) for folder in folders)}]")
    database.execute("SET enable_external_access = false")
    return database
