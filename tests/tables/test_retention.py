"""Old rows go, but no entity that something refers to: no group without the state that its incidents are about."""

import random
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from schemas.tables import TABLES
from streaming.base.errors import NotFoundError, NotReadyError
from streaming.cli import main
from streaming.queries.group_at import find_group
from streaming.queries.groups import groups, overview
from streaming.queries.present import history_ends
from streaming.tables import ReadModel
from streaming.tables.maintenance import Limits, maintain
from tests.support.story import Story
from tests.support.tables import append, make_tables, selected

DAY = 86_400_000
LIMIT = 70 * DAY


def a_root(tmp_path: Path, *stories: Story) -> Path:
    append(make_tables(tmp_path / "tables"), [row for story in stories for row in story.rows])
    return tmp_path / "tables"


def drop(tables: Path, limit: int = LIMIT) -> dict[str, int]:
    dropped = {table: maintain(tables, table, Limits(rows_since=limit)).rows_dropped for table in TABLES}
    return {table: count for table, count in dropped.items() if count}


def a_group(name: str, time: int = 10) -> Story:
    """Two states of a group and of its queue, whose owner has let it go."""
    story = Story(group=name)
    story.owner(time, 0, "A", "ASSIGNED")
    for at in (time, time + 5):
        story.group(at, "BAD")
        story.queue(at)
    story.owner(time + 5, 0, "A", "RELEASED")
    return story


def test_the_last_state_of_a_group_stays_while_its_incident_is_open(tmp_path, monkeypatch):
    story = a_group("stuck")
    story.incident(10, "i1", "OPENED", opened=10)
    tables = a_root(tmp_path, story)

    assert drop(tables) == {"assignment_history": 1, "group_state": 1, "queue_state": 1}

    with ReadModel(tables) as model:
        [group] = groups(model)
        assert (group.group, group.time, group.queues, group.incidents.critical) == ("stuck", 15, 1, 1)
        assert [member.client_id for member in overview(model, find_group(model, "stuck")).members] == ["A", "B"]
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    assert "stuck" in CliRunner().invoke(main.app, ["group", "list"]).output
    assert drop(tables) == {}


def test_a_group_stays_as_long_as_a_client_owns_a_queue_of_it(tmp_path):
    story = a_group("owned")
    story.owner(16, 1, "B", "ASSIGNED")
    tables = a_root(tmp_path, story)
    drop(tables)
    with ReadModel(tables) as model:
        assert [group.group for group in groups(model)] == ["owned"]


def test_a_group_that_nothing_refers_to_goes_as_a_whole_and_is_said(tmp_path, monkeypatch):
    tables = a_root(tmp_path, a_group("gone"))
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    with ReadModel(tables) as model:
        assert model.dropped_before("group_state") is None

    assert drop(tables) == {"assignment_history": 2, "group_state": 2, "queue_state": 2}

    with ReadModel(tables) as model:
        assert groups(model) == []
        assert model.dropped_before("group_state") == LIMIT
        with pytest.raises(NotReadyError, match=r"since 1970-03-12T00:00:00\.000Z were dropped by age"):
            history_ends(model)
        with pytest.raises(NotFoundError, match="Unknown consumer group gone: Groups without rows since 1970-03-12"):
            find_group(model, "gone")
    listed = CliRunner().invoke(main.app, ["group", "list"])
    assert listed.exit_code == 0
    assert "yet" not in listed.output
    assert "were dropped by age" in listed.stderr


def test_the_incident_that_explains_one_stays_as_long_as_that(tmp_path):
    story, other = a_group("stuck"), Story(group="")
    story.incident(10, "child", "OPENED", opened=10)
    story.rows[-1] = msgspec.structs.replace(story.rows[-1], parent="p")
    for name in ("p", "q"):
        other.incident(9, name, "OPENED", opened=9)
        other.incident(20, name, "RESOLVED", opened=9)
    tables = a_root(tmp_path, story, other)
    assert drop(tables)["anomalies"] == 2
    with ReadModel(tables) as model:
        assert {row["incident_id"] for row in selected(model, "incidents")} == {"child", "p"}


def test_history_begins_at_the_limit_although_older_last_states_stay(tmp_path):
    story = a_group("quiet")
    story.group(90 * DAY, "OK")
    tables = a_root(tmp_path, story)
    drop(tables)
    with ReadModel(tables) as model:
        assert len(selected(model, "group_state")) == 2
        assert history_ends(model).first == LIMIT


@pytest.mark.parametrize("seed", range(2))
def test_after_any_drops_each_instant_since_the_limit_is_as_before(tmp_path, seed):
    chance, stories = random.Random(seed), []
    for name in ("g1", "g2", "g3", "g4"):
        story, owners, is_open = Story(group=name), {}, {}
        for time in sorted(chance.sample(range(1, 1_000), 20)):
            match chance.choice(["group", "queue", "owner", "incident"]):
                case "group":
                    story.group(time, "OK")
                case "queue":
                    story.queue(time, queue_id=chance.randrange(3))
                case "owner":
                    queue = chance.randrange(3)
                    owners[queue] = not owners.get(queue, False)
                    story.owner(time, queue, "A", "ASSIGNED" if owners[queue] else "RELEASED")
                case "incident":
                    incident = f"{name}-{chance.randrange(3)}"
                    if is_open.get(incident) is not False:
                        what = "RESOLVED" if incident in is_open else "OPENED"
                        is_open[incident] = what == "OPENED"
                        story.incident(time, incident, what, opened=time)
        story.group(chance.randrange(1_000, 1_100), "OK")
        stories.append(story)
    tables = a_root(tmp_path, *stories)

    def seen() -> list[object]:
        with ReadModel(tables) as model:
            return [
                model.rows(f"SELECT * FROM {name}(from_ms($1)) t ORDER BY ALL", [at])
                for at in (600, 800, 1_100)
                for name in ("owners_at", "groups_at", "queues_at")
            ]

    before = seen()
    for limit in (chance.randrange(1, 300), chance.randrange(300, 600)):
        drop(tables, limit)
        assert seen() == before
        with ReadModel(tables) as model:
            assert not model.rows(
                'SELECT i."group" FROM open_incidents i ANTI JOIN current_groups g USING (cluster, "group")'
            )
