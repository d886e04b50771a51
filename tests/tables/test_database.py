"""DuckDB never reaches out: each database is opened by one function, and asks no server whatever a query names."""

import ast
from contextlib import suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from threading import Thread

import duckdb
import pytest

from streaming.tables import ReadModel
from streaming.tables.database import connected
from tests.support.tables import make_tables

ROOT = Path(__file__).parents[2]
OUTSIDE = [
    "SELECT * FROM 'https://127.0.0.1:{port}/rows.parquet'",
    "SELECT * FROM read_parquet('s3://bucket/rows.parquet')",
    "SELECT * FROM read_csv('http://127.0.0.1:{port}/rows.csv')",
    "SELECT * FROM delta_scan('elsewhere')",
    "SELECT * FROM sqlite_scan('some.db', 'rows')",
    "ATTACH 'postgres:host=127.0.0.1 port={port}' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT st_point(1, 2)",
]


def test_each_database_is_opened_by_one_function():
    """But by the example for programs that have nothing of this package, which sets the same."""
    opening = set()
    for folder in ("checkpoints", "schemas", "streaming"):
        for path in (ROOT / folder).rglob("*.py"):
            calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
            if any(ast.unparse(call.func) == "duckdb.connect" for call in calls):
                opening.add(path.relative_to(ROOT).as_posix())
    assert opening == {"streaming/tables/database.py", "schemas/questions/__init__.py"}
    assert '"autoload_known_extensions": "false"' in (ROOT / "schemas/questions/__init__.py").read_text("utf-8")


@pytest.mark.parametrize("query", [*OUTSIDE, "COPY (SELECT 1) TO '../outside.parquet'"])
def test_what_is_outside_is_refused_at_once(tmp_path, query):
    with connected(tmp_path) as database, pytest.raises(duckdb.Error):
        database.execute(query.format(port=1))


def test_files_below_the_folder_are_read_and_written(tmp_path):
    with connected(tmp_path, spill=tmp_path) as database:
        database.execute(f"COPY (SELECT 1 AS one) TO '{tmp_path}/rows.parquet'")
        assert database.sql(f"SELECT one FROM '{tmp_path}/rows.parquet'").fetchall() == [(1,)]
        for name in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
            assert database.sql(f"SELECT current_setting('{name}')").fetchall() == [(False,)]
        with pytest.raises(duckdb.Error, match="disabled by configuration"):
            database.sql(f"SELECT * FROM read_text('{ROOT}/README.md')")


class Requests(ThreadingHTTPServer):
    """A server for files and for extensions, which counts the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SimpleHTTPRequestHandler)
        self.count = 0

    def get_request(self) -> tuple[socket, tuple[str, int]]:
        self.count += 1
        return super().get_request()


@pytest.mark.parametrize(("opened", "asks"), [(duckdb.connect, True), (connected, False)], ids=["as it is", "as ours"])
def test_no_query_makes_a_call_to_the_network(opened, asks):
    """An extension that a path seems to need is not fetched; DuckDB as it is would fetch it."""
    with Requests() as server, opened() as database:
        Thread(target=server.serve_forever, daemon=True).start()
        database.execute(f"SET custom_extension_repository = 'http://127.0.0.1:{server.server_port}'")
        for query in OUTSIDE:
            with suppress(duckdb.Error):
                database.execute(query.format(port=server.server_port))
        server.shutdown()
        assert bool(server.count) == asks


def test_a_model_of_the_tables_reaches_out_nowhere(tmp_path):
    with ReadModel(make_tables(tmp_path / "tables")) as model:
        names = ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access")
        settings = ", ".join(f"current_setting('{name}') AS {name}" for name in names)
        assert model.rows(f"SELECT {settings}") == [dict.fromkeys(names, False)]
