"""Intervals in the results of people's own SQL: ISO 8601 for programs, durations for people."""

import pytest

from streaming.queries import labels
from streaming.queries.sql_worker import sql
from streaming.tables import ReadModel
from tests.support.tables import make_tables


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    with ReadModel(make_tables(tmp_path_factory.mktemp("tables"))) as opened:
        yield opened


@pytest.mark.parametrize(
    ("interval", "iso", "text"),
    [
        ("0 seconds", "PT0S", "0 s"),
        ("43.208 seconds", "PT43.208S", "43.208 s"),
        ("95 minutes", "PT1H35M", "1 h 35 min"),
        ("-1.5 seconds", "-PT1.5S", "-1.5 s"),
        ("14 months 3 days 1 hour 0.000001 second", "P14M3DT1H0.000001S", "14 months 3 d 1 h 0.000001 s"),
        ("1 day -1 hour", "P1DT-1H", "1 d -1 h"),
    ],
)
def test_an_interval_is_a_duration(model, interval, iso, text):
    answer = sql(model, f"SELECT INTERVAL '{interval}' AS lasts, 1 AS n")

    assert (answer.rows, answer.durations) == (((iso, 1),), ("lasts",))
    assert labels.iso_duration(iso) == text


def test_the_difference_of_two_times_is_a_duration(model):
    answer = sql(model, "SELECT from_ms(95_080) - from_ms(0) AS lasts, [INTERVAL 1 HOUR] AS some, NULL::INTERVAL AS no")

    assert answer.rows == (("PT1M35.08S", ["PT1H"], None),)
    assert answer.durations == ("lasts", "no")


def test_a_text_that_is_no_duration_stays():
    assert labels.iso_duration("Peter") == "Peter"
