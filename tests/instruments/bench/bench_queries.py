"""The response time of queries while the job writes: ``python -m tests.instruments.bench queries``.

The tables are made once and kept in a folder (4 GB): 30 days of 201 groups, with 10 million rows of history and 18
million of queue states (`month`). They are queried as ``maintain --every 1m`` leaves them, with the small files of the
last minute, and without maintenance. Another process appends to them as the job does. Each query
runs on a model that was just opened, as on the command line, and on a long-lived one, as in the dashboard.
"""

import multiprocessing
import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import pyarrow as pa
import typer
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from rebalance_model.entities import MessageQueue
from schemas.questions import answer, opened
from schemas.questions import questions as twelve_questions
from schemas.tables import DERIVED, TABLES
from streaming.base.settings import load_settings
from streaming.queries.group_at import find_group
from streaming.queries.groups import groups, overview
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.queries.lag import lag
from streaming.queries.ownership import diff, intervals, queues, who_owned
from streaming.queries.rebalances import rebalances
from streaming.queries.what_if import what_if
from streaming.tables import ReadModel
from streaming.tables.maintenance import Limits, maintain
from tests.instruments.bench.month import BIG_GROUP, DAY_MS, RAW_DAYS, TRIGGER_MS, Month, Size, write_month, write_on

END = 1_763_700_150_000
"""The end of the month; its value does not matter."""
TAIL_COMMITS = 150
"""Five minutes of a job's triggers."""
ROUND_COMMITS = 30
"""Those between two rounds of ``maintain --every 1m``."""
HOUR_MS = 3_600_000

Question = Callable[[ReadModel], object]


class Times(NamedTuple):
    """The response times of one query, in seconds."""

    fresh: list[float]
    living: list[float]


def questions(turn: int, incident_id: str) -> dict[str, Question]:
    """Return the queries of users; each turn is about another group and another time of the month."""
    name, number = f"group-{(turn * 37) % 200:03}", (turn * 37) % 200
    then = END - (1 + turn * 5 % 28) * DAY_MS
    topic = f"topic-{number:03}"

    def asked_for(question: Callable[..., object], group: str, begin: int, end: int) -> Question:
        return lambda model: question(model, find_group(model, group), begin, end)

    return {
        "groups, now": groups,
        "groups, then": lambda model: groups(model, then),
        "a group, now": lambda model: overview(model, find_group(model, name)),
        "a group, then": lambda model: overview(model, find_group(model, name, at=then)),
        "its queues, now": lambda model: queues(model, find_group(model, name)),
        "its queues, then": lambda model: queues(model, find_group(model, name, at=then)),
        "4,096 queues, now": lambda model: queues(model, find_group(model, BIG_GROUP)),
        "who owned a queue": lambda model: who_owned(
            model, find_group(model, name, at=then), MessageQueue(topic, "broker-a", 0)
        ),
        "intervals of 1 h": asked_for(intervals, name, then - HOUR_MS, then),
        "intervals of 1 d": asked_for(intervals, name, then - DAY_MS, then),
        "changes in 1 d": lambda model: diff(model, find_group(model, name, at=then - DAY_MS), then),
        "rebalances of 1 d": lambda model: rebalances(model, find_group(model, name), since=then - DAY_MS, until=then),
        "open incidents": lambda model: incidents(model, only_open=True),
        "incidents of 1 d": lambda model: incidents(model, group=name, since=then - DAY_MS, at=then),
        "an incident": lambda model: incident(model, incident_id),
        "lag of 1 d": asked_for(lag, name, then - DAY_MS, then),
        "lag of 4,096 queues": asked_for(lag, BIG_GROUP, END - HOUR_MS, END),
        "what if": lambda model: what_if(model, find_group(model, name), join=["10.0.0.99@1"]),
    }


def main(
    folder: Annotated[Path | None, typer.Option(help="Folder in which the tables are kept: 4 GB.")] = None,
    turns: Annotated[int, typer.Option(help="Number of runs of each query.")] = 20,
) -> None:
    """Make the tables if they do not exist, run the queries, and print the results."""
    console = Console(highlight=False)
    root = (folder or load_settings().runtime.root / "bench" / "month").resolve()
    _make(root / "month", lambda made: write_month(made, Month(Size(), END)))
    for kind in ("maintained", "unmaintained"):
        _make(root / kind, partial(_copy_on, root / "month", maintained=kind == "maintained"))
        with TemporaryDirectory(dir=root) as work, _written(root / kind, Path(work) / kind) as tables:
            with ReadModel(tables) as model:
                rows = {table: model.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in DERIVED}
            files = {table: len(DeltaTable(tables / table).file_uris()) for table in DERIVED}
            sizes = (f"{table} {rows[table]:,} rows in {files[table]:,} files" for table in DERIVED)
            console.print(f"\n[bold]{kind}[/]: {', '.join(sizes)}")
            _print_sizes(console, tables)
            _print(console, _asked(tables, turns))
            _print_twelve(console, tables)


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    """Make a folder, completely or not at all."""
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        make(unfinished)
        unfinished.rename(folder)


def _copy(root: Path, to: Path) -> None:
    """Make a runtime root of hard links: files of tables are never changed once written."""
    shutil.copytree(root, to, copy_function=os.link)


def _copy_on(month: Path, root: Path, *, maintained: bool) -> None:
    """Make the tables of the month and of five more minutes."""
    _copy(month, root)
    tail = Month(Size(), END, seq=10**9)
    for first in range(0, TAIL_COMMITS, ROUND_COMMITS):
        if maintained:
            for table in TABLES:
                maintain(root / "tables", table, Limits())
        write_on(root, tail, END + first * TRIGGER_MS, ROUND_COMMITS)


@contextmanager
def _written(root: Path, work: Path) -> Iterator[Path]:
    """Yield a copy of the tables to which another process appends until the end of the block."""
    _copy(root, work)
    since = END + TAIL_COMMITS * TRIGGER_MS
    writer = multiprocessing.get_context("spawn").Process(
        target=write_on, args=(work, Month(Size(), END, seq=2 * 10**9), since, 10**6, 1.0), daemon=True
    )
    writer.start()
    try:
        yield work / "tables"
    finally:
        writer.terminate()
        writer.join()


def _asked(tables: Path, turns: int) -> dict[str, Times]:
    with _living(tables) as living:
        some = living.rows("SELECT a.incident_id FROM anomalies a WHERE a.time < from_ms(?) LIMIT ?", [END, turns])
        asked: dict[str, Times] = {}
        for turn in range(turns):
            for name, question in questions(turn, some[turn]["incident_id"]).items():
                times = asked.setdefault(name, Times([], []))
                times.living.append(_seconds(lambda question=question: question(living)))
                times.fresh.append(_seconds(lambda question=question: _opened(tables, question)))
    return asked


def _opened(tables: Path, question: Question) -> None:
    with ReadModel(tables) as model:
        question(model)


@contextmanager
def _living(tables: Path) -> Iterator[ReadModel]:
    """Yield a model that is refreshed every second, as in the dashboard."""
    over = threading.Event()
    with ReadModel(tables) as model:
        model.refresh()

        def look() -> None:
            while not over.wait(1):
                model.refresh()

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield model
        finally:
            over.set()
            looking.join()


def _seconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def _print(console: Console, asked: dict[str, Times]) -> None:
    table = Table("seconds for")
    for name in ("command line p50", "p95", "dashboard p50", "p95"):
        table.add_column(name, justify="right")
    for name, times in asked.items():
        table.add_row(name, *(f"{value:.2f}" for of in times for value in _p50_p95(of)))
    whole = Times(*(list(chain.from_iterable(of)) for of in zip(*asked.values(), strict=True)))
    table.add_row("all of them", *(f"{value:.2f}" for of in whole for value in _p50_p95(of)), style="bold")
    console.print(
        table, f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end: 2 or 3 are the bench's own."
    )


def _print_twelve(console: Console, tables: Path) -> None:
    since, until, last_run = (
        datetime.fromtimestamp((END - before) / 1000, UTC) for before in (2 * DAY_MS, DAY_MS, HOUR_MS)
    )
    values = {"group": "group-077", "since": since, "until": until, "last_run": last_run}
    results = Table("question, the files opened before", "seconds")
    connection = opened(tables)
    for name, query in twelve_questions():
        seconds = _seconds(lambda query=query: pa.table(answer(connection, query, **values)))
        results.add_row(name, f"{seconds:.2f}")
    console.print(results)


def _print_sizes(console: Console, tables: Path) -> None:
    """Print the bytes a day on disk for 1,000 such groups."""
    size = Size()
    days = dict.fromkeys(TABLES, size.days) | {
        "queue_progress": RAW_DAYS, "queue_progress_minute": size.days - RAW_DAYS
    }  # fmt: skip
    results = Table("for 1,000 groups", "MB a day")
    for name in TABLES:
        actions = pa.table(DeltaTable(tables / name).get_add_actions(flatten=True))
        total = sum(actions.column("size_bytes").to_pylist())
        results.add_row(name, f"{total / days[name] / (size.groups + 1) * 1_000 / 1e6:,.1f}")
    console.print(results)


def _p50_p95(seconds: list[float]) -> tuple[float, float]:
    return statistics.median(seconds), sorted(seconds)[-(-len(seconds) * 95 // 100) - 1]


if __name__ == "__main__":
    sys.exit(typer.run(main))
