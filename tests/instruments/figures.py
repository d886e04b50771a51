"""The last figures of benches (`bench/FIGURES.md`) and proofs (`tests/PROVED.md`): who makes one keeps it there.

Each has its day and its commit. So the next loss is seen on the day on which it happens: ``git diff`` after
``make bench`` or ``make prove`` has the figures that changed; the history is git's.
"""

import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from streaming.base.files import FileLock

_TESTS = Path(__file__).parents[1]
_COLUMNS = "| {} | figure | value | day | commit |\n| --- | --- | {} | --- | --- |\n"


class Figure(NamedTuple):
    """One line of a file."""

    instrument: str
    """The bench or the proof."""
    name: str
    value: str
    day: str
    commit: str


class FigureFile(NamedTuple):
    """A file of figures, in a table of Markdown."""

    path: Path
    head: str

    def read(self) -> list[Figure]:
        """Return the figures of the file; none if there is no file."""
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| "))
        return [Figure(*row) for row in list(cells)[2:]]

    def keep(self, instrument: str, values: Mapping[str, str]) -> None:
        """Keep figures, each in place of the one of its name; the others stay, also where another process adds some."""
        day, at = f"{datetime.now(UTC):%Y-%m-%d}", commit()
        with FileLock(self.path):
            kept = {(figure.instrument, figure.name): figure for figure in self.read()}
            for name, value in values.items():
                kept[instrument, _cell(name)] = Figure(instrument, _cell(name), _cell(value), day, at)
            self.write(kept.values())

    def write(self, figures) -> None:
        """Write the whole file."""
        lines = ("| " + " | ".join(figure) + " |\n" for figure in sorted(figures))
        self.path.write_text(self.head + "".join(lines), "utf-8")


BENCHES = FigureFile(
    Path(__file__).parent / "bench" / "FIGURES.md",
    """# The last figures of each bench

Written by `make bench`, beside what it prints; each figure has its day and its commit. Times are those of the machine
and its load at that moment: compare ratios, calls and bytes, or run both commits by turns.

"""
    + _COLUMNS.format("bench", "---:"),
)
PROOFS = FigureFile(
    _TESTS / "PROVED.md",
    """# The latest figure of each proof

Written by the proofs (`make prove`, `python -m tests.detection`, …) when they end; git has the former ones. A proof is
a file or a command below `tests`, and how each works stands in [README.md](README.md#short-and-long-forms). A figure
that begins with "not met" is what was aimed at and not reached, or not run: who reaches it deletes the line.

"""
    + _COLUMNS.format("proof", "---"),
)


def keep(bench: str, figures: Mapping[str, float], *, writes: bool = True, file: FigureFile = BENCHES) -> Table:
    """Keep the figures of a bench, and return them as a table with the change against the last ones.

    Args:
        bench: its name in `make bench`.
        figures: each by its name, which ends with its unit; those that the bench did not measure this time stay.
        writes: whether to keep them; else they are only compared, as those of another size.
        file: where they are kept.
    """
    last = {figure.name: figure for figure in file.read() if figure.instrument == bench}
    table = Table("", "now", "last", "change", "last of", title=bench)
    for name, value in figures.items():
        before = last.get(name)
        change = (before.value, _change(before.value, value), f"{before.day}, {before.commit}") if before else ("",) * 3
        table.add_row(name, _shown(value), *change)
    if writes:
        file.keep(bench, {name: _shown(value) for name, value in figures.items()})
    return table


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _change(before: str, now: float) -> str:
    former = float(before.replace(",", ""))
    return f"{now / former - 1:+.0%}" if former else ""


def commit() -> str:
    """Return the commit that is checked out, and whether files differ from it other than those of figures."""
    kept = [f":(exclude){file.path.relative_to(_TESTS)}" for file in (BENCHES, PROOFS)]
    at = _git("rev-parse", "--short", "HEAD")
    return f"{at}-dirty" if _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *kept) else at


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=_TESTS, capture_output=True, text=True, check=True).stdout.strip()
