"""``python -m tests.detection``: prove the rules on seeds, and print the table and all that is wrong."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tests.detection.chunks import KEPT, resume
from tests.detection.proof import Proof, table


def main(
    first: int = 0,
    last: int = 2_000,
    minutes: Annotated[float, typer.Option(help="Take no more seeds after so long.")] = 600,
    processes: int = os.cpu_count() or 1,
    kept: Annotated[Path, typer.Option(help="Results of the same code that are kept here are not made again.")] = KEPT,
) -> None:
    """Seeds from FIRST up to LAST."""
    until, proof = time.monotonic() + 60 * minutes, Proof()
    for chunk in resume(kept, range(first, last), processes):
        proof.take(chunk)
        if time.monotonic() > until:
            break
    console = Console(width=140)
    console.print(table(proof))
    for wrong in [*proof.alarms, *proof.wrong()]:
        console.print(wrong, highlight=False)


if __name__ == "__main__":
    typer.run(main)
