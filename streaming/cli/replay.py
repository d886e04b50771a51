"""`rebalance-watch replay`: a recording into the log."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import track

from streaming.settings import load_settings


def replay(
    file: Annotated[Path, typer.Argument(help="A recording: one event a line, .jsonl or .jsonl.gz.")],
    to: Annotated[
        Literal["files", "kafka"] | None, typer.Option(help="Which log; source.kind if it isn't given.")
    ] = None,
) -> None:
    """Append a recording to the log, each row in the partition that the collector would have chosen.

    The order is kept and nothing is left out: a line that is no event goes to partition 0, for the job to reject. What
    is appended is a last tick for each source that did not send one, so that the job waits for none of them.
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
    console.print(f"{lines} lines, {rows} rows into {where}", highlight=False)
