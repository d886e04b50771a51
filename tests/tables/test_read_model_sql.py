"""Rights of people's own SQL: it can ask, and nothing else."""

import pytest

from streaming.base.errors import UserError
from streaming.tables import ReadModel
from tests.support.story import orders
from tests.support.tables import append, make_tables

SECRET = "the-secret-of-the-test"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    (folder / "secret.csv").write_text(SECRET)
    (folder / "secret.json").write_text(f'{{"a": "{SECRET}"}}')
    append(make_tables(folder / "tables"), orders())
    return folder


@pytest.fixture(scope="module")
def model(folder):
    with ReadModel(folder / "tables") as opened:
        yield opened


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT o.queue_id FROM current_owners o WHERE o.client_id IS NULL", [(2,)]),
        ("FROM who_owned_at(from_ms(550)) w SELECT w.client_id, w.queue_id WHERE w.queue_id = 0 AND w.topic = 'Orders'",
         [("B", 0)]),
        ("WITH a AS (SELECT h.seq FROM assignment_history h), b AS (SELECT max(a.seq) > 0 AS m FROM a) SELECT m FROM b",
         [(True,)]),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT sum(i) FROM n", [(6,)]),
        ("SELECT u.x FROM unnest([1, 2]) AS u(x)", [(1,), (2,)]),
        ("WITH Columns AS (SELECT 1 AS a), tables AS (FROM COLUMNS) SELECT a FROM tables", [(1,)]),
        ("VALUES (1)", [(1,)]),
        ("SELECT m.queue.queue_id FROM (SELECT unnest(r.moves) AS m FROM rebalances r) LIMIT 1", [(0,)]),
        ("SELECT count(*) FROM REBALANCES", [(2,)]),
    ],
)  # fmt: skip
def test_a_question_is_answered(model, query, rows):
    answer = model.ask(query)

    assert ([tuple(row.values()) for row in answer.table.to_pylist()], answer.cut) == (rows, False)


def test_tables_and_columns_can_be_looked_up(model):
    assert {"anomalies", "current_owners"} <= set(model.ask("SHOW TABLES").table.column("name").to_pylist())
    assert "converged" in model.ask("DESCRIBE rebalances").table.column("column_name").to_pylist()


def test_functions_are_listed_with_their_parameters(model):
    rows = {row["function"]: row for row in model.ask("show functions;").table.to_pylist()}

    assert rows["owners_at(instant)"]["parameters"] == "instant TIMESTAMPTZ"
    assert rows["owner_changes(earlier, later)"]["meaning"].startswith("A queue whose owner")
    assert "from_ms(ms)" in rows
    for call in rows.keys() - {"from_ms(ms)"}:
        model.ask(f"FROM {call.replace('instant', 'now()').replace('earlier', 'now()').replace('later', 'now()')}")


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT * FROM incidents i WHERE group = 'a'", r'group is a keyword of SQL: write i\."group"'),
        ("SELECT * FROM incidents WHERE group = 'a'", r'group is a keyword of SQL: write "group"'),
        ("FROM owners_at(from_ms(3)) AS o WHERE group = 'a'", r'write o\."group"'),
        ("SELECT offset FROM telemetry t LIMIT 1 OFFSET 2", r'offset is a keyword of SQL: write t\."offset"'),
        ("SELECT i.kode FROM incidents i", r"no?t have a column named \"kode\" \(candidate bindings: code\)"),
        ("SELECT o.klient FROM owners_at(now()) o", r"\(candidate bindings: client_id\)"),
        ("SELECT o.xyzzy FROM owners_at(now()) o", r"\(its columns: cluster, group, topic, broker, queue_id,"),
        ("SELECT openedat FROM incidents", r"candidate bindings: \"opened_at\""),
        ("FROM owners_at()", r"call owners_at\(instant\)"),
        ("FROM owner_changes(now())", r"call owner_changes\(earlier, later\)"),
    ],
)  # fmt: skip
def test_an_error_says_what_may_be_meant(model, query, hint):
    with pytest.raises(UserError, match=hint):
        model.ask(query)


@pytest.mark.parametrize(
    "query",
    ["SELECT count(* FROM incidents i GROUP BY i.code", "SELEC 'group' FROM incidents i", "SELEC i.\"group\" FROM x",
     "SELEC 1 LIMIT 1 OFFSET 2", "SELEC i.group FROM incidents i"],
)  # fmt: skip
def test_a_keyword_at_its_place_is_no_hint(model, query):
    with pytest.raises(UserError) as failed:
        model.ask(query)
    assert "is a keyword" not in str(failed.value)


def test_a_query_takes_parameters(model):
    assert model.ask("SELECT r.rebalance_id FROM rebalances r WHERE r.end_time > from_ms(?)", [600]).table.num_rows == 1
    assert model.ask("SELECT * FROM owners_at(from_ms($t))", {"t": 100}).table.num_rows == 4


READERS = (
    "read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_json_objects", "read_ndjson",
    "read_ndjson_objects", "read_ndjson_auto", "read_text", "read_blob", "read_parquet", "parquet_scan",
    "parquet_metadata", "parquet_schema", "parquet_file_metadata", "parquet_kv_metadata", "read_duckdb", "sniff_csv",
    "glob",
)  # fmt: skip


@pytest.mark.parametrize("function", READERS)
def test_no_table_function_reads_a_file(model, folder, function):
    """Neither a stranger's file nor one of the tables' own, nor from inside of anything."""
    own = next((folder / "tables").rglob("*.parquet"))
    for file in (folder / "secret.csv", folder / "secret.json", own):
        for query in (
            f"SELECT * FROM {function}('{file}')",
            f"SELECT (SELECT count(*) FROM {function}('{file}'))",
            f"WITH x AS (FROM {function}('{file}')) SELECT * FROM x",
            f"SELECT 1 FROM rebalances r, LATERAL (SELECT * FROM main.{function}('{file}'))",
            f"SELECT 1 WHERE EXISTS (FROM system.main.{function}(['{file}']))",
        ):
            with pytest.raises(UserError, match="can't be used here"):
                model.ask(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM '{file}'",
        'FROM "{file}"',
        'WITH "{file}" AS (SELECT 1) SELECT * FROM "{file}"',
        "SELECT * FROM (WITH \"secret.csv\" AS (SELECT 1) SELECT 1), '{file}'",
        "DESCRIBE '{file}'",
        "SUMMARIZE '{file}'",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM main.rebalances",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM duckdb_views()",
        "SELECT * FROM pragma_version()",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('rebalances')",
        "SELECT * FROM 'http://127.0.0.1:1/x.parquet'",
        "SELECT * FROM which_secret('s3://x', 's3')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT * FROM histogram(rebalances, queues_moved)",
        "SELECT pg_get_viewdef(oid) FROM range(10000) r(oid)",
        "SELECT (SELECT 1 FROM (WITH duckdb_views AS (SELECT 1) SELECT 1)), * FROM duckdb_views",
        "WITH duckdb_views AS (SELECT * FROM duckdb_views) SELECT sql FROM duckdb_views",
        "WITH b AS (FROM duckdb_views), duckdb_views AS (SELECT 1) SELECT * FROM b",
        "WITH RECURSIVE DuckDB_Views AS (SELECT sql FROM duckdb_views UNION ALL SELECT '') FROM duckdb_views",
        "WITH sqlite_master AS (SELECT 1) SELECT * FROM sqlite_master",
        pytest.param("SELECT " + "[" * 900 + "1" + "]" * 900, id="nested"),
        "SELECT getenv('HOME')",
        "SELECT main.getenv('HOME')",
        "SELECT current_setting('temp_directory')",
        "SELECT current_query()",
        "SELECT getvariable('x')",
        "SELECT pg_sleep(1)",
        "SELECT nextval('s')",
        "SELECT write_log('x')",
        "COPY (SELECT 1) TO '{file}'",
        "COPY rebalances FROM '{file}'",
        "EXPORT DATABASE '{file}'",
        "IMPORT DATABASE '{file}'",
        "ATTACH '{file}'",
        "DETACH memory",
        "USE memory",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{file}'",
        "SET threads = 1",
        "RESET threads",
        "SET enable_external_access = true",
        "SET VARIABLE x = 1",
        "PRAGMA database_list",
        "PRAGMA enable_profiling",
        "CALL pragma_version()",
        "CHECKPOINT",
        "VACUUM",
        "BEGIN",
        "CREATE TABLE t (a INT)",
        "CREATE OR REPLACE VIEW rebalances AS SELECT 1",
        "CREATE MACRO m() AS 1",
        "CREATE SECRET s (TYPE s3)",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW rebalances",
        "INSERT INTO rebalances VALUES (1)",
        "UPDATE rebalances SET seq = 1",
        "DELETE FROM rebalances",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "EXPLAIN ANALYZE SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW rebalances",
        "",
        "   -- nothing",
    ],
)
def test_nothing_else_is_done(model, folder, query):
    with pytest.raises(UserError) as error:
        model.ask(query.replace("{file}", str(folder / "secret.csv")))

    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)
    assert model.ask("SELECT count(*) AS n FROM rebalances").table.to_pylist() == [{"n": 2}]


def test_the_database_itself_reads_no_file_but_the_tables(model, folder):
    """The second fence, for a query of ours that is wrong, and whatever the first one might let pass."""
    for query in ("SELECT * FROM read_text('{}')", "SELECT * FROM '{}'", "COPY (SELECT 1) TO '{}'", "ATTACH '{}'"):
        with pytest.raises(UserError, match="disabled"):
            model.sql(query.format(folder / "secret.csv"))
    with pytest.raises(UserError, match="locked"):
        model.sql("SET enable_external_access = true")


def test_more_rows_than_wanted_are_cut_and_never_made(model):
    assert model.ask("SELECT * FROM range(5)", limit=5).cut is False
    answer = model.ask("SELECT * FROM range(5)", limit=4)
    assert (answer.table.num_rows, answer.cut) == (4, True)
    assert model.ask("SELECT * FROM range(1000000000000)").table.num_rows == 10_000
