"""Durable files and names: after a power cut a file that was not synced may be empty or old, or its name missing.

Whatever counts as written is synced, and in this order: the plan of a batch (Spark's), then its rows (Delta's files and
commit), then the operator's state after it, then Spark records the batch. So the rows and the state of a recorded batch
are there, and a batch that is repeated has the plan that it had. Spark itself syncs nothing; what a power cut may tear
of its last files, the next start mends (`checkpoints.position`).
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_COMMITS = 20
"""The number of a table's commits at which a start looks: some seconds of a job's."""
_PARQUET = b"PAR1"
"""The last bytes of every Parquet file."""


def sync(*paths: Path) -> None:
    """Write files, and the names in folders, to the disk; a path that is gone meanwhile is skipped."""
    for path in dict.fromkeys(paths):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def last_commit(table: Path) -> int:
    """Return the number of a Delta table's last commit; -1 if it has none."""
    names = (name.removesuffix(".json") for name in os.listdir(table / "_delta_log"))  # noqa: PTH208  after each append
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def sync_commits(table: Path, after: int) -> int:
    """Write the commits of a Delta table after a version to the disk, and before each of them its files.

    Return the number of the last commit.
    """
    log, last = table / "_delta_log", last_commit(table)
    for version in range(after + 1, last + 1):
        commit = log / f"{version:020}.json"
        files = [table / unquote(action["add"]["path"]) for action in _actions(commit) if "add" in action]
        sync(*files, *(file.parent for file in files), table, commit)
    sync(log)
    return last


def torn_file(table: Path) -> Path | None:
    """Return a file of the last commits of a Delta table that is not whole, as after a power cut; None: all are.

    A power cut tears only what was just written, and a commit that was synced has whole files. So only the last
    commits are looked at.
    """
    gone: set[str] = set()
    last = last_commit(table)
    for version in range(last, max(-1, last - _COMMITS), -1):
        commit = table / "_delta_log" / f"{version:020}.json"
        try:
            actions = _actions(commit)
        except ValueError:
            return commit
        gone |= {action["remove"]["path"] for action in actions if "remove" in action}
        for added in (action["add"] for action in actions if "add" in action):
            file = table / unquote(added["path"])
            if added["path"] not in gone and not _is_whole(file, added["size"]):
                return file
    return None


def _is_whole(file: Path, size: int) -> bool:
    try:
        with file.open("rb") as content:
            if content.seek(0, os.SEEK_END) != size:
                return False
            content.seek(-len(_PARQUET), os.SEEK_END)
            return content.read() == _PARQUET
    except FileNotFoundError:
        return False


def _actions(commit: Path) -> list[dict[str, Any]]:
    """Return the actions of a commit; none if it is gone meanwhile."""
    try:
        return [json.loads(line) for line in commit.read_bytes().splitlines() if line]
    except FileNotFoundError:
        return []
