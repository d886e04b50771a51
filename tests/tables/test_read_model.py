"""The read model over tables written without Spark; the last tests ask Spark the same questions."""

import datetime as dt
import shutil
from pathlib import Path

import duckdb
import msgspec
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import ArrayType, PrimitiveType

from rebalance_model.observe.effects import (
    QueueProgress,
)
from schemas.arrow import in_epoch_ms
from schemas.rows import AlertControl
from schemas.tables import ADDED
from streaming.base.errors import NotReadyError, UserError
from streaming.tables import ReadModel
from streaming.tables.catalog import FUNCTIONS, VIEWS
from streaming.tables.observations import SEEN
from streaming.tables.table import register as register_in_duckdb
from tests.support.folding import folded
from tests.support.story import Story, forgotten, log, orders
from tests.support.tables import accepted, append, append_rows, archive, make_tables, selected, small_row
from tests.support.telemetry import telemetry

_INSTANTS = [f"TIMESTAMP '1970-01-01 00:00:00.{ms}'" for ms in (450, 650)]
RELATIONS = {name: name for name in VIEWS} | {
    name: f"{name}({', '.join(_INSTANTS[-len(given) :])})" for name, given in FUNCTIONS.items()
}
"""How a query names each view, or calls each function."""
DAMAGED = r"can't be read .*restore .* from one backup\.$"
SHORT = {"current_groups", "owner_changes", "progress_at", "rebalance_cost", "telemetry_events"}
"""Those that Spark is asked for in the short form: of groups, owners, quantities, pauses and events; the recipes
(`tests/docs/test_recipes.py`) ask it for incidents."""


def test_dead_letters_are_those_of_the_last_answer_and_no_queue(model):
    def letters(at: int) -> list[tuple[object, ...]]:
        rows = model.rows("SELECT * FROM dead_letters_at(from_ms($1))", [at])
        return [(row["topic"], row["added"], row["stored"], row["newest_at"], row["is_stale"]) for row in rows]

    assert letters(199) == []
    assert letters(459) == [("%DLQ%orders", 0, 0, None, False)]
    assert letters(460) == [("%DLQ%orders", 7, 3, 455, False)]
    assert letters(20_461) == [("%DLQ%orders", 7, 3, 455, True)]
    assert {row["topic"] for row in model.rows("SELECT * FROM progress_at(from_ms(460))")} == {"Orders"}


def test_an_instant_shows_the_last_observation_not_after_it(model):
    def queue(at: int, queue_id: int = 0) -> dict[str, object]:
        return model.rows("SELECT * FROM progress_at(from_ms($1)) p WHERE p.queue_id = $2", [at, queue_id])[0]

    assert model.rows("SELECT * FROM progress_at(from_ms(99))") == []
    first = queue(299)
    assert (first["lag"], first["lag_age_ms"], first["lag_is_stale"], first["lag_is_at_least"]) == (
        5,
        199,
        False,
        False,
    )
    assert (first["waiting_ms"], first["waiting_is_at_most"]) == (40, True)
    later = queue(600)
    assert (later["lag"], later["lag_time"]) == (5, 100), "an exact lag that is fresh, not the hook's lower bound"
    assert (later["waiting_ms"], later["waiting_is_at_most"], later["waiting_age_ms"]) == (12, False, 200)
    bound = queue(600, 1)
    assert (bound["lag"], bound["lag_is_at_least"], bound["lag_time"]) == (3, True, 300)


@pytest.mark.parametrize("step", [1, -1], ids=["in order", "not in order"])
def test_of_two_commits_in_one_millisecond_the_later_one_counts(tmp_path, step):
    """The first row has another queue, too: of rows about the same queues only the last one is read."""
    common = {"cluster": "c", "group": "g", "broker": "b"}
    answer = QueueProgress(
        **common, time=1_000, asked_at=995, interval_ms=10_000, source="POLL", kind="CONSUME_STATS", topic=("T",),
        queue_id=(0,), broker_offset=(254,), commit_offset=(253,), lag=(1,),
    )  # fmt: skip
    calls = [
        QueueProgress(
            **common, time=time, asked_at=None, interval_ms=60_000, source="HOOK", kind="HOOK", topic=("T",) * queues,
            queue_id=tuple(range(queues)), lag=(256 - commit,) * queues, lag_is_at_least=(True,) * queues,
            commit_offset=(commit,) * queues, commit_at=(2_000,) * queues, pull_offset=(256,) * queues,
            pull_at=(2_000,) * queues,
        )
        for time, commit, queues in ((2_000, 255, 2), (2_010, 256, 1))
    ]  # fmt: skip
    append(made := make_tables(tmp_path), [answer, *calls[::step]])
    with ReadModel(made) as model:
        [row] = model.rows("SELECT p.lag, p.commit_offset FROM progress_at(from_ms(2_020)) p WHERE p.queue_id = 0")
    assert row == {"lag": 0, "commit_offset": 256}


def test_what_is_older_than_two_intervals_is_stale_and_then_not_known(model):
    def lags(at: int) -> list[tuple]:
        found = model.rows("SELECT * FROM progress_at(from_ms($1)) p WHERE p.queue_id = 0", [at])
        return [(row["lag"], row["lag_is_at_least"], row["lag_is_stale"]) for row in found]

    assert lags(20_100) == [(5, False, False)]
    assert lags(20_101) == [(1, True, False)], "the lower bound of the hook is fresh, the exact lag is not"
    assert lags(130_000) == [(1, True, True)]
    assert lags(900_500) == lags(10**12) == []


def test_what_a_client_said_is_its_own(model):
    [row] = model.rows("SELECT * FROM client_progress_at(from_ms(500))")
    assert (row["client_id"], row["cached_count"], row["lock_at"], row["client_age_ms"]) == ("A", 2, 440, 50)


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    closed = Story(group="closed")
    closed.incident(500, "i3", "OPENED")
    append(make_tables(folder), orders() + forgotten() + closed.rows)
    archive(folder, log())
    append_rows(folder, "alert_controls", [msgspec.structs.asdict(AlertControl(
        time=600, control="CLOSE", control_id="i3", cluster=None, group=None, code=None, until=None, reason="known",
        author="ann", severity="critical",
    ))])  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def model(tables):
    with ReadModel(tables) as opened:
        yield opened


def pick(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def test_owners_now_with_those_that_nobody_owns(model):
    owners = [row for row in selected(model, "current_owners", "orders") if row["cluster"] == "c"]

    assert pick(owners, "topic", "queue_id", "client_id", "since") == [
        ("%RETRY%orders", 0, "B", 800),
        ("Orders", 0, "B", 500),
        ("Orders", 1, "B", 900),
        ("Orders", 2, None, 600),
    ]


def test_a_forgotten_group_that_came_back_shows_its_new_owner(model):
    assert pick([row for row in selected(model, "current_owners") if row["cluster"] == "c2"], "client_id", "since") == [
        ("new", 9_000)
    ]


def test_the_history_of_a_queue_has_every_interval_and_why_it_ended(model):
    intervals = [row for row in selected(model, "ownership_intervals", "orders") if row["topic"] == "Orders"]
    of_queue_1 = [row for row in intervals if row["queue_id"] == 1]
    assert pick(of_queue_1, "cluster", "client_id", "from_time", "to_time") == [
        ("c", "A", 100, 600),
        ("c", "B", 900, None),
    ]
    first, second = [row for row in intervals if row["queue_id"] == 0][:2]
    assert (first["end_evidence"], first["duration_ms"]) == ("TAKEN_OVER", 400)
    assert (second["client_id"], second["rebalance_id"], second["end_evidence"]) == ("B", "r1", None)


@pytest.mark.parametrize(
    ("instant", "owner"), [(99, None), (100, "A"), (599, "A"), (600, None), (899, None), (900, "B"), (10_000, "B")]
)
def test_who_owned_a_queue_at_an_instant(model, instant, owner):
    rows = model.rows(
        "SELECT w.client_id FROM who_owned_at(from_ms($1)) w"
        " WHERE w.cluster = 'c' AND w.topic = 'Orders' AND w.queue_id = 1",
        [instant],
    )

    assert pick(rows, "client_id") == ([(owner,)] if owner else [])


def test_what_changed_between_two_instants(model):
    changes = (
        "SELECT * FROM owner_changes(from_ms($a), from_ms($b)) o WHERE o.cluster = 'c' ORDER BY o.topic, o.queue_id"
    )
    rows = model.rows(changes, {"a": 450, "b": 650})

    assert pick(rows, "topic", "queue_id", "from_client", "to_client") == [
        ("%RETRY%orders", 0, "A", None),
        ("Orders", 0, "A", "B"),
        ("Orders", 1, "A", None),
        ("Orders", 2, "A", None),
    ]
    assert model.rows(changes, {"a": 910, "b": 9000}) == []
    assert pick(model.rows(changes, {"a": 50, "b": 100}), "from_client", "to_client")[0] == (None, "A")


def test_an_incident_is_as_its_last_transition_with_its_worst_evidence(model):
    closed, still_open = selected(model, "incidents", "orders")

    assert (closed["incident_id"], closed["resolved_at"], closed["severity"]) == ("i1", 910, "critical")
    assert (closed["opened_at"], closed["transitions"], closed["evidence"]) == (500, 3, '{"at":510}')
    assert pick(selected(model, "open_incidents"), "incident_id") == [("i2",)] == [(still_open["incident_id"],)]


def test_what_rebalances_cost(model):
    (cost,) = model.rows("SELECT * FROM rebalance_cost")

    assert (cost["rebalances"], cost["not_converged"], cost["queues_moved"]) == (2, 1, 3)
    assert cost["duration_ms_max"] == 150
    assert (cost["queues_moved_min"], cost["reconsumed_min"], cost["reconsumed_max"]) == (2, 14, None)
    assert (cost["queues_interrupted"], cost["queues_unassigned"]) == (2, 2)
    # In each of them queue 0 paused 0 ms, queue 1 300 ms; the pause of queue 2 goes on; queue 3 had no owner before.
    assert (cost["pauses"], cost["pause_ms_sum"], cost["pause_ms_median"], cost["pause_ms_max"]) == (4, 600, 150, 300)


def test_how_often_a_group_rebalances(model):
    rows = model.rows("SELECT * FROM mean_time_between_rebalances")

    assert pick(rows, "group", "rebalances", "mean_ms") == [("orders", 2, 150.0)]


def test_rebalances_keep_their_moves(model):
    first, second = selected(model, "rebalances", "orders")

    assert first["moves"][0]["queue"] == {"topic": "Orders", "broker": "b", "queue_id": 0}
    assert (first["converged"], second["converged"]) == (True, False)


def test_the_last_state_of_groups_and_queues(model):
    assert pick(selected(model, "current_groups", "orders"), "time", "health", "members") == [(910, "BAD", ["A", "B"])]
    assert pick(selected(model, "current_queues", "orders"), "time", "status_reason") == [(910, "later")]


def test_a_queue_is_its_group_s_while_the_group_tells_of_it(tmp_path):
    """At the latest once an hour; a group that fell silent long before another is shown as it was then."""
    hour, live, silent = 3_600_000, Story(), Story(group="silent")
    silent.queue(0)
    silent.group(0, "OK")
    live.queue(20 * hour, queue_id=1)
    live.queue(22 * hour + 1, queue_id=2)
    live.group(23 * hour, "OK")
    append(make_tables(tmp_path), live.rows + silent.rows)

    with ReadModel(tmp_path) as model:
        assert pick(selected(model, "current_queues"), "group", "queue_id") == [("orders", 2), ("silent", 0)]
        query = "SELECT q.group, q.queue_id FROM queues_at(from_ms($at)) q ORDER BY q.group"
        then = model.rows(query, {"at": 22 * hour})
        assert pick(then, "group", "queue_id") == [("silent", 0)]


def test_each_event_is_there_once_whatever_partitions_hold_a_copy(model):
    once, all_rows = "SELECT count(*) AS n FROM telemetry_events", "SELECT count(*) AS n FROM telemetry"

    assert model.rows(once)[0]["n"] * 2 == model.rows(all_rows)[0]["n"] > 0
    assert model.rows("SELECT DISTINCT e.partition FROM telemetry_events e") == [{"partition": 0}]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT nonsense FROM rebalances", "nonsense"),
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM read_text('/etc/hostname')", "disabled"),
        ("COPY (SELECT 1) TO 'out.csv'", "disabled"),
        ("DROP VIEW current_owners_that_never_was", "does not exist"),
        ("SET threads = 1", "locked"),
    ],
)
def test_a_query_that_cannot_run_is_one_sentence(model, query, says):
    with pytest.raises(UserError, match=says) as error:
        model.sql(query)

    assert "\n" not in str(error.value)


def test_no_tables_at_all_is_a_sentence_with_the_next_step(tmp_path):
    with pytest.raises(UserError, match=r"There are no tables in .*rebalance-watch run"):
        ReadModel(tmp_path / "nowhere")


def test_a_missing_table_is_named(tmp_path):
    append(make_tables(tmp_path), [])
    (tmp_path / "anomalies").rename(tmp_path / "gone")

    with pytest.raises(UserError, match="The table anomalies is missing"):
        ReadModel(tmp_path)


def test_a_damaged_log_is_one_sentence(tmp_path):
    append(make_tables(tmp_path), orders())
    for file in tmp_path.glob("anomalies/_delta_log/*.json"):
        file.write_text('{"commitInfo":{"timest')

    with pytest.raises(UserError, match=f"^The Delta log of the table anomalies .*{DAMAGED}") as error:
        ReadModel(tmp_path)

    assert not isinstance(error.value, NotReadyError)


def test_a_file_that_is_gone_is_one_sentence_and_harms_no_other_table(tmp_path):
    append(make_tables(tmp_path), orders())
    for file in tmp_path.glob("anomalies/**/*.parquet"):
        file.unlink()

    with ReadModel(tmp_path) as opened:
        with pytest.raises(UserError, match=f"^The file .* of the table anomalies .*{DAMAGED}") as error:
            opened.rows("SELECT a.* FROM open_incidents a")
        assert opened.rows("SELECT a.* FROM assignment_history a")

    assert not isinstance(error.value, NotReadyError)


def test_a_damaged_file_stops_no_question_about_other_tables(tmp_path):
    append(make_tables(tmp_path), orders())
    for file in tmp_path.glob("anomalies/**/*.parquet"):
        file.unlink()

    with ReadModel(tmp_path) as model:
        assert model.rows("SELECT count(*) AS n FROM current_groups")[0]["n"]
        [counted] = model.ask("SELECT count(*) AS n FROM group_state").table.to_pylist()
        assert counted["n"]
        with pytest.raises(UserError, match=r"The file .* of the table anomalies can't be read"):
            model.rows("SELECT count(*) FROM incidents")


def test_an_empty_last_commit_is_a_sentence_and_not_no_rows(tmp_path):
    """So a power cut leaves it, where it was not synced."""
    append(make_tables(tmp_path), orders())
    *_, last = sorted((tmp_path / "anomalies" / "_delta_log").glob("*.json"))
    last.write_bytes(b"")

    with pytest.raises(UserError, match=r"^The last commit of the table anomalies is empty .* from one backup\.$"):
        ReadModel(tmp_path)


def test_empty_tables_give_empty_answers(tmp_path):
    append(make_tables(tmp_path), [])

    with ReadModel(tmp_path) as model:
        assert all(model.sql(f"SELECT * FROM {view}").num_rows == 0 for view in VIEWS)


def test_any_duckdb_gives_the_same_rows(tables, model, tmp_path):
    """Through a file, as its shell would open it."""
    with duckdb.connect(str(tmp_path / "any.duckdb")) as made:
        register_in_duckdb(made, tables)
        register_in_duckdb(made, tables)  # and again, for what is new
    with duckdb.connect(str(tmp_path / "any.duckdb"), read_only=True) as other:
        for relation in RELATIONS.values():
            query = f"SELECT * FROM {relation}"
            theirs = in_epoch_ms(other.sql(query).to_arrow_table()).to_pylist()
            assert sorted(map(repr, model.rows(query))) == sorted(map(repr, theirs)), relation


def test_the_folder_of_the_tables_may_have_spaces_and_quotes(tmp_path):
    folder = make_tables(tmp_path / "o'tool's ü #1" / "tables")
    append(folder, orders())

    with ReadModel(folder) as model, duckdb.connect() as other:
        register_in_duckdb(other, folder)
        query = "SELECT * FROM group_state"
        assert model.rows(query) == in_epoch_ms(other.sql(query).to_arrow_table()).to_pylist() != []


def test_the_day_of_a_row_is_its_table_s_own_and_leaves_files_out(tmp_path):
    """Whatever the folders above are called, as Hive would call a partition for instance."""
    folder = make_tables(tmp_path / "date=1999-01-01" / "tables")
    day = 86_400_000
    rows = accepted(log())
    for number in (1, 2):
        then = dt.date(1970, 1, 1) + dt.timedelta(number)
        append_rows(folder, "telemetry", [row | {"time": number * day, "date": then} for row in rows])

    with ReadModel(folder) as model:
        assert model.rows("SELECT t.date, t.time FROM telemetry t GROUP BY ALL ORDER BY ALL") == [
            {"date": dt.date(1970, 1, 2), "time": day}, {"date": dt.date(1970, 1, 3), "time": 2 * day},
        ]  # fmt: skip
        of_a_day = "SELECT t.value FROM telemetry t WHERE t.date = DATE '1970-01-03'"
        (plan,) = model.sql(f"EXPLAIN ANALYZE {of_a_day}").to_pylist()
        assert "Scanning Files: 1/2" in plan["explain_value"]


def test_no_row_has_an_array_that_its_function_of_an_instant_leaves_out():
    rows = [row for row in folded(telemetry(4, 20)) if isinstance(row, QueueProgress)]
    assert {row.client_id is None for row in rows} == {True, False}
    for row in rows:
        seen = SEEN["brokers_seen_at" if row.client_id is None else "clients_seen_at"]
        found = {name for name, value in msgspec.structs.asdict(row).items() if isinstance(value, tuple) and value}
        assert found <= seen.reported, row


@pytest.mark.spark
@pytest.mark.parametrize(
    "names", [SHORT, pytest.param(RELATIONS.keys() - SHORT, marks=pytest.mark.prove)], ids=["short", "others"]
)
def test_spark_gives_the_same_rows(spark, tables, model, names):
    """To ask Spark for one costs more than a second of processor time; to define them checks the names in all."""
    from streaming.tables.spark_views import register  # noqa: PLC0415  Spark takes seconds to import

    register(spark, tables)
    for relation in (RELATIONS[name] for name in sorted(names)):
        query = f"SELECT * FROM {relation}"
        ours, theirs = in_epoch_ms(model.sql(query)), in_epoch_ms(spark.sql(query).toArrow())
        assert ours.column_names == theirs.column_names, relation
        assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist())), relation
        assert ours.num_rows, f"{relation} has no row that could differ"


@pytest.mark.spark
@pytest.mark.parametrize(
    "relation", ["queue_observations", pytest.param(f"progress_at({_INSTANTS[-1]})", marks=pytest.mark.prove)]
)
def test_spark_shows_rows_older_than_a_column_and_the_newest(spark, tmp_path, relation):
    """The array of older rows is null, and arrays_zip of a null is null. Newer files replace those of before."""
    from streaming.tables.spark_views import register  # noqa: PLC0415  Spark takes seconds to import

    made = make_tables(tmp_path / "tables")
    append(made, orders())
    table = made / "queue_progress"
    older = DeltaTable(table).to_pyarrow_table().drop_columns(["cached_count"])
    shutil.rmtree(table)
    write_deltalake(table, older, partition_by=["date"])
    DeltaTable(table).alter.add_columns([Field("cached_count", ArrayType(PrimitiveType("long"), contains_null=True))])
    register(spark, made)
    with ReadModel(made) as model:
        query = f"SELECT count(*) AS rows FROM {relation}"
        assert spark.sql(query).first()["rows"] == model.rows(query)[0]["rows"] > 0

    history = DeltaTable(made / "assignment_history")
    before = history.count()
    append_rows(made, "assignment_history", [small_row("assignment_history")])
    history.update_incremental()
    assert history.optimize.compact()["numFilesRemoved"] > 1
    history.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert spark.sql("SELECT count(*) FROM assignment_history").first()[0] == before + 1


def test_a_table_of_a_later_release_is_empty_until_it_is_there(tmp_path):
    folder = make_tables(tmp_path / "tables")
    (table,) = ADDED
    (folder / table).rename(tmp_path / table)
    with ReadModel(folder) as model:
        assert model.rows(f"SELECT * FROM {table}") == []
        (tmp_path / table).rename(folder / table)
        append_rows(folder, table, [small_row(table)])
        assert model.refresh()
        assert len(model.rows(f"SELECT * FROM {table}")) == 1


def test_what_one_answer_asks_twice_is_read_once_and_again_after_new_rows(tmp_path):
    folder = make_tables(tmp_path / "tables")
    query = "SELECT count(*) AS n FROM quality_results q WHERE q.suite = $suite"
    with ReadModel(folder) as model:
        before = model.rows_once(query, {"suite": "x"})
        assert model.rows_once(query, {"suite": "x"}) is before
        append_rows(folder, "quality_results", [small_row("quality_results")])
        assert model.refresh()
        assert (before, model.rows_once(query, {"suite": "x"})) == ([{"n": 0}], [{"n": 1}])
        assert model.rows_once(query, {"suite": "y"}) == [{"n": 0}]


def test_a_small_table_is_read_once_for_an_answer_and_a_large_one_in_place(tmp_path, monkeypatch):
    """To plan each scan of a file takes longer than to read a few rows."""
    folder = make_tables(tmp_path / "tables")
    append(folder, orders())

    def files(query: str) -> bool:
        with ReadModel(folder) as model:
            (plan,) = model.sql(f"EXPLAIN {query}").to_pylist()
            return "READ_PARQUET" in plan["explain_value"]

    assert not files("SELECT a.code FROM anomalies a")
    monkeypatch.setattr("streaming.tables.table.FEW_ROWS", 1)
    assert files("SELECT a.code FROM anomalies a")


def test_one_answer_of_small_tables_takes_one_thread(tmp_path, monkeypatch):
    folder = make_tables(tmp_path / "tables")
    append(folder, orders())

    def threads(*, once: bool) -> int:
        with ReadModel(folder, once=once) as model:
            return int(model.rows("SELECT current_setting('threads') AS threads")[0]["threads"])

    [(every,)] = duckdb.execute("SELECT current_setting('threads')").fetchall()
    assert (threads(once=True), threads(once=False)) == (1, every)
    monkeypatch.setattr("streaming.tables.reader._ROW_GROUP", 1)
    assert threads(once=True) == every
