"""The response time of queries over tables in an object store, beside those on the local disk.

``python -m tests.instruments.bench object_store``. The tables are the maintained month of `bench_queries`, copied into
the folder of a server of S3's protocol. Each query is asked of both in turn, by a model that was just opened, as
on the command line, and by a long-lived one, as in the dashboard.
"""

import os
import shutil
import sys
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from streaming.base.place import Place, tables_of
from streaming.base.settings import load_settings
from tests.instruments.bench import bench_queries as local
from tests.instruments.bench.month import Month, Size, write_month
from tests.support.object_store import ObjectStore

DISK, STORE = "local disk", "object store"


def main(
    folder: Annotated[Path | None, typer.Option(help="Folder in which the tables are kept: 15 GB meanwhile.")] = None,
    turns: Annotated[int, typer.Option(help="Number of runs of each query.")] = 10,
) -> None:
    """Make the tables if they do not exist, run the queries, and print the results."""
    console = Console(highlight=False, width=160)
    root = (folder or load_settings().runtime.root / "bench" / "month").resolve()
    local._make(root / "month", lambda made: write_month(made, Month(Size(), local.END)))
    local._make(root / "maintained", lambda made: local._copy_on(root / "month", made, maintained=True))
    with TemporaryDirectory(dir=root) as work, ObjectStore(Path(work), serial=False) as store:
        objects = Path(work) / "objects" / store.bucket / "tables"
        shutil.copytree(root / "maintained" / "tables", objects, copy_function=_as_object)
        settings = load_settings(runtime={"root": Path(work) / "root"}, storage=store.settings())
        there = tables_of(settings)
        _print_first(console, there)
        _print(console, _asked({DISK: root / "maintained" / "tables", STORE: there}, turns))


def _as_object(file: str, copy: str) -> None:
    """Copy a file, and give it the attributes that the server expects of its objects."""
    shutil.copyfile(file, copy)
    os.setxattr(copy, "user.user.content-md5", bytes(16))
    os.setxattr(copy, "user.user.storage-tier", b"STANDARD")


def _print_first(console: Console, tables: Place) -> None:
    """Print how long the first questions take, for which the files are fetched."""
    for name, question in local.questions(0, "").items():
        if name in {"groups, now", "its queues, now", "lag of 1 d"}:
            seconds = local._seconds(lambda question=question: local._opened(tables, question))
            console.print(f"{name}, the first time: {seconds:.1f} s")


def _asked(places: dict[str, Place], turns: int) -> dict[str, dict[str, local.Times]]:
    """Return the times of each query by the place of the tables."""
    asked: dict[str, dict[str, local.Times]] = {}
    with local._living(places[DISK]) as on_disk, local._living(places[STORE]) as in_store:
        living = {DISK: on_disk, STORE: in_store}
        some = on_disk.rows("SELECT a.incident_id FROM anomalies a LIMIT ?", [turns + 1])
        for turn in range(turns + 1):
            for name, question in local.questions(turn, some[turn]["incident_id"]).items():
                for place, tables in places.items():
                    times = local.Times(
                        [local._seconds(lambda tables=tables, question=question: local._opened(tables, question))],
                        [local._seconds(lambda place=place, question=question: question(living[place]))],
                    )
                    if turn:  # the first one fetches files
                        known = asked.setdefault(name, {}).setdefault(place, local.Times([], []))
                        known.fresh.extend(times.fresh)
                        known.living.extend(times.living)
    return asked


def _print(console: Console, asked: dict[str, dict[str, local.Times]]) -> None:
    table = Table("seconds for")
    for kind in ("command line", "dashboard"):
        for name in (f"{kind}: disk p50", "p95", "store p50", "p95", "p95 is times"):
            table.add_column(name, justify="right")
    whole = {
        place: local.Times(*(list(chain.from_iterable(getattr(of[place], kind) for of in asked.values()))
                             for kind in ("fresh", "living")))
        for place in (DISK, STORE)
    }  # fmt: skip
    for name, times in (*asked.items(), ("all of them", whole)):
        cells: list[str] = []
        for kind in ("fresh", "living"):
            disk, store = (local._p50_p95(getattr(times[place], kind)) for place in (DISK, STORE))
            cells += (f"{value:.2f}" for value in (*disk, *store, store[1] / disk[1]))
        table.add_row(name, *cells)
    console.print(table)


if __name__ == "__main__":
    sys.exit(typer.run(main))
