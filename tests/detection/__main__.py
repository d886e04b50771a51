"""Prove the rules on seeds: ``python -m tests.detection`` prints the table and every error."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tests.detection.chunks import RESULTS, resume
from tests.detection.proof import Proof, table


def main(
    first: int = 0,
    last: int = 2_000,
    minutes: Annotated[float, typer.Option(help="Start no further seeds after this time.")] = 600,
    processes: int = os.cpu_count() or 1,
    results: Annotated[
        Path, typer.Option(help="The folder of saved results; those of the same code are used.")
    ] = RESULTS,
    popped: Annotated[bool, typer.Option(help="Run the scenarios of consumers that pop.")] = False,
) -> None:
    """Run the seeds from FIRST up to LAST, which is not included."""
    until, proof = time.monotonic() + 60 * minutes, Proof()
    for chunk in resume(results, range(first, last), processes, popped=popped):
        proof.add(chunk)
        if time.monotonic() > until:
            break
    proof.keep("detection --popped" if popped else "detection")
    console = Console(width=140)
    console.print(table(proof))
    for error in [*proof.false_alarms, *proof.contradictions, *proof.errors()]:
        console.print(error, highlight=False)


if __name__ == "__main__":
    typer.run(main)
