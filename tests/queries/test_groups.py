"""The state of groups, asked of tables."""

import json
from typing import Any

import pytest

from rebalance_model.observe.rules import coverage
from streaming.queries.group_at import find_group
from streaming.queries.groups import groups, overview
from streaming.queries.present import history_ends
from streaming.queries.results import TelemetryCoverage
from streaming.tables import ReadModel
from streaming.tables.reader import Row
from tests.serve.dashboard.tables import MINUTE, Group
from tests.support.asked import Asked
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000
"""When all telemetry of the example ends."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A group that is reported for an hour, and one that is reported for the first half of it."""
    folder = make_tables(tmp_path_factory.mktemp("tables"))
    for name, ends in (("reported", NOW), ("silent", NOW - 30 * MINUTE)):
        group = Group(name, "Orders", ("a@1",))
        for time in range(NOW - 60 * MINUTE, ends + 1, 5 * MINUTE):
            group.state(time)
        append(folder, group.taken())
    with Asked(folder) as opened:
        yield opened


def test_the_health_of_a_silent_group_is_unknown(model):
    assert [(group.group, group.health) for group in groups(model)] == [("silent", "UNKNOWN"), ("reported", "OK")]

    shown = overview(model, find_group(model, "silent")).group
    assert shown.health == "UNKNOWN"
    assert shown.health_reason == "no telemetry since 2026-11-21T21:56:40.000Z; last known health: OK"


@pytest.mark.parametrize(("minutes_ago", "health"), [(30, "OK"), (16, "OK"), (15, "UNKNOWN")])
def test_a_group_is_silent_after_three_snapshot_intervals(model, minutes_ago, health):
    at = NOW - minutes_ago * MINUTE

    assert overview(model, find_group(model, "silent", at=at)).group.health == health
    assert {group.group: group.health for group in groups(model, at)} == {"reported": "OK", "silent": health}


def test_when_all_telemetry_has_ended_the_last_known_state_is_shown(model):
    assert history_ends(model).silent
    assert overview(model, find_group(model, "reported")).group.health == "OK"


def test_an_overview_asks_once_for_incidents(tmp_path, monkeypatch):
    """They take longer to plan than most of what is read of a group."""
    group = Group("reported", "Orders", ("a@1",))
    group.state(NOW)
    folder = make_tables(tmp_path)
    append(folder, group.taken())
    asked: list[str] = []
    rows = ReadModel.rows

    def counted(self: ReadModel, query: str, *parameters: Any) -> list[Row]:
        asked.append(query)
        return rows(self, query, *parameters)

    monkeypatch.setattr(ReadModel, "rows", counted)
    with ReadModel(folder) as model:
        overview(model, find_group(model, "reported"))
    assert sum("incidents_at(" in query for query in asked) == 1


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"orderly": True}, "ordered"),
        ({"orderly": False, "sharing": "POPPED"}, "concurrent"),
        ({"sharing": "PROXIED"}, "behind a proxy: shared"),
        ({"sharing": "UNLISTED"}, "behind a proxy: shared"),
        ({"proxied_clients": ("x",), "members": ()}, "behind a proxy: shared"),  # by a hook alone
        ({"proxied_clients": ("x",), "members": ("a",)}, "unknown kind"),
        ({"sharing": "POPPED"}, "POP: shared"),
        ({"sharing": "MIXED"}, "POP and pull"),
        ({"sharing": "DIVIDED"}, "unknown kind"),
        ({}, "unknown kind"),
        ({"sharing": "BROADCAST", "message_model": "BROADCASTING"}, "broadcasting"),
        ({"sharing": "PROXIED", "consume_type": "CONSUME_ACTIVELY"}, "pull consumer"),
    ],
)
def test_the_kind_of_a_group_is_what_is_known_of_it(tmp_path, attributes, kind):
    given = {"orderly": None} | attributes
    coverage = json.dumps({"sharing": given.pop("sharing", "")})
    made = Group("g", "Orders", ("a",))
    made.state(NOW, coverage=coverage, **given)
    append(make_tables(tmp_path), made.taken())
    with ReadModel(tmp_path) as model:
        [group] = groups(model, at=NOW)
    assert group.kind == kind


def test_what_a_row_says_of_its_telemetry_is_answered_whole():
    assert set(coverage.Coverage.__struct_fields__) == set(TelemetryCoverage.model_fields)
