"""`rebalance-watch rebuild`: tables and state anew from the archive, with what came too late in its place."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from streaming.errors import UserError
from streaming.settings import Settings, load_settings

if TYPE_CHECKING:
    from streaming.rebuild.folder import Folder, Ready

_LOOK_SECONDS = 0.2


def rebuild(
    *,
    undo: Annotated[
        bool, typer.Option("--undo", help="Put back what was before the last rebuild; stop the job before.")
    ] = False,
) -> None:
    """Fold the archive again in the order of time, and put what comes out in the place of the tables' rows.

    What a source that was late had left out (TELEMETRY_GAP LATE) is then in its place. The job may run: it stands still
    for some seconds at the end, and goes on from the new state. The archive and the alerts stay.
    """
    from streaming import job
    from streaming.rebuild.folder import Folder
    from streaming.rebuild.take_over import undo as put_back

    settings, console = load_settings(), Console(stderr=True, highlight=False)
    checkpoints, tables = settings.runtime.checkpoints, settings.runtime.tables
    if undo:
        with job.claimed_as_is(settings):
            put_back(checkpoints, tables)
        console.print("The tables and the state are those of before the rebuild; the job reads the log on from there.")
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
    console.print("rebuilt; `rebalance-watch rebuild --undo` puts back what was, until the next rebuild")


def _built(checkpoints: Path, tables: Path, console: Console) -> "Ready":
    from streaming.rebuild.build import build

    columns = TextColumn("folding the archive"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("")
        return build(checkpoints, tables, lambda done, total: progress.update(task, completed=done, total=total))


def _wait(settings: Settings, folder: "Folder", ready: "Ready") -> None:
    """Wait until the job has made the swap; where no job runs, make it here.

    Raises:
        UserError: it was not made.
    """
    from checkpoints.generation import is_claimed, read_manifest
    from streaming import job

    checkpoints = settings.runtime.checkpoints
    while (manifest := read_manifest(checkpoints)) is None or manifest.seed != ready.rebuild_id:
        if (why := folder.failure(ready.rebuild_id)) is not None:
            raise UserError(f"The rebuild was not swapped in, and everything is as it was: {why}")
        if not is_claimed(checkpoints):
            with job.claimed_as_is(settings):
                continue
        time.sleep(_LOOK_SECONDS)
