"""`rebalance-watch demo`: run the job on the bundled recording of a real cluster and print the result."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from streaming.base.place import tables_of
from streaming.base.settings import Settings, load_settings
from streaming.base.terminal import command_line
from streaming.base.times import written
from streaming.cli.output import screen
from streaming.queries.columns.column import SHORT_ID
from streaming.serve.links import incident_link

if TYPE_CHECKING:
    from streaming.tables import ReadModel


def demo() -> None:
    """Run the streaming job on a recording of a real RocketMQ cluster and print the result.

    The recording covers 26 minutes with every fault of the lab injected. No cluster and no Kafka are needed.
    """
    from streaming.cli.demo_report import print_faults, print_report
    from streaming.lab.demo import CAPTURE, FAULT_LOG, demo_settings, play
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
        lines = list(_ending(model, settings))
    console.print()
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _ending(model: "ReadModel", settings: Settings) -> Iterator[str]:
    """Yield five lines: what was found, and what to open or run next."""
    from streaming.queries.groups import groups
    from streaming.queries.incidents import incidents

    ours = partial(command_line, _program(), "--root", _short(settings.runtime.root))
    opened, moved = incidents(model), model.rows("SELECT count(*) AS rebalances FROM rebalances")
    stuck = max(
        (one for one in opened if one.code == "ORDERED_QUEUE_STUCK"),
        key=lambda one: (one.sub_cause == "SUSPEND_LOOP", one.opened_at),
    )
    address = f"http://{settings.web.host}:{settings.web.port}"
    queue = (str(stuck.topic), f"{stuck.broker}:{stuck.queue_id}")
    owned = ours("who-owned", stuck.group, *queue, "--at", written(stuck.opened_at))
    yield _line("Found", f"{len(groups(model))} groups, {moved[0]['rebalances']} rebalances, {len(opened)} incidents")
    yield _line("Open", f"[bold]{escape(ours('dashboard'))}[/], then {address}{incident_link(stuck.incident_id)}")
    yield _line("Why it was stuck", f"[bold]{escape(ours('incident', 'show', stuck.incident_id[:SHORT_ID]))}[/]")
    yield _line("Who owned it", f"[bold]{escape(owned)}[/]")
    yield _line(
        "Your own cluster", "[bold]rebalance-watch up[/] (see README); a test cluster: [bold]rebalance-watch lab up[/]"
    )


def _line(title: str, text: str) -> str:
    return f"{title + ':':<18}{text}"


def _program() -> str:
    """Return the command that starts this program from the working directory."""
    return "rebalance-watch" if shutil.which("rebalance-watch") else _short(Path(sys.argv[0]))


def _short(path: Path) -> str:
    """Return a path relative to the working directory if it is below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
