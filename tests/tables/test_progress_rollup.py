"""The series summed up: what is left of a day says the same of an instant, as far as a minute or five allow."""

import datetime as dt

from deltalake import DeltaTable

from rebalance_model.observe.effects import QueueProgress
from streaming.tables import ReadModel
from streaming.tables.maintenance import Limits, maintain
from streaming.tables.progress_rollup import SERIES, roll_up
from streaming.tables.versions import violations
from tests.support.tables import append, make_tables

DAY = 86_400_000
FIRST = 20_000 * DAY


def answer(at: int, lags: tuple[int | None, ...], **fields: object) -> QueueProgress:
    return QueueProgress(
        **{
            "cluster": "c", "group": "g", "broker": "b", "time": at, "asked_at": at - 5, "interval_ms": 10_000,
            "source": "POLL", "kind": "CONSUME_STATS", "topic": ("T",) * len(lags), "queue_id": tuple(range(len(lags))),
            "lag": lags, "waiting_ms": tuple(lag and 100 * lag for lag in lags), **fields,
        }
    )  # fmt: skip


def tables(folder):
    """Ten minutes of two days, an answer each 10 s: the lag of queue 0 is the number of the answer; 1 is not known."""
    made = make_tables(folder / "tables")
    append(made, [answer(FIRST + day * DAY + 10_000 * n, (n, None)) for day in (0, 1) for n in range(60)])
    return made


def lags(model, at: int) -> list[tuple]:
    found = model.rows("SELECT * FROM progress_at(from_ms($1)) p WHERE p.queue_id = 0", [at])
    return [(row["lag"], row["lag_time"] - FIRST, row["lag_is_stale"]) for row in found]


def days(folder, table: str) -> set[str]:
    return {str(part["date"]) for part in DeltaTable(folder / table).partitions()}


def test_a_day_that_is_over_is_summed_up_once(tmp_path):
    made = tables(tmp_path)
    done = roll_up(made, FIRST + DAY + DAY // 2)
    assert [(one.table, one.rows) for one in done] == [("queue_progress_minute", 10), ("queue_progress_5min", 2)]
    assert (
        DeltaTable(made / "queue_progress_5min").history()[0]["userMetadata"].startswith("rebalance-watch maintain: ")
    )
    assert [one for table in SERIES for one in violations(made / table)] == []
    assert roll_up(made, FIRST + DAY + DAY // 2) == []
    assert days(made, "queue_progress_minute") == {str(dt.date(1970, 1, 1) + dt.timedelta(20_000))}


def test_the_least_the_most_and_the_last_of_a_span_are_kept(tmp_path):
    made = tables(tmp_path)
    roll_up(made, FIRST + DAY + DAY // 2)
    with ReadModel(made) as model:
        minute = model.rows("SELECT * FROM queue_progress_minute m ORDER BY m.time")[1]
        five = model.rows("SELECT * FROM queue_progress_5min m ORDER BY m.time")[1]
    assert (minute["lag"], minute["lag_min"], minute["lag_max"]) == ([11, None], [6, None], [11, None])
    assert (minute["observed_at"], minute["time"]) == ([FIRST + 110_000] * 2, FIRST + 110_000)
    assert minute["interval_ms"] == 60_000
    assert (five["lag"], five["lag_min"], five["waiting_ms_max"]) == ([59, None], [30, None], [5_900, None])


def test_an_instant_is_answered_by_the_finest_table_that_has_it(tmp_path):
    made, instant = tables(tmp_path), FIRST + 125_000
    roll_up(made, FIRST + DAY + DAY // 2)
    with ReadModel(made) as model:
        assert lags(model, instant) == [(12, 120_000, False)]
    for table, expected in (("queue_progress", (11, 110_000, False)), ("queue_progress_minute", None)):
        maintain(made, table, Limits(rows_since=FIRST + DAY))
        with ReadModel(made) as model:
            assert lags(model, instant) == ([expected] if expected else [])
            assert lags(model, FIRST + 301_000) == [(29, 290_000, False)]
            assert lags(model, FIRST + DAY + 125_000)[0][0] == 12


def test_a_tie_is_the_finer_tables(tmp_path):
    """The last answer of a minute is in both: its interval is that of the answer."""
    made = tables(tmp_path)
    roll_up(made, FIRST + DAY + DAY // 2)
    with ReadModel(made) as model:
        assert lags(model, FIRST + 590_000 + 20_001) == [(59, 590_000, True)]


def test_a_wait_that_became_unknown_is_not_that_of_the_minute_before(tmp_path):
    made = make_tables(tmp_path)
    append(made, [answer(FIRST, (0,)), answer(FIRST + 70_000, (3,), waiting_ms=(None,))])
    roll_up(made, FIRST + DAY + DAY // 2)
    maintain(made, "queue_progress", Limits(rows_since=FIRST + DAY))
    with ReadModel(made) as model:
        [queue] = model.rows("SELECT * FROM progress_at(from_ms($1)) p", [FIRST + 80_000])
    assert (queue["lag"], queue["waiting_ms"]) == (3, None)
