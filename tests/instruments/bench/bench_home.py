"""Waiting time for the home page of a thousand groups, and for the page of a large one.

``python -m tests.instruments.bench home``: the tables are of six hours of 1,000 groups of 4 to 12 queues (some of 60)
and one of 4,096 queues and 512 clients, as ``maintain`` leaves them. The home page is opened in a real Chromium with
each of its filters in turn, the page of the large group in each way to fold it, and their questions are asked alone.
The page without groups that match is the least: the frame of a page, and the groups' states, without rows.
"""

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from playwright.sync_api import Page
from rich.console import Console
from rich.table import Table

from schemas.tables import TABLES
from streaming.base.settings import load_settings
from streaming.base.times import now_ms
from streaming.queries.group_at import find_group
from streaming.queries.group_health import health_over
from streaming.queries.groups import groups
from streaming.queries.incidents import incidents
from streaming.queries.ownership import find_owned
from streaming.queries.present import history_ends
from streaming.queries.rolling_restart import rolling_restart
from streaming.queries.what_if import what_if
from streaming.serve.dashboard.pages.group_state import state
from streaming.serve.dashboard.parts.moment import Window
from streaming.serve.dashboard.timeline.lane_folds import history
from streaming.tables import ReadModel
from streaming.tables.maintenance import Limits, maintain
from tests.instruments.bench.month import BIG_GROUP, Month, Size, write_month
from tests.support.chromium import chromium, first_paint_ms
from tests.support.served import served

HOUR_MS = 3_600_000
SIZE = Size(groups=1_000, days=0.25, moves=25_000, incidents=1_000, events=200_000, commits=36)
ADDRESSES = {
    "home": "/",
    "not OK": "/?health=not-ok",
    "by lag": "/?sort=lag",
    "find a client": "/?find=10.0.7.1@",
    "no group matches": "/?find=%20nothing%20of%20that%20name",
    "4,096 queues": f"/group/{BIG_GROUP}",
    "4,096 queues by client": f"/group/{BIG_GROUP}?fold=client",
    "4,096 queues not folded": f"/group/{BIG_GROUP}?fold=none",
    "4,096 queues, what if": f"/group/{BIG_GROUP}/what-if?join=1",
}


def main(
    folder: Annotated[Path | None, typer.Option(help="Folder in which the tables are kept: 0.3 GB.")] = None,
    turns: Annotated[int, typer.Option(help="Number of runs of each page and question.")] = 20,
) -> None:
    """Make the tables if they do not exist, ask and open, and print the seconds."""
    console = Console(highlight=False)
    root = (folder or load_settings().runtime.root / "bench" / "home").resolve()
    _make(root)
    table = Table("seconds for", "p50", "p95")
    with ReadModel(root / "tables") as model:
        end = history_ends(model).last
        for name, question in _questions(model, end).items():
            _add(table, f"question: {name}", [_seconds(question) for _ in range(turns)])
    with served("dashboard", root, now=end) as base, chromium() as browser:
        page = browser.new_page()
        for name, address in ADDRESSES.items():
            found = [_opened(page, base + address) for _ in range(turns)]
            _add(table, f"page: {name}, first paint", [paint for paint, _ in found])
            _add(table, f"page: {name}, its rows", [rows for _, rows in found])
    console.print(table, f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end.")


def _make(root: Path) -> None:
    if not root.is_dir():
        unfinished = root.with_name(f"{root.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        write_month(unfinished, Month(SIZE, now_ms()))
        for table in TABLES:
            maintain(unfinished / "tables", table, Limits())
        unfinished.rename(root)


def _questions(model: ReadModel, end: int) -> dict[str, Callable[[], object]]:
    names = [(group.cluster, group.group) for group in groups(model, end)]
    return {
        "all groups": lambda: groups(model, end),
        "open incidents": lambda: incidents(model, only_open=True, at=end),
        "last hour of 50 groups": lambda: health_over(model, names[:50], end - HOUR_MS, end),
        "last hour of 1,000 groups": lambda: health_over(model, names, end - HOUR_MS, end),
        "queues of a client": lambda: find_owned(model, "10.0.7.1@", end - HOUR_MS, end, 2_000),
        "4,096 queues, now": lambda: state(model, BIG_GROUP, None, end),
        "4,096 queues, last hour": lambda: history(model, BIG_GROUP, None, Window(end - HOUR_MS, end)),
        "4,096 queues, what if": lambda: what_if(model, find_group(model, BIG_GROUP, at=end), join=["1"]),
        "4,096 queues, rolling restart": lambda: rolling_restart(model, find_group(model, BIG_GROUP, at=end)),
    }


def _opened(page: Page, address: str) -> tuple[float, float]:
    """Open a page; return the seconds until it shows content, and until it shows its rows."""
    page.goto(address, wait_until="commit")
    page.locator("#groups, #queues, #restart").first.wait_for()
    page.locator("tbody tr, .panel .empty").locator("visible=true").last.wait_for()
    shown = page.evaluate("performance.now()")
    return first_paint_ms(page) / 1_000, shown / 1_000


def _seconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def _add(table: Table, name: str, seconds: list[float]) -> None:
    p95 = sorted(seconds)[-(-len(seconds) * 95 // 100) - 1]
    table.add_row(name, f"{statistics.median(seconds):.2f}", f"{p95:.2f}")


if __name__ == "__main__":
    typer.run(main)
