"""`rebalance-watch replay`: append a recording to the log."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import track

from streaming.base.settings import load_settings


def replay(
    file: Annotated[Path, typer.Argument(help="Recording with one event per line, .jsonl or .jsonl.gz.")],
    to: Annotated[
        Literal["files", "kafka"] | None, typer.Option(help="Log to append to; default: source.kind.")
    ] = None,
) -> None:
    """Append a recording to the log, with each row in the partition that the collector would choose.

    Order and content are kept: a line that is not an event goes to partition 0, where the job rejects it. A last tick
    is added for each source that did not send one, so that the job does not wait for it.
    """
    from streaming.log.open import open_publisher
    from streaming.log.recording import replayed_rows

    settings = load_settings()
    kind = to or settings.source.kind
    console = Console(stderr=True)
    lines = rows = 0
    with open_publisher(settings, kind) as publisher:
        for line in track(
            replayed_rows(file, publisher.partitions), description=f"replaying {file.name}", console=console
        ):
            publisher.write(line)
            lines += 1
            rows += len(line)
    where = settings.log_path if kind == "files" else f"topic {settings.source.topic}"
    console.print(f"{lines} lines, {rows} rows appended to {where}", highlight=False)
