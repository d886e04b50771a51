"""`rebalance-watch sql`: rows, more of them than asked for, and a query that takes long."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from streaming.base.errors import UserError
from streaming.cli import sql
from streaming.queries.sql_process import SqlProcess
from tests.support.processes import descendants


@pytest.fixture(scope="module")
def process(asked):
    with SqlProcess(asked) as opened:
        yield opened


@pytest.fixture
def ask_sql(ask, process, asked, monkeypatch):
    """Run the command; the process with the tables is started once for all, which takes longer than the queries."""
    monkeypatch.setattr(sql, "place_of_tables", lambda: asked)
    monkeypatch.setattr("streaming.queries.sql_process.SqlProcess", lambda _: nullcontext(process))
    return partial(ask, "sql")


def test_sql_prints_rows_and_says_when_there_are_more(ask_sql):
    query = "SELECT h.client_id, count(*) AS n, NULL AS x FROM assignment_history h GROUP BY ALL ORDER BY ALL"

    answer = json.loads(ask_sql(query, "--format", "json").out)
    assert answer["columns"] == ["client_id", "n", "x"]
    header, *rows = csv.reader(io.StringIO(ask_sql(query, "--format", "csv").out))
    assert header == answer["columns"]
    assert rows == [[client, str(n), ""] for client, n, _ in answer["rows"]]
    assert [line.split() for line in ask_sql(query).out.splitlines()[1:]] == [
        [client, f"{n}", "-"] for client, n, _ in answer["rows"]
    ]
    cut = ask_sql(query, "--limit", "1", columns=200)
    assert "there are more than 1 rows; increase --limit" in cut.err
    assert len(cut.out.splitlines()) == 2
    assert ask_sql(f"SELECT * FROM ({query}) WHERE n < 0").out == "No rows.\n"


def test_a_row_that_is_too_wide_stands_upright(ask_sql):
    shown = ask_sql("SELECT * FROM anomalies a ORDER BY a.time, a.cluster, a.group, a.seq LIMIT 2", columns=80).out
    assert [line.split()[0] for line in shown.splitlines() if line[:1].strip()][:3] == ["row", "cluster", "group"]
    assert "row 2" in shown


def test_sql_comes_from_stdin_too(asked, ask_at):
    ended = ask_at(asked.parent, "sql", "-", "--format", "csv", given="SELECT 41 + 1 AS answer")
    assert ended.stdout == "answer\n42\n"


def ticks_of(pid):
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


def eventually_busy(pid, seconds):
    """Wait until what a process has started had so many seconds of a processor: then it has begun with the query."""
    ticks, deadline = seconds * os.sysconf("SC_CLK_TCK"), time.monotonic() + 120
    while time.monotonic() < deadline:
        if sum(map(ticks_of, descendants(pid))) >= ticks:
            return
        time.sleep(0.2)  # a look at all processes takes a tenth of that
    pytest.fail("it does nothing")


def test_ctrl_c_ends_a_long_query_without_a_traceback(asked):
    long = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
    with subprocess.Popen(
        [sys.executable, "-m", "streaming.cli", "--root", str(asked.parent), "sql", long, "--timeout", "900"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as asking:  # fmt: skip
        eventually_busy(asking.pid, 2)
        asking.send_signal(signal.SIGINT)
        _, error = asking.communicate(timeout=120)
    assert (asking.returncode, error) == (130, "")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("SELECT * FROM nothing", "nothing"),
        ("DROP TABLE anomalies", "Only a single SELECT"),
        ("SELECT * FROM read_text('/etc/hostname')", "read_text"),
    ],
)
def test_a_query_that_is_not_allowed_or_fails_is_a_sentence(ask_sql, query, sentence):
    with pytest.raises(UserError, match=sentence):
        ask_sql(query)
