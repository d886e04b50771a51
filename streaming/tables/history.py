"""The history of a table against the contract: which commits no operation of this program may have made.

A commit of Delta has its actions: files that it adds or removes, and for each whether that changes rows. So what a
commit did is read from it, whatever its writer called it; the operation is named by the commit's ``userMetadata``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from schemas.contract import CommitKind, Operation, may

WRITER = "rebalance-watch"
"""With which ``userMetadata`` begins in the commits that name their operation."""
USER_METADATA = "userMetadata"
"""Where a commit says what it was, for ``DESCRIBE HISTORY``: delta-rs lets nobody choose the operation."""
_NAMED = re.compile(rf"{WRITER} ({'|'.join(sorted(Operation, key=len, reverse=True))}): ")
_COMMIT = re.compile(r"\d{20}\.json")


class Violation(NamedTuple):
    """A commit that the contract does not allow."""

    table: str
    version: int
    commit: CommitKind
    written_by: str
    """What the commit says of its writer."""

    def __str__(self) -> str:
        return f"version {self.version} of {self.table}: {self.commit}, by {self.written_by}"


def named(operation: Operation, what: str) -> str:
    """Return the ``userMetadata`` of a commit."""
    return f"{WRITER} {operation}: {what}"


def violations(table: Path, last: int | None = None) -> Iterator[Violation]:
    """Yield the commits to a table in a folder that no operation of the contract may have made.

    Args:
        table: its folder.
        last: of how many commits, the newest; None: of all whose log is there.
    """
    log = sorted(file for file in (table / "_delta_log").glob("*.json") if _COMMIT.fullmatch(file.name))
    for file in log if last is None else log[-last:]:
        try:
            actions = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        except (FileNotFoundError, ValueError):  # removed meanwhile, as too old; or torn, which another check names
            continue
        info: Mapping[str, Any] = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
        said = str(info.get(USER_METADATA) or "")
        found = _NAMED.match(said)
        commit = kind_of(actions)
        if not may(table.name, commit, found[1] if found else ""):
            yield Violation(table.name, int(file.stem), commit, said or _engine(info))


def kind_of(actions: Iterable[Mapping[str, Any]]) -> CommitKind:
    """Return what a commit does to the rows."""
    files = [(kind, one[kind]) for one in actions for kind in ("add", "remove") if kind in one]
    changed = {kind for kind, file in files if file.get("dataChange", True)}
    if changed == {"add", "remove"}:
        return CommitKind.REPLACE
    if changed:
        return CommitKind.APPEND if "add" in changed else CommitKind.DELETE
    return CommitKind.REARRANGE if files else CommitKind.DESCRIBE


def _engine(info: Mapping[str, Any]) -> str:
    program = info.get("engineInfo") or info.get("clientVersion") or "an unknown program"
    return f"{info.get('operation', 'a commit')} of {program}"
