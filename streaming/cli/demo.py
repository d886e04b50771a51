"""`rebalance-watch demo`: run the job on the bundled recording of a real cluster and print the result."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from streaming.base.place import tables_of
from streaming.base.settings import load_settings
from streaming.base.times import written
from streaming.cli.output import screen
from streaming.queries.columns import SHORT_ID

if TYPE_CHECKING:
    from streaming.tables import ReadModel


def demo() -> None:
    """Run the streaming job on a recording of a real RocketMQ cluster and print the result.

    The recording covers 26 minutes with every fault of the lab injected. No cluster and no Kafka are needed.
    """
    from streaming.cli.demo_report import print_faults, print_report
    from streaming.lab.demo.play import CAPTURE, FAULT_LOG, demo_settings, play
    from streaming.tables.reader import ReadModel

    console, progress = screen(), Console(stderr=True)
    settings = demo_settings(load_settings())
    began = time.monotonic()
    progress.print(f"Recording: {CAPTURE.stat().st_size / 1024:.0f} KB.", highlight=False)
    with progress.status("starting") as status:
        batches = play(settings, status.update)
    rows = sum(batch.rows for batch in batches if batch.effects is not None)
    effects = sum(batch.effects or 0 for batch in batches)
    progress.print(
        f"{rows} telemetry rows, {effects} derived rows, {time.monotonic() - began:.0f} s.\n", highlight=False
    )
    print_faults(FAULT_LOG, console)
    with ReadModel(tables_of(settings)) as model:
        print_report(model, console)
        next_steps = list(_next_steps(model))
    console.print(
        f"\nDelta tables: [bold]{tables_of(settings)}[/]. Explore them:",
        highlight=False,
        soft_wrap=True,
    )
    for arguments in next_steps:
        step = f"  {_program()} --root {quote(_short(settings.runtime.root))} {arguments}"
        console.print(f"[bold]{escape(step)}[/]", highlight=False, soft_wrap=True)
    console.print(
        "Next: start a local test cluster with [bold]rebalance-watch lab up[/], or monitor your own with "
        "[bold]rebalance-watch collect poll[/] and [bold]rebalance-watch run[/] (see README).",
        highlight=False,
        soft_wrap=True,
    )


def _next_steps(model: "ReadModel") -> Iterator[str]:
    """Yield the arguments of commands to try: the overview first, then one stuck queue."""
    from streaming.queries.incidents import incidents

    yield "dashboard"
    yield "incident list --all"
    stuck = max(incidents(model, code="ORDERED_QUEUE_STUCK"), key=lambda one: one.opened_at, default=None)
    if stuck is not None:
        at = f"--at {written(stuck.opened_at)}"
        yield f"incident show {stuck.incident_id[:SHORT_ID]}"
        yield f"group assignments {stuck.group} {at}"
        yield f"who-owned {stuck.group} {stuck.topic} {stuck.broker}:{stuck.queue_id} {at}"


def _program() -> str:
    """Return the command that starts this program from the working directory."""
    return "rebalance-watch" if shutil.which("rebalance-watch") else _short(Path(sys.argv[0]))


def _short(path: Path) -> str:
    """Return a path relative to the working directory if it is below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
