"""Ends of a user's SQL: time, memory, the size of its result, and the end of the process that asks."""

import json
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from streaming.base.errors import NotReadyError, UserError
from streaming.base.limits import SQL_MEMORY_BYTES
from streaming.queries.sql_process import SqlPool, SqlProcess
from tests.support.story import orders
from tests.support.tables import append, make_tables

pytestmark = pytest.mark.xdist_group("sql process")  # one process writes the tables for all of them
IN_A_FUNCTION = "SELECT levenshtein(repeat('a', 400000), repeat('b', 400000))"
"""Takes minutes."""
SOON_SECONDS = 60
"""Before such a query would end by itself, on a machine with other tests."""
LONG = (IN_A_FUNCTION, "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = make_tables(tmp_path_factory.mktemp("sql") / "tables")
    append(folder, orders())
    return folder


@pytest.fixture
def pool(tables):
    made = SqlPool(tables)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tables):
    with SqlProcess(tables, lasting=True) as process:
        yield process


def ask(process, query, timeout_s=90.0, limit=100):
    return json.loads(process.ask(query, timeout_s=timeout_s, limit=limit).content)


def test_one_question_loads_no_numpy(tables):
    """It would take a quarter of the processor time of `rebalance-watch sql`."""
    with SqlProcess(tables) as process:
        answer = ask(process, "SELECT TIMESTAMPTZ '2026-11-21 16:00:00+00' UNION ALL SELECT NULL")
        loaded = Path(f"/proc/{process._process.pid}/maps").read_text()
    assert answer["rows"] == [["2026-11-21T16:00:00.000Z"], [None]]
    assert "pyarrow" in loaded
    assert "numpy" not in loaded


def test_a_query_is_stopped_in_time_wherever_it_is(pool):
    """A new process opens the tables meanwhile, for the next one."""
    for query in LONG:
        pool.ask("SELECT 1", timeout_s=90, limit=1)
        began = time.monotonic()
        with pytest.raises(UserError, match=r"more than 0\.3 seconds"):
            pool.ask(query, timeout_s=0.3, limit=1)
        assert time.monotonic() - began < SOON_SECONDS
    assert ask(pool, "SELECT count(*) AS n FROM rebalances")["columns"] == ["n"]


def test_a_query_gets_no_more_memory_than_its_limit(tables):
    """Also of that which DuckDB's own limit does not count: the string of a function."""
    with SqlProcess(tables) as process:
        ask(process, "SELECT 1")
        before = memory_most(process)
        with pytest.raises(UserError, match=r"memory|Memory"):
            ask(process, "SELECT length(repeat('a', 3000000000))")
        assert memory_most(process) - before < SQL_MEMORY_BYTES
        with suppress(UserError):  # within DuckDB's own limit, which depends on the number of its threads
            ask(process, "SELECT len(list(r.range)) FROM range(60000000) r")
        assert process.closed, "it keeps what the query has freed, and has too little for the next one"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT repeat('x', 100000) FROM range(1000)", "The result has 100 MB, the limit is 64"),
        pytest.param(f"SELECT {'[' * 120}1{']' * 120}", "result nests too deeply", id="nested result"),
        pytest.param(f"SELECT {'[' * 900}1{']' * 900}", "query nests too deeply", id="nested query"),
        ("SELECT * FROM nothing", "Unknown table"),
        ("DROP TABLE rebalances", "single SELECT"),
    ],
)
def test_what_is_refused_is_a_sentence(shared, query, says):
    with pytest.raises(UserError, match=says) as refused:
        shared.ask(query, timeout_s=90, limit=10_000)
    assert "\n" not in str(refused.value)


def test_rows_are_limited_and_new_ones_are_seen(shared, tables):
    assert ask(shared, "SELECT * FROM range(5) ORDER BY ALL", limit=2) == {
        "columns": ["range"], "rows": [[0], [1]], "cut": True, "durations": [], "warnings": [],
    }  # fmt: skip
    append(tables, orders())
    deadline = time.monotonic() + SOON_SECONDS
    while ask(shared, "SELECT count(*) FROM rebalances")["rows"] != [[4]]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_without_tables_it_says_so(tmp_path):
    with SqlProcess(tmp_path / "tables") as process, pytest.raises(NotReadyError, match="There are no tables"):
        ask(process, "SELECT 1")


def test_a_query_waits_for_no_module_that_it_can_do_without(tables):
    """By itself pyarrow imports pandas for the first time of a row."""
    asking = (
        "import sys; from pathlib import Path; from streaming.queries.sql_worker import ReadModel, sql\n"
        "rows = sql(ReadModel(Path(sys.argv[1])), 'SELECT a.time, NULL::TIMESTAMPTZ AS no FROM anomalies a').rows\n"
        "print(rows[0], {'pandas', 'pydantic', 'fastapi'}.intersection(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", asking, tables], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\('1970-01-01T00:00:00\.\d{3}Z', None\) set\(\)\n", ran.stdout)


def test_when_its_asker_is_killed_the_query_ends(tables):
    asking = (
        "import sys; from pathlib import Path; from streaming.queries.sql_process import SqlProcess\n"
        "process = SqlProcess(Path(sys.argv[1])); process.ask('SELECT 1', timeout_s=90, limit=1)\n"
        "print(process._process.pid, flush=True); process.ask(sys.argv[2], timeout_s=1, limit=1)"
    )
    query = IN_A_FUNCTION
    with subprocess.Popen([sys.executable, "-c", asking, tables, query], stdout=subprocess.PIPE, text=True) as asker:
        pid = int(asker.stdout.readline())
        asker.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + SOON_SECONDS
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_closing_the_pool_ends_a_query(tables):
    pool = SqlPool(tables)
    pool.ask("SELECT 1", timeout_s=90, limit=1)
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(pool.ask, IN_A_FUNCTION, timeout_s=600, limit=1)
        while not pool._busy:
            time.sleep(0.01)
        began = time.monotonic()
        pool.close()
        assert isinstance(asked.exception(), UserError)
    assert time.monotonic() - began < SOON_SECONDS


def memory_most(process):
    """Return the most memory that a process has used, in bytes."""
    text = Path(f"/proc/{process._process.pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def is_alive(pid):
    with suppress(FileNotFoundError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False
