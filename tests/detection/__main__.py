"""``python -m tests.detection FROM TO``: prove the rules on these seeds, and print the table and all that is wrong."""

import os
import time
from itertools import takewhile
from typing import Annotated

import typer
from rich.console import Console

from tests.detection.proof import Proof, prove, table


def main(
    first: int = 0,
    last: int = 2_000,
    minutes: Annotated[float, typer.Option(help="Take no more seeds after so long.")] = 600,
    processes: int = os.cpu_count() or 1,
) -> None:
    """Seeds from FIRST up to LAST."""
    until, proof = time.monotonic() + 60 * minutes, Proof()
    seeds = takewhile(lambda _: time.monotonic() < until, range(first, last))
    for batch in iter(lambda: [seed for _, seed in zip(range(16 * processes), seeds, strict=False)], []):
        for one in prove(batch, processes):
            proof.take(one)
    console = Console(width=140)
    console.print(table(proof))
    for wrong in [*proof.alarms, *proof.wrong()]:
        console.print(wrong, highlight=False)


if __name__ == "__main__":
    typer.run(main)
