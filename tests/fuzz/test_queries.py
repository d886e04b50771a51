"""Mutated SQL of users: each query is answered or refused in a sentence, in time; the next one works."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.base.errors import UserError
from streaming.base.limits import SQL_MEMORY_BYTES
from streaming.queries.sql_process import SqlProcess
from tests.fuzz.forms import fuzzed
from tests.support.world import example

pytestmark = pytest.mark.xdist_group("mutated queries")  # one process writes and opens the tables for all of them
SECONDS_MAX = 2.0
"""The limit of a query's time."""
HANG_SECONDS = 60.0
"""No query takes so long, its process's start included, on a busy machine either."""
OPEN_BYTES = 600_000_000
"""What the process takes with the open tables, at most."""

QUERIES = (
    "SELECT g.group, g.health FROM current_groups g WHERE g.health <> 'OK' ORDER BY 1 LIMIT 5",
    "WITH a AS (SELECT code, count(*) AS n FROM incidents GROUP BY ALL HAVING n > 0) SELECT * FROM a, a b",
    "SELECT i.*, sum(i.queue_id) OVER (PARTITION BY i.code ORDER BY i.time) AS total FROM incidents i",
    "SELECT list(n), max(n) FROM range(10) t(n) WHERE n IN (SELECT queue_id FROM queues)",
    "SELECT CASE WHEN time > TIMESTAMP '2026-11-21' THEN 1 END, evidence::JSON ->> '$.a' FROM open_incidents",
    "SELECT {'a': [1, 2]}, MAP {'k': 1}, INTERVAL 1 DAY, 'x' LIKE '%y', 1e3::DECIMAL(9, 2), x'00'::BLOB",
    "SELECT levenshtein(repeat('a', 90), repeat('b', 90)), regexp_replace('aaa', '(a+)+$', 'b', 'g')",
    "DESCRIBE incidents", "SHOW TABLES",
)  # fmt: skip
PARTS = (
    "*", ",", "(", ")", "((((", ";", "--", "/*", "'", '"', "$$", "?", "$1", ".", "::", "[", "]", "{", "}", "NULL", "''",
    "0", "-1", "1e400", "9" * 50, "9223372036854775808", "'\u0000'", "'\U0001f600'", "\ud800", "DISTINCT", "ALL",
    "UNION ALL", "EXCEPT", "RECURSIVE", "LATERAL", "CROSS JOIN range(1000)", "range(100000000000)",
    "repeat('x', 1e9::INT)",
    "read_text('/etc/passwd')", "'/etc/passwd'", "glob('*')", "duckdb_settings()", "duckdb_secrets()", "sqlite_master",
    "information_schema.tables", "pg_catalog.pg_class", "getenv('HOME')", "current_setting('temp_directory')",
    "COPY incidents TO 'x'", "ATTACH 'x'", "PRAGMA version", "SET threads = 1", "INSTALL httpfs", "CALL x()", "EXPLAIN",
    "CREATE TABLE zq AS", "error('no')", "random()", "pg_sleep(9)", "list_transform(range(9), x -> x + 1)",
    "unnest(range(100000))", "'x'::TIMESTAMP", "::INT", "::UUID", "1/0", "AS", "group", "incidents", "telemetry", "zq",
    "[" * 200, "(" * 1_000, "1+" * 2_000 + "1", "SELECT " * 40, "~", "%", "@", "#1", "e'\\x00'", "GROUPING SETS (())",
)  # fmt: skip
_TOKEN = re.compile(r"'[^']*'|\w+|\s+|[^\w\s]")
_PLACES = st.integers(0, 0xFFFF)


def mutant(query, steps):
    """Return a query after some steps: a token is replaced, removed, doubled, or comes from another query."""
    tokens = _TOKEN.findall(query)
    for kind, first, other in steps:
        at = first % (len(tokens) + 1)
        theirs = _TOKEN.findall(QUERIES[other % len(QUERIES)])
        new = {"part": [PARTS[other % len(PARTS)]], "cut": [], "borrow": [theirs[first % len(theirs)]]}
        tokens[at : at + (kind != "insert")] = new.get(kind, [" ", PARTS[other % len(PARTS)], " "])
    return "".join(tokens)


_STEPS = st.lists(
    st.tuples(st.sampled_from(("part", "part", "insert", "cut", "borrow")), _PLACES, _PLACES), min_size=1, max_size=3
)
MUTANTS = st.builds(mutant, st.sampled_from(QUERIES), _STEPS)


class Asker:
    """A process for queries; after one that ended it, another."""

    def __init__(self, tables):
        self._tables = tables
        self._process = SqlProcess(tables, lasting=True)
        self.peak_bytes = 0

    def ask(self, query):
        """Return the answer, or the refusal, and whether the process has ended."""
        try:
            text, answered = self._process.ask(query, timeout_s=SECONDS_MAX, limit=8).content.decode(), True
        except UserError as error:
            text, answered = str(error), False
        has_ended = self._process.closed
        if has_ended:
            self._process.close()
            self._process = SqlProcess(self._tables, lasting=True)
        else:
            status = Path(f"/proc/{self._process._process.pid}/status").read_text()
            self.peak_bytes = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024
        return text, answered, has_ended

    def close(self):
        self._process.close()


@pytest.fixture(scope="module")
def asker(tmp_path_factory):
    tables = tmp_path_factory.mktemp("queries") / "tables"
    example().write(tables)
    made = Asker(tables)
    yield made
    made.close()


@given(query=MUTANTS)
@fuzzed(short=40, long=3_000)
def test_a_mutated_query_is_answered_or_refused_in_a_sentence(asker, tmp_path_factory, query, tally, form):
    begin = time.monotonic()
    with tally.in_time():
        text, answered, has_ended = asker.ask(query)
    assert time.monotonic() - begin < HANG_SECONDS
    assert str(tmp_path_factory.getbasetemp()) not in text
    assert "root:x:0" not in text
    assert "Traceback" not in text
    assert answered or (text.strip() and "nests too deeply" not in text) or "(" * 100 in query or "[" * 100 in query
    assert asker.peak_bytes < OPEN_BYTES + SQL_MEMORY_BYTES
    tally.add("queries answered" if answered else "queries that ended it" if has_ended else "queries refused")


def test_the_process_answers_after_each_kind_of_query(asker):
    for query in (
        "SELECT repeat('x', 1e9::INT)",
        "SELECT count(*) FROM range(100000000000)",
        "SELECT \ud800",
        "SELECT",
    ):
        asker.ask(query)
        assert asker.ask("SELECT 42")[:2] == (
            '{"columns":["42"],"rows":[[42]],"cut":false,"durations":[],"warnings":[]}',
            True,
        )
