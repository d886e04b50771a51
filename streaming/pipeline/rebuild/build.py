"""Derive rows and states from the archive while the job runs, and request their swap."""

import secrets
from collections.abc import Callable
from pathlib import Path

from checkpoints.generation import check_rebuild
from checkpoints.manifest import ARCHIVE, OPERATOR, Manifest, read_manifest
from checkpoints.position import Position, position_of_query
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import STATE_VERSION
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.pipeline.rebuild.archived import ArchivedPartition
from streaming.pipeline.rebuild.folder import Folder, Ready
from streaming.pipeline.rebuild.rows import RowFiles, keep_older, last_seq_of
from streaming.pipeline.rebuild.seed import Seed, write_seed
from streaming.tables import ReadModel

CAUGHT_UP_ROWS = 5_000
"""With fewer rows left, the swap is requested: the job pauses while they are folded."""
_REPORT_ROWS = 2_000

Report = Callable[[int, int], None]
"""Called with the number of folded rows, and the number of all rows."""


def build(checkpoints: Path, tables: Place, report: Report = lambda *_: None) -> Ready:
    """Fold the archive into rows and states, until few rows are left.

    Args:
        checkpoints: the folder of the checkpoints of the job, which continues.
        tables: the current tables.
        report: called with the progress.

    Returns:
        The rebuild for `Folder.announce`.

    Raises:
        UserError: there is nothing to rebuild from.
    """
    folder, manifest = Folder(checkpoints), require_manifest(checkpoints)
    rebuild_id = secrets.token_hex(8)
    folder.withdraw()
    folder.clear(manifest.seed)
    until = _common(checkpoints)
    if not until:
        raise UserError("There is nothing to rebuild: the job has not finished a batch yet.")
    with ReadModel(tables) as model:
        last_seq = last_seq_of(model)
        keep_older(model, folder.rows(rebuild_id))
        rows = RowFiles(folder.rows(rebuild_id), "row", last_seq)
        shards = _folded(model, manifest.basis.policy, until, rows, report)
    while True:
        until = _common(checkpoints)
        with ReadModel(tables) as model:
            left = sum(_go_on(shard, model, until[number], rows) for number, shard in shards.items())
        if left < CAUGHT_UP_ROWS:
            break
    rows.close()
    for number, shard in shards.items():
        saved = shard.save()
        write_seed(folder.shards(rebuild_id), number, Seed(shard.until, saved, shard.groups))
    return Ready(
        rebuild_id,
        {number: shard.until for number, shard in shards.items()},
        [(*group, seq) for group, seq in last_seq.items()],
        manifest.basis.policy,
        STATE_VERSION,
    )


def require_manifest(checkpoints: Path) -> Manifest:
    """Return the manifest of the checkpoints, whose state may be of an older release.

    Raises:
        UserError: there are none, or the state must be left to the release that made it.
    """
    manifest = read_manifest(checkpoints)
    if manifest is None:
        raise UserError(f"There are no checkpoints in {checkpoints}: start `rebalance-watch run` first.")
    check_rebuild(manifest.basis, checkpoints, STATE_VERSION)
    return manifest


def _common(checkpoints: Path) -> Position:
    """Return the position up to which both the operator and the archive have read."""
    operator, archive = (position_of_query(checkpoints / query) for query in (OPERATOR, ARCHIVE))
    return {number: min(offset, archive[number]) for number, offset in operator.items() if number in archive}


def _folded(
    model: ReadModel, policy: Policy, until: Position, rows: RowFiles, report: Report
) -> dict[int, ArchivedPartition]:
    shards = {number: ArchivedPartition(number, policy) for number in sorted(until)}
    total = sum(shard.count(model, until[number]) for number, shard in shards.items())
    done = 0
    report(0, total)
    for number, shard in shards.items():
        for effects in shard.fold(model, until[number]):
            rows.add(effects)
            done += 1
            if done % _REPORT_ROWS == 0:
                report(done, total)
    report(total, total)
    return shards


def _go_on(shard: ArchivedPartition, model: ReadModel, until: int, rows: RowFiles) -> int:
    folded = 0
    for effects in shard.go_on(model, until):
        rows.add(effects)
        folded += 1
    return folded
