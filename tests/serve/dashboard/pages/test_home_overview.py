"""Age of telemetry on the home page."""

from collections import Counter

from checkpoints.generation import claimed
from checkpoints.manifest import Basis
from rebalance_model.observe.policy import Policy
from streaming.queries.present import STALE_AFTER, UNHEARD_AFTER, Heard, HistoryBounds
from streaming.serve.dashboard.pages.home import GroupFilters, overview
from streaming.serve.dashboard.parts.markup import rendered
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import HOUR, NOW, gaps
from tests.support.tables import append


def test_the_home_page_says_the_age_of_telemetry_as_soon_as_it_is_stale():
    def head(age: int, at: int | None = None) -> str:
        ends = HistoryBounds(0, Heard(NOW, NOW + age), None if at is None else Heard(NOW, at))
        stale = {"OK": (2, age)} if ends.at_instant.is_stale else {}
        return rendered(
            "home_head", at=at, ends=ends, incidents=[], counts=Counter(OK=2), stale=stale, filters=GroupFilters()
        )  # fmt: skip

    assert "No telemetry since" not in head(STALE_AFTER - 1)
    assert 'class="status OK"' in head(STALE_AFTER - 1)
    late = head(85_000)
    assert ", for 1 min 25 s: what is shown is stale." in late
    assert "2 stale, 1 min 25 s old" in late
    assert 'class="status OK old"' in late
    assert ", the last telemetry, 3 min ago." in head(UNHEARD_AFTER)
    later = head(0, at=NOW + 431_373_000)
    assert "That is 4 d 23 h after the last telemetry" in later
    assert "-4" not in later


def test_a_group_with_an_hourly_snapshot_is_not_silent_in_between(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)
    hourly = Policy(group=({"pattern": "gaps-*", "snapshot_interval": HOUR},))
    basis = Basis(source="test", partitions=1, state_partitions=1, code_version="0", policy=hourly)
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", basis):
        append(tmp_path / "tables", gaps(NOW).taken())

    with ReadModel(tmp_path / "tables") as model:
        assert {group.group: group.health for group in overview(model).groups}["gaps-group"] == "OK"
