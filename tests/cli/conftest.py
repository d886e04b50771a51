"""Commands that ask known tables."""

from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from streaming.base import times
from streaming.cli import main, output
from tests.support.asked import END


class Ended(NamedTuple):
    """The end of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def ask(asked_model, monkeypatch):
    """Run a command over the tables, in a terminal of so many columns; the clock stands at the log's end.

    The tables are opened once for all: that takes longer than the commands.
    """
    monkeypatch.setattr(output, "tables", lambda: nullcontext(asked_model))
    monkeypatch.setattr(times.time, "time_ns", lambda: END * 1_000_000)

    def run(*arguments: str, columns: int | None = None) -> Ended:
        if columns is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(columns))
        ended = CliRunner().invoke(main.app, arguments)
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def ask_at(monkeypatch):
    """Run a command over the tables of a root, which it opens itself."""

    def run(root: Path, *arguments: str, given: str | None = None):
        monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(root))
        return CliRunner().invoke(main.app, arguments, input=given)

    return run
