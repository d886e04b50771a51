"""The last figures of each bench, in `FIGURES.md`: a bench prints its own beside them, and keeps its own instead.

So the next loss is seen on the day on which it happens: ``git diff`` after ``make bench`` has the figures that changed.
"""

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

FILE = Path(__file__).with_name("FIGURES.md")
_HEAD = """# The last figures of each bench

Written by `make bench`, beside what it prints; each figure has its day and its commit. Times are those of the machine
and its load at that moment: compare ratios, calls and bytes, or run both commits by turns.

| bench | figure | value | day | commit |
| --- | --- | ---: | --- | --- |
"""


class Figure(NamedTuple):
    """One line of the file."""

    bench: str
    name: str
    value: str
    day: str
    commit: str


def keep(bench: str, figures: dict[str, float], *, writes: bool = True, file: Path = FILE) -> Table:
    """Keep the figures of a bench, and return them as a table with the change against the last ones.

    Args:
        bench: its name in `make bench`.
        figures: each by its name, which ends with its unit; those that the bench did not measure this time stay.
        writes: whether to keep them; else they are only compared, as those of another size.
        file: where they are kept.
    """
    last = {(one.bench, one.name): one for one in _read(file)}
    table = Table("", "now", "last", "change", "last of", title=bench)
    day, commit = f"{datetime.now(UTC):%Y-%m-%d}", _commit()
    for name, value in figures.items():
        before, shown = last.get((bench, name)), _shown(value)
        last[bench, name] = Figure(bench, name, shown, day, commit)
        change = (before.value, _change(before.value, value), f"{before.day}, {before.commit}") if before else ("",) * 3
        table.add_row(name, shown, *change)
    if writes:
        lines = ("| " + " | ".join(last[key]) + " |\n" for key in sorted(last))
        file.write_text(_HEAD + "".join(lines), "utf-8")
    return table


def _read(file: Path) -> list[Figure]:
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| "))
    return [Figure(*row) for row in list(cells)[2:]]


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _change(before: str, now: float) -> str:
    former = float(before.replace(",", ""))
    return f"{now / former - 1:+.0%}" if former else ""


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=FILE.parent, capture_output=True, text=True, check=True).stdout.strip()
