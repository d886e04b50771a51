"""The health of groups over a period."""

import pytest

from rebalance_model.observe.effects import GroupSnapshot
from streaming.queries.group_health import SLICES, health_over
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import MINUTE, Group
from tests.support.tables import append, make_tables

UNTIL = 1_763_700_000_000
HOUR = 60 * MINUTE
SINCE = UNTIL - HOUR
POLLS = range(SINCE - 10 * MINUTE, UNTIL + 1, MINUTE)


def group(name: str, cluster: str = "prod") -> Group:
    return Group(name, "T", ("c@1",), cluster)


@pytest.fixture
def slices(tmp_path):
    """Return a function that writes the rows of groups and returns the last hour of each, a letter for a slice."""

    def asked(*groups: Group, until: int = UNTIL) -> dict[str, str]:
        append(make_tables(tmp_path), [row for one in groups for row in one.taken()])
        keys = [(one.common["cluster"], one.common["group"]) for one in groups]
        with ReadModel(tmp_path) as model:
            found = health_over(model, keys, until - HOUR, until)
        return {name: "".join(health[0] for health in worst) for (_, name), worst in found.items()}

    return asked


def heard(cluster: Group, times: range = POLLS) -> Group:
    """Add an answer of a poll a minute, from which it is known that telemetry went on."""
    for time in times:
        cluster.progress(time, (0,), (0,))
    return cluster


def states(group: Group, *changes: tuple[int, str]) -> Group:
    """Add a state every 5 minutes from the last one before the period on, and when it changes (minute, health)."""
    health = dict(changes)
    current = "OK"
    for minute in range(-5, 61):
        current = health.get(minute, current)
        if minute % 5 == 0 or minute in health:
            group.state(SINCE + minute * MINUTE, current)
    return group


def test_each_slice_has_the_worst_health_of_its_two_minutes(slices):
    sick = heard(states(group("sick"), (21, "BAD"), (23, "WARN"), (30, "OK")))
    calm = states(group("calm"))

    health = slices(sick, calm)

    assert health["sick"] == "O" * 10 + "BB" + "WWW" + "O" * 15
    assert health["calm"] == "O" * SLICES


def test_a_state_is_not_carried_on_while_telemetry_had_stopped(slices):
    gap = group("gap")
    for minute in (-5, 0, 5, 10, 30, 35, 40, 45, 50, 55, 60):
        gap.state(SINCE + minute * MINUTE, "BAD" if minute == 10 else "OK")
    heard(gap, range(SINCE - 5 * MINUTE, SINCE + 12 * MINUTE + 1, MINUTE))
    heard(gap, range(SINCE + 30 * MINUTE, UNTIL + 1, MINUTE))

    assert slices(gap)["gap"] == "OOOOO" + "B" + "U" * 9 + "O" * 15


def test_a_cluster_that_fell_silent_is_unknown_and_others_are_not(slices):
    dead, alive = group("dead", "c1"), heard(states(group("alive", "c2")))
    for minute in range(-5, 51, 5):
        dead.state(SINCE + minute * MINUTE)
    heard(dead, range(SINCE - 5 * MINUTE, SINCE + 50 * MINUTE + 1, MINUTE))

    assert slices(dead, alive) == {"dead": "O" * 25 + "U" * 5, "alive": "O" * SLICES}


def test_before_its_first_state_and_long_after_its_last_a_group_is_unknown(slices):
    young, gone = group("young"), heard(group("gone"))
    for minute in range(30, 61, 5):
        young.state(SINCE + minute * MINUTE)
    gone.state(SINCE, "WARN")

    health = slices(young, gone)

    assert health["young"] == "U" * 15 + "O" * 15
    assert health["gone"] == "W" * 8 + "U" * 22  # three intervals of 5 minutes


def test_hooks_alone_are_silent_after_three_intervals_only(slices):
    assert slices(states(group("hooked")))["hooked"] == "O" * SLICES


def test_all_groups_are_read_at_once(tmp_path, monkeypatch):
    groups = [states(group(f"g{n}")) for n in range(20)]
    append(make_tables(tmp_path), [row for one in groups for row in one.taken() if isinstance(row, GroupSnapshot)])
    asked = []
    rows = ReadModel.rows
    monkeypatch.setattr(ReadModel, "rows", lambda self, *args: asked.append(args) or rows(self, *args))
    with ReadModel(tmp_path) as model:
        found = health_over(model, [("prod", f"g{n}") for n in range(20)], SINCE, UNTIL)

    assert len(found) == 20
    assert len(asked) <= 2
