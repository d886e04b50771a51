"""The questions of schemas/questions know only the documents, and answer as the product does."""

import os
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from schemas.questions import answer, opened, questions
from tests.docs.source import ROOT
from tests.support.asked import INSTANTS
from tests.support.tables import append_rows, make_tables, small_row

GROUP = "g"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def period(asked):
    times = pa.table(DeltaTable(asked / "group_state").scan()).column("time").to_pylist()
    return min(times) + timedelta(seconds=7), max(times)


@pytest.fixture(scope="module")
def answered(asked, period):
    """Return a function that answers a question by its number, as dicts; its own instant may replace the end."""
    connection, queries = opened(asked), dict(questions())

    def ask(number, **others):
        [query] = [query for name, query in queries.items() if name.startswith(number)]
        since, until = period
        values = {"group": GROUP, "since": since, "until": until, "last_run": EPOCH, **others}
        return pa.table(answer(connection, query, **values)).to_pylist()

    return ask


def ms(instant):
    return round(instant.timestamp() * 1000)


def rows(asked, table):
    return pa.table(DeltaTable(asked / table).scan()).to_pylist()


def test_ownership_hours_are_those_of_the_intervals(answered, asked_model, period):
    since, until = map(ms, period)
    hours = Counter()
    for interval in asked_model.rows("SELECT * FROM ownership_intervals"):
        if interval["group"] == GROUP:
            hours[interval["client_id"]] += (
                max(0, min(interval["to_time"] or until, until) - max(interval["from_time"], since)) / 3.6e6
            )
    totals = Counter()
    for row in answered("01"):
        totals[row["client_id"]] += row["queue_hours"]
    assert totals == pytest.approx({client: value for client, value in hours.items() if value})


def test_a_queue_s_hours_on_a_day_are_at_most_24(tmp_path):
    make_tables(tmp_path)
    begin = ms(datetime(2026, 11, 20, 22, tzinfo=UTC))
    append_rows(
        tmp_path,
        "assignment_history",
        [small_row("assignment_history") | {"group": "g", "time": begin, "action": "ASSIGNED"}],
    )
    [query] = [query for name, query in questions() if name.startswith("01")]
    until = datetime(2026, 11, 22, 6, tzinfo=UTC)

    rows = answer(opened(tmp_path), query, group="g", since=EPOCH, until=until).fetchall()

    assert [(day.day, hours) for day, _, hours in rows] == [(20, 2.0), (21, 24.0), (22, 6.0)]


@pytest.mark.parametrize("instant", INSTANTS)
def test_owners_at_an_instant_are_those_of_the_product(answered, asked_model, instant):
    owners = {
        (one["topic"], one["broker"], one["queue_id"]): one["client_id"]
        for one in asked_model.rows("SELECT * FROM owners_at(make_timestamp($1))", [instant * 1000])
        if one["group"] == GROUP
    }
    found = answered("02", until=datetime.fromtimestamp(instant / 1000, UTC))
    assert {(row["topic"], row["broker"], row["queue_id"]): row["owner"] for row in found} == owners


def test_the_time_between_rebalances_is_that_of_the_view(answered, asked_model):
    view = asked_model.rows("SELECT * FROM mean_time_between_rebalances")
    assert {(row["cluster"], row["group"]): row["minutes_between"] for row in answered("03")} == {
        (row["cluster"], row["group"]): row["mean_ms"] and pytest.approx(row["mean_ms"] / 60e3) for row in view
    }


def test_the_costliest_rebalances_are_those_of_the_pauses(answered, asked_model):
    pauses = Counter()
    for row in asked_model.rows("SELECT rebalance_id, pause_ms FROM queue_pauses WHERE pause_ms IS NOT NULL"):
        pauses[row["rebalance_id"]] += row["pause_ms"] / 1e3
    rows_answered = answered("04", since=EPOCH, until=datetime.max.replace(tzinfo=UTC))
    assert {
        row["rebalance_id"]: row["pause_seconds"] for row in rows_answered if row["pause_seconds"]
    } == pytest.approx(pauses)
    assert [row["pause_seconds"] or 0 for row in rows_answered] == sorted(
        (row["pause_seconds"] or 0 for row in rows_answered), reverse=True
    )


def test_the_costliest_clients_are_those_of_the_rebalances(answered, asked_model):
    every = {"since": EPOCH, "until": datetime.max.replace(tzinfo=UTC)}
    asked_rows = asked_model.rows(
        "SELECT r.cluster, r.group, r.trigger_client, count(DISTINCT r.rebalance_id) AS rebalances, "
        "coalesce(sum(p.pause_ms), 0) / 1e3 AS pause_seconds FROM rebalances r LEFT JOIN queue_pauses p "
        "ON p.cluster = r.cluster AND p.group = r.group AND p.rebalance_id = r.rebalance_id "
        "WHERE r.trigger_client IS NOT NULL GROUP BY ALL"
    )
    keys = ("cluster", "group", "trigger_client")
    costs = {
        tuple(row[key] for key in keys): (row["rebalances"], row["pause_seconds"]) for row in answered("14", **every)
    }
    assert costs
    assert costs == {
        tuple(row[key] for key in keys): (row["rebalances"], pytest.approx(row["pause_seconds"])) for row in asked_rows
    }


def test_an_observation_with_lag_counts_until_the_next_and_not_in_a_gap(tmp_path):
    tables, sample = make_tables(tmp_path), small_row("queue_progress")
    for second, lag in ((0, 1), (10, 5), (20, 0), (3600, 3)):
        time = second * 1000
        arrays = {"topic": ["T"], "queue_id": [0], "lag": [lag]}
        row = sample | arrays | {"time": time, "date": 0, "interval_ms": 10_000, "kind": "CONSUME_STATS"}
        append_rows(tables, "queue_progress", [row])
    [query] = [query for name, query in questions() if name.startswith("13")]
    [row] = pa.table(answer(opened(tables), query, since=EPOCH, until=EPOCH + timedelta(hours=2))).to_pylist()
    assert row["queue_hours_with_lag"] * 3600 == pytest.approx(10 + 10 + 20)
    assert row["queue_hours_known"] * 3600 == pytest.approx(10 + 10 + 20 + 20)


def test_lag_percentiles_are_those_of_the_exact_lags(answered, asked, period):
    lags = defaultdict(list)
    since, until = period
    for row in rows(asked, "queue_progress"):
        if row["group"] == GROUP and row["kind"] == "CONSUME_STATS" and since <= row["time"] < until:
            bounds = row["lag_is_at_least"] or [False] * len(row["topic"])
            for topic, lag, is_at_least in zip(row["topic"], row["lag"], bounds, strict=True):
                if lag is not None and not is_at_least:
                    lags[topic].append(lag)
    rows_answered = answered("05")
    assert rows_answered
    assert {row["topic"]: (row["observations"], row["worst"]) for row in rows_answered} == {
        topic: (len(values), max(values)) for topic, values in lags.items()
    }
    for row in rows_answered:
        below = [sum(value <= row[name] for value in lags[row["topic"]]) for name in ("p50", "p95", "p99")]
        assert all(n >= share * row["observations"] for n, share in zip(below, (0.5, 0.95, 0.99), strict=True))


def test_the_longest_wait_of_a_queue_has_its_time(tmp_path):
    make_tables(tmp_path)
    waits = [(1_000, 400, 0), (2_000, 900, None), (3_000, 900, 30), (4_000, 0, 20)]
    append_rows(tmp_path, "queue_progress", [
        small_row("queue_progress") | {
            "group": GROUP, "time": time, "date": EPOCH.date(), "kind": "CONSUME_STATS", "topic": ("T", "T"),
            "queue_id": (0, 1), "waiting_ms": (first, second),
        }
        for time, first, second in waits
    ])  # fmt: skip
    [query] = [query for name, query in questions() if name.startswith("06")]

    found = answer(opened(tmp_path), query, group=GROUP, since=EPOCH, until=EPOCH + timedelta(seconds=5)).fetchall()

    assert [(queue, seconds, ms(at)) for _, _, queue, seconds, at in found] == [(0, 0.9, 2_000), (1, 0.03, 3_000)]


def test_incidents_a_week_and_their_times_are_those_of_the_view(answered, asked_model):
    view = asked_model.rows("SELECT * FROM incidents")
    opened_then = Counter((row["code"], row["sub_cause"]) for row in view if not row["absorbed"])
    totals = Counter()
    for row in answered("07"):
        assert row["week"].weekday() == 0
        totals[row["code"], row["sub_cause"]] += row["incidents"]
    assert totals == opened_then
    times = {row["code"]: (row["incidents"], row["open_now"], row["longest_seconds"]) for row in answered("08")}
    for code in {row["code"] for row in view}:
        of_code = [row for row in view if row["code"] == code]
        spans = [(row["resolved_at"] - row["opened_at"]) / 1e3 for row in of_code if row["resolved_at"] is not None]
        still = sum(row["resolved_at"] is None for row in of_code)
        assert times.pop(code) == (len(of_code), still, max(spans) if spans else None)
    assert not times


def test_duplicates_are_those_of_the_cost_of_rebalances(answered, asked_model):
    cost = asked_model.rows("SELECT sum(reconsumed_min) AS at_least, sum(rebalances) AS n FROM rebalance_cost")[0]
    found = answered("09", since=EPOCH, until=datetime.max.replace(tzinfo=UTC))
    assert (sum(row["rebalances"] for row in found), sum(row["at_least"] for row in found)) == (
        cost["n"],
        cost["at_least"],
    )


def test_minutes_without_owner_and_with_one_are_the_whole_time(answered, asked_model, period):
    since, until = map(ms, period)
    first, owned = {}, Counter()
    for interval in asked_model.rows("SELECT * FROM ownership_intervals"):
        if interval["group"] == GROUP and interval["from_time"] < until:
            queue = interval["topic"], interval["broker"], interval["queue_id"]
            first[queue] = min(first.get(queue, until), interval["from_time"])
            owned[queue] += max(0, min(interval["to_time"] or until, until) - max(interval["from_time"], since)) / 60e3
    rest = {queue: (until - max(first[queue], since)) / 60e3 - owned[queue] for queue in first}
    found = {(row["topic"], row["broker"], row["queue_id"]): row["minutes"] for row in answered("10")}
    assert found == pytest.approx({queue: minutes for queue, minutes in rest.items() if minutes > 1e-9})
    assert found


def test_hours_of_health_add_up_to_the_time_since_the_first_row(answered, asked, period):
    since, until = period
    first, hours = {}, Counter()
    for row in rows(asked, "group_state"):
        group = row["cluster"], row["group"]
        first[group] = min(first.get(group, row["time"]), row["time"])
    for row in answered("11"):
        hours[row["cluster"], row["group"]] += row["hours"]
    assert hours == pytest.approx(
        {group: (until - max(begin, since)).total_seconds() / 3600 for group, begin in first.items() if begin < until}
    )


def test_two_runs_of_the_last_question_have_each_row_once(answered, asked):
    tables = ("assignment_history", "rebalances", "anomalies")
    known_times = sorted(row["known_at"] for table in tables for row in rows(asked, table))
    between = known_times[len(known_times) // 2]
    later = answered("12", last_run=between)
    assert len(later) == sum(at > between for at in known_times)
    assert len(answered("12")) == len(known_times)


def test_the_command_answers_all(asked):
    made = subprocess.run(
        [sys.executable, "-m", "schemas.questions", str(asked), GROUP], cwd=ROOT, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1"}, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stdout.count(" s\n") >= 12
