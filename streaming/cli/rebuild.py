"""`rebalance-watch rebuild`: derive tables and state again from the archive, with late telemetry in its place."""

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from streaming.base.errors import UserError
from streaming.base.place import Place, tables_of
from streaming.base.settings import Settings, load_settings

if TYPE_CHECKING:
    from streaming.pipeline.rebuild.folder import Folder, Ready

_LOOK_SECONDS = 0.2


def rebuild(
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Revert the last rebuild; stop the job first.")] = False,
) -> None:
    """Process the archive again in time order and replace the rows of the derived tables.

    This adds telemetry that arrived too late (TELEMETRY_GAP LATE). The job may be running: it pauses for some seconds
    at the end and continues from the new state. The archive and the alerts are kept.
    """
    from streaming.pipeline import job
    from streaming.pipeline.rebuild.folder import Folder
    from streaming.pipeline.rebuild.take_over import undo as put_back

    settings, console = load_settings(), Console(stderr=True, highlight=False)
    checkpoints, tables = settings.runtime.checkpoints, tables_of(settings)
    if settings.storage.checkpoints:
        raise UserError("rebuild works only with checkpoints below the root: they are in storage.checkpoints.")
    if undo:
        with job.claimed_as_is(settings):
            put_back(checkpoints, tables)
        console.print(
            "Tables and state from before the rebuild are restored; the job continues to read the log from there."
        )
        return
    if not checkpoints.is_dir():
        raise UserError(f"There are no checkpoints in {checkpoints}: start `rebalance-watch run` first.")
    folder = Folder(checkpoints)
    with folder.claimed():
        ready = _built(checkpoints, tables, console)
        folder.announce(ready)
        try:
            with console.status("waiting for the swap"):
                _wait(settings, folder, ready)
        finally:
            folder.withdraw()
    console.print("rebuilt; to revert it, run `rebalance-watch rebuild --undo` before the next rebuild")


def _built(checkpoints: Path, tables: Place, console: Console) -> "Ready":
    from streaming.pipeline.rebuild.build import build

    columns = TextColumn("processing the archive"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("")
        return build(checkpoints, tables, lambda done, total: progress.update(task, completed=done, total=total))


def _wait(settings: Settings, folder: "Folder", ready: "Ready") -> None:
    """Wait until the job has swapped in the rebuild; if no job runs, swap it in here.

    Raises:
        UserError: the swap failed.
    """
    from checkpoints.lease import LeaseHeldError, is_claimed
    from checkpoints.manifest import read_manifest
    from streaming.pipeline import job

    checkpoints = settings.runtime.checkpoints
    while (manifest := read_manifest(checkpoints)) is None or manifest.seed != ready.rebuild_id:
        if (why := folder.failure(ready.rebuild_id)) is not None:
            raise UserError(f"The rebuild was not swapped in; nothing was changed: {why}")
        if not is_claimed(checkpoints):
            with suppress(LeaseHeldError), job.claimed_as_is(settings):
                continue
        time.sleep(_LOOK_SECONDS)
