"""Former versions of a table: time travel, streams of other systems that are behind, and the changes of each version.

A version needs its commits in Delta's log, and the files that later versions have replaced. Both are kept equally long
(`tables.versions_days`). A job makes up to one commit a second, so what grows with the commits is kept small: each
checkpoint of the log names every replaced file that is kept (75 bytes), so of older checkpoints only a few stay.

A commit has its actions: files that it adds or removes, and for each whether that changes rows. So what a commit did is
read from it, whatever its writer called it; the operation is named by the commit's ``userMetadata``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable, PostCommitHookProperties

from schemas.contract import CommitKind, Operation, may
from streaming.base.durable import sync_commits
from streaming.tables.delta import folder_of
from streaming.tables.folder import TableFolder

WRITER = "rebalance-watch"
"""The beginning of ``userMetadata`` in the commits that name their operation."""
USER_METADATA = "userMetadata"
"""The field in which a commit names its operation, for ``DESCRIBE HISTORY``: delta-rs lets nobody choose it."""
_NAMED = re.compile(rf"{WRITER} ({'|'.join(sorted(Operation, key=len, reverse=True))}): ")
_COMMIT = re.compile(r"\d{20}\.json")


class Violation(NamedTuple):
    """A commit that the contract does not allow."""

    table: str
    version: int
    commit: CommitKind
    written_by: str
    """The commit's words about its writer."""

    def __str__(self) -> str:
        return f"version {self.version} of {self.table}: {self.commit}, by {self.written_by}"


def named(operation: Operation, what: str) -> str:
    """Return the ``userMetadata`` of a commit."""
    return f"{WRITER} {operation}: {what}"


def violations(table: Path, last: int | None = None) -> Iterator[Violation]:
    """Yield the last commits to a table's folder that no operation of the contract may have made.

    None: of all commits whose log is there.
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


CLEANUP_COMMITS = 1_000
"""Without `maintain`, every so many commits remove what the log need not keep. delta-rs would do it after each one, and
list the whole log for it: with 87,000 commits in it an append took 1.8 s instead of 0.4 s."""
CHECKPOINT_COMMITS = 1_000
"""Commits between the older checkpoints of the log that are kept. Opening a version reads the commits after one."""
_NEWEST = 180
"""Number of checkpoints that are always kept, those of the last hour with a commit a second: they may be in use."""
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


def version_properties(days: int) -> dict[str, str]:
    """Return Delta's properties of a table whose versions, and what each changed, can be read for so many days.

    The change data feed costs nothing here: each commit that changes rows adds or removes whole files, from which
    readers derive the changes, so no files of changes are written.
    """
    kept = f"interval {days} days"
    return {
        "delta.logRetentionDuration": kept,
        "delta.deletedFileRetentionDuration": kept,
        "delta.enableChangeDataFeed": "true",
    }


def keep_versions(delta: DeltaTable, days: int) -> None:
    """Keep the versions of an existing table for so many days from now on."""
    set_properties(delta, version_properties(days))


def set_properties(delta: DeltaTable, properties: Mapping[str, str], *, raise_if_not_exists: bool = True) -> None:
    """Give an existing table these properties, in one commit that is on the disk when this returns, if it lacks any.

    ``raise_if_not_exists``: each must be one that Delta knows.
    """
    if properties.items() <= delta.metadata().configuration.items():
        return
    before = delta.version()
    delta.alter.set_table_properties(dict(properties), raise_if_not_exists=raise_if_not_exists)
    if (folder := folder_of(delta)) is not None:
        sync_commits(folder, before)


def after_commit(delta: DeltaTable) -> PostCommitHookProperties:
    """Return what delta-rs does after the next commit: see `CLEANUP_COMMITS`."""
    is_due = (delta.version() + 1) % CLEANUP_COMMITS == 0
    return PostCommitHookProperties(cleanup_expired_logs=None if is_due else False)


def thin_checkpoints(folder: TableFolder) -> None:
    """Remove the checkpoints of a table's log that no version needs, because the commits since an older one are there.

    The oldest is kept: the commits before it are gone.
    """
    for version in _superfluous(folder.names("_delta_log")):
        folder.remove(f"_delta_log/{version:020}.checkpoint.parquet")


def _superfluous(names: Iterable[str]) -> list[int]:
    versions = sorted(int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name)))
    superfluous, kept = [], None
    for version in versions[:-_NEWEST]:
        if kept is None or version - kept >= CHECKPOINT_COMMITS:
            kept = version
        else:
            superfluous.append(version)
    return superfluous
