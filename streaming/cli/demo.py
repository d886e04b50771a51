"""`rebalance-watch demo`: the job over the bundled recording of a real cluster, and what it found."""

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

from streaming.settings import load_settings
from streaming.times import written

if TYPE_CHECKING:
    from streaming.read_model import ReadModel


def demo() -> None:
    """Run the streaming job over a recording of a real RocketMQ cluster and print what it found.

    The recording is 26 minutes of a cluster on which every fault of the lab was put. Needs no cluster and no Kafka.
    """
    from streaming.demo.play import CAPTURE, FAULT_LOG, demo_settings, play
    from streaming.demo.report import report, story
    from streaming.read_model.reader import ReadModel

    console, progress = Console(), Console(stderr=True)
    settings = demo_settings(load_settings())
    began = time.monotonic()
    progress.print(f"The capture has {CAPTURE.stat().st_size / 1024:.0f} KB.", highlight=False)
    with progress.status("starting") as status:
        batches = play(settings, status.update)
    rows = sum(batch.rows for batch in batches if batch.effects is not None)
    effects = sum(batch.effects or 0 for batch in batches)
    progress.print(
        f"{rows} rows of telemetry, {effects} conclusions, {time.monotonic() - began:.0f} s.\n", highlight=False
    )
    story(FAULT_LOG, console)
    with ReadModel(settings.runtime.tables) as model:
        report(model, console)
        next_steps = list(_next_steps(model))
    console.print(
        f"\nThe Delta tables are in [bold]{settings.runtime.tables}[/]. Look around in them:",
        highlight=False,
        soft_wrap=True,
    )
    for arguments in next_steps:
        step = f"  {_program()} --root {quote(_short(settings.runtime.root))} {arguments}"
        console.print(f"[bold]{escape(step)}[/]", highlight=False, soft_wrap=True)
    console.print(
        "Then a cluster of your own to put faults on, [bold]rebalance-watch lab up[/]; or watch yours, "
        "[bold]rebalance-watch collect poll[/] and [bold]rebalance-watch run[/] (README).",
        highlight=False,
        soft_wrap=True,
    )


def _next_steps(model: "ReadModel") -> Iterator[str]:
    """What to ask of the tables: all of it, then about one queue that was stuck."""
    yield "dashboard"
    yield "incident list --all"
    for stuck in [one for one in model.incidents() if one["code"] == "ORDERED_QUEUE_STUCK"][-1:]:
        queue, at = f"{stuck['topic']} {stuck['broker']}:{stuck['queue_id']}", f"--at {written(stuck['opened_at'])}"
        yield f"incident show {stuck['incident_id'][:8]}"
        yield f"group assignments {stuck['group']} {at}"
        yield f"who-owned {stuck['group']} {queue} {at}"


def _program() -> str:
    """How this program is called from here."""
    return "rebalance-watch" if shutil.which("rebalance-watch") else _short(Path(sys.argv[0]))


def _short(path: Path) -> str:
    """From the working directory, where that is below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
