"""State of a group's page, from the tables: incidents that it counts and lists, members, changes, problems."""

import pytest

from streaming.queries.columns.column import Context
from streaming.queries.roots import cards
from streaming.serve.dashboard.pages import group_state
from streaming.serve.dashboard.pages.group_state import state
from streaming.serve.dashboard.pages.home import overview
from streaming.serve.dashboard.parts.markup import rendered
from streaming.serve.dashboard.parts.moment import Window
from streaming.serve.dashboard.parts.ordering import page_of
from streaming.serve.dashboard.timeline.lane_folds import LaneFilter, history
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import CLIENTS, DIED, HOUR, MINUTE, NOW, Group
from tests.support.tables import append, make_tables


def test_the_list_of_incidents_says_how_many_the_tile_above_does_not_count(tmp_path):
    group = Group("parent-group", "Parent", ("a@1",))
    group.state(NOW - HOUR)
    group.incident(NOW - HOUR, "cause", "OPENED", NOW - HOUR)
    group.incident(NOW - HOUR, "effect", "OPENED", NOW - HOUR, parent="cause", code="LAG_GROWTH", severity="warning")
    tables = make_tables(tmp_path / "tables")
    append(tables, group.taken())
    with ReadModel(tables) as model:
        group_now = state(model, "parent-group", None, None)
    assert group_now.group.incidents.critical + group_now.consequences == len(group_now.incidents) == 2
    listed = page_of(cards(group_now.incidents), 0, 6)
    text = rendered(
        "incident_list", cards=listed.rows, **listed.pager, consequences=group_now.consequences, with_group=False,
        at=None, now=NOW,
    )  # fmt: skip
    assert "1 of these incidents is explained by another one and shown under it" in text


def test_equal_incidents_of_several_queues_are_one_card_under_their_cause(tmp_path):
    group = Group("frozen-group", "Parent", ("a@1",))
    group.state(NOW - HOUR)
    nothing = dict.fromkeys(("topic", "broker", "queue_id"))
    group.incident(NOW - HOUR, "cause", "OPENED", NOW - HOUR, code="CLIENT_UNRESPONSIVE", subject="a@1", **nothing)
    for number in range(6):
        group.incident(
            NOW - MINUTE, f"stuck-{number}", "OPENED", NOW - MINUTE, parent="cause", absorbed=False, queue_id=number,
            subject=f"Parent@broker-a:{number}",
        )  # fmt: skip
    group.incident(NOW - MINUTE, "lag", "OPENED", NOW - MINUTE, parent="cause", code="LAG_GROWTH", severity="warning")
    tables = make_tables(tmp_path / "tables")
    append(tables, group.taken())
    with ReadModel(tables) as model:
        group_now, all_groups = state(model, "frozen-group", None, None), overview(model)
    assert (group_now.group.incidents.critical, group_now.consequences) == (1, 7)
    assert [one.consequences for one in all_groups.incidents] == [7]  # as the tile counts
    [card] = cards(group_now.incidents)
    assert [(len(under.incidents), under.first.absorbed) for under in card.under] == [(6, False), (1, True)]
    text = rendered(
        "incident_list", cards=[card], page=0, pages=1, total=1, consequences=group_now.consequences, with_group=False,
        at=None, now=NOW,
    )  # fmt: skip
    assert "6 queues: " in text
    assert text.count("has an alert of its own") == 1
    assert text.index("CLIENT_UNRESPONSIVE") < text.index("ORDERED_QUEUE_STUCK") < text.index("LAG_GROWTH")


@pytest.mark.parametrize(("broker", "affects"), [("broker-a", True), ("broker-b", False), ("poll-1", True)])
def test_the_tile_of_open_incidents_counts_what_the_list_below_has(tmp_path, broker, affects):
    group, other = (Group(name, "Orders", ("a@1",), broker_of=lambda _, of=of: of)
                    for name, of in (("hit-group", "broker-a"), ("other-group", "broker-b")))  # fmt: skip
    cluster = Group("", "", ("a@1",))
    for member in (group, other):
        member.state(NOW - MINUTE, "BAD", "BROKER_UNREACHABLE")
        member.queue(NOW - MINUTE, 0, "a@1")
    group.incident(NOW - MINUTE, "effect", "OPENED", NOW - MINUTE, parent="cause")
    nothing = dict.fromkeys(("topic", "broker", "queue_id", "client_id"))
    cluster.incident(
        NOW - MINUTE, "cause", "OPENED", NOW - MINUTE, code="BROKER_UNREACHABLE", subject=broker, **nothing
    )
    tables = make_tables(tmp_path / "tables")
    append(tables, [*group.taken(), *other.taken(), *cluster.taken()])
    with ReadModel(tables) as model:
        group_now = state(model, "hit-group", None, None)
        listed_groups = {member.group: member.incidents for member in overview(model).groups}
    assert group_now.group.incidents == listed_groups["hit-group"]
    assert group_now.group.incidents.critical == 1  # what no listed one explains is a root itself
    assert group_now.consequences == affects
    assert listed_groups["other-group"].critical == (broker != "broker-a")
    assert group_now.group.incidents.critical + group_now.consequences == len(group_now.incidents)
    tile = rendered(
        "group_head", group=group_now.group, at=None, note="", ends=group_now.ends, coverage="", differing=0,
        unpredicted=0, consequences=group_now.consequences, brokers=(),
    ).split("<dd>")[1]  # fmt: skip
    assert ("+ 1 explained by another" in tile) == affects


def lags(group, queues):
    [column] = [column for column in group_state.MEMBER_COLUMNS if column.name == "lag"]
    return [str(column.value(member, Context(NOW))) for member in group_state.members(group, queues)]


def test_differences_changes_and_members_at_an_instant(model):
    now, then = (state(model, "orders-group", None, at) for at in (None, NOW - DIED - 1))

    assert [m.client_id for m in group_state.members(now.group, now.queues)] == [CLIENTS[0], CLIENTS[1]]
    assert [m.queues for m in group_state.members(then.group, then.queues)] == [2, 2, 2]
    fresh = {"lag": 3, "lag_is_stale": False, "lag_is_at_least": False}
    first, *others = (queue.model_copy(update=fresh) for queue in then.queues)
    assert lags(then.group, [first, *others]) == ["6", "6", "6"]
    for unlike, shown in (({"lag_is_at_least": True}, "≥6"), ({"lag_is_stale": True}, "≥3"), ({"lag": None}, "≥3")):
        of_owner = lags(then.group, [first.model_copy(update=unlike), *others])
        assert sorted(of_owner) == sorted([shown, "6", "6"])
    times = group_state.changes(history(model, "orders-group", None, Window(NOW - HOUR, NOW)))
    assert group_state.before(times, NOW - DIED) == NOW - DIED - 2_300  # the rebalance's begin
    assert group_state.after(times, NOW - DIED - 2_300) == NOW - DIED
    assert group_state.after(times, NOW) is None


def test_a_healthy_shared_queue_is_no_problem(model):
    queue = state(model, "orders-group", None, None).queues[0]
    shared = queue.model_copy(update={"owner": None, "expected_owner": None, "status": "OK"})

    problems = LaneFilter(only_problems=True)
    assert not group_state.matches(shared, problems)
    assert group_state.matches(shared.model_copy(update={"status": "UNKNOWN"}), problems)
    assert group_state.matches(shared.model_copy(update={"expected_owner": "a"}), problems)
