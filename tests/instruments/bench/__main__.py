"""`make bench`: run every bench in turn, each in a process of its own (most start a JVM).

All of them together take at most half an hour on two idle cores: those in `SHORT` run in a shorter form then.
``python -m tests.instruments.bench NAME …`` runs only these, in their whole form.
"""

import subprocess
import sys
import time
from typing import Annotated

import typer
from rich.console import Console

BENCHES = {
    "job": "events a second of the job, beside what the same machine could do at best",
    "core": "calls and processor time of an event in the core, also of very large groups",
    "allocation": "what a plan costs, beside each client by itself and the real Java classes",
    "simulation": "how long a simulated hour of a large cluster takes",
    "latency": "from an event to a row that a reader sees, at 1,000 events a second, and where the time goes",
    "detection": "how soon each rule reports, what the rules cost an event, and the bytes of a group's state",
    "queries": "how long people wait for an answer, on a month of tables, while the job writes",
    "home": "how long people wait for the home page of a thousand groups",
    "object_store": "how long people wait for an answer if the tables are in an object store",
    "memory": "how much memory each process needs, for 100 and 1,000 groups",
    "sizing": "processor time, memory and bytes of 100 and 1,000 groups, by polls and hooks, with the archive",
    "hook": "what the hook costs a broker under load, with and without it in turn",
    "questions": "what the collector's questions about offsets and waiting times cost a broker",
}
SHORT = {
    "simulation": ["--minutes", "10"],
    "latency": ["--seconds", "60", "--warm-up", "40"],
    "detection": ["--seeds", "8"],
    "queries": ["--turns", "4"],
    "home": ["--turns", "4"],
    "object_store": ["--turns", "2"],
    "sizing": ["--groups", "100"],
    "hook": ["--rounds", "60"],
    "questions": ["--rounds", "8"],
}
"""The arguments with which a bench shows a loss, but not the last digit."""


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(BENCHES)}; none: all.")] = None,
) -> None:
    """Run the benches; stop at the first that fails."""
    console = Console()
    for name in names or BENCHES:
        if name not in BENCHES:
            raise typer.BadParameter(f"there is no bench {name}: {', '.join(BENCHES)}")
        console.rule(f"{name}: {BENCHES[name]}")
        given, began = SHORT.get(name, []) if not names else [], time.monotonic()
        status = subprocess.run(
            [sys.executable, "-m", f"tests.instruments.bench.bench_{name}", *given], check=False
        ).returncode
        if status:
            raise typer.Exit(status)
        console.print(f"{name} took {time.monotonic() - began:.0f} s", highlight=False)


if __name__ == "__main__":
    typer.run(main)
