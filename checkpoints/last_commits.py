"""The last Delta commit that a query has made to each of its tables, in a file of its checkpoint.

Without its last commits a Delta table is a whole, older table: nothing in it says that rows are gone. So a start
compares. The file is written after the commits and before Spark records the batch, hence never ahead of the tables.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from streaming.base.files import replace_atomically

_FILE = "last_commits.json"


def note_last_commits(checkpoint: Path, commits: Mapping[str, int]) -> None:
    """Write down the last commits of some tables; what is known of the others stays."""
    if commits:
        replace_atomically(checkpoint / _FILE, msgspec.json.encode({**last_commits(checkpoint), **commits}))


def last_commits(checkpoint: Path) -> dict[str, int]:
    """Return the last known commit of each table; none without a file that can be read, so nothing is compared then."""
    try:
        return msgspec.json.decode((checkpoint / _FILE).read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}
