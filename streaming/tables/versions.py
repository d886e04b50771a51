"""The former versions of a table: by time travel, by another system's stream that is behind, and what each changed.

A version needs its commits in Delta's log, and the files that later versions have replaced. Both are kept equally long
(`tables.versions_days`). A job makes up to one commit a second, so what grows with the commits is kept small: each
checkpoint of the log names every replaced file that is kept (75 bytes), so of older checkpoints only a few stay.
"""

import re
from collections.abc import Iterable, Mapping

from deltalake import DeltaTable, PostCommitHookProperties

from streaming.base.durable import sync_commits
from streaming.tables.delta import folder_of
from streaming.tables.folder import TableFolder

CLEANUP_COMMITS = 1_000
"""Without `maintain`, every so many commits remove what the log need not keep. delta-rs would do it after each one, and
list the whole log for it: with 87,000 commits in it an append took 1.8 s instead of 0.4 s."""
CHECKPOINT_COMMITS = 1_000
"""Of older checkpoints of the log one in so many commits is kept. Who opens a version reads the commits after it."""
_NEWEST = 180
"""So many checkpoints are kept anyway, those of the last hour if there is a commit a second: somebody may read one."""
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

    Args:
        delta: the table.
        properties: the values by name.
        raise_if_not_exists: whether each must be one that Delta knows.
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
