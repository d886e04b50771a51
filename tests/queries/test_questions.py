"""Each question beside an oracle that folds the same effects one by one, amid and after a group's troubles."""

from collections import Counter

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import AssignmentChange
from streaming.base.errors import InvalidValueError, NotFoundError, UserError
from streaming.queries.group_at import find_group
from streaming.queries.groups import LAST_REBALANCES, groups, overview, read_group
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.queries.ownership import diff, intervals, last_owner, queues, who_owned
from streaming.queries.rebalances import rebalance, rebalance_totals, rebalances
from streaming.queries.results import as_json
from streaming.queries.roots import EXPLAINING
from streaming.queries.sql_worker import sql
from tests.support.asked import END, INSTANTS, ReportedGroup
from tests.support.trace import START

RANK = ["BAD", "WARN", "UNKNOWN", "OK"]
NAMED = [("g", "c"), ("h", "c"), ("twin", "d")]


@pytest.fixture(scope="module")
def model(asked_model):
    return asked_model


MOMENTS = [pytest.param(one, marks=pytest.mark.prove if at % 2 else ()) for at, one in enumerate(INSTANTS)]
"""Every second of them in the short form: amid the storm, stuck queues, the broker's restart, and the end."""


def place(row) -> tuple[str, str, int]:
    return row.topic, row.broker, row.queue_id


@pytest.mark.parametrize("instant", MOMENTS)
def test_groups_are_as_they_were_last_told(model, instant):
    listed = groups(model, instant)

    assert {(group.group, group.cluster) for group in listed} == {
        *NAMED,
        ("twin", "c"),
        ("everyone", "c"),
        ("pullers", "c"),
        ("calm", "c"),
    }
    assert [RANK.index(group.health) for group in listed] == sorted(RANK.index(group.health) for group in listed)
    for group in listed:
        reported = ReportedGroup(group.group, instant, group.cluster)
        state, states, opened = reported.state(), reported.queues(), reported.open().values()
        assert (group.time, group.health, group.health_reason, group.members) == (
            state.time, state.health, state.health_reason, state.members,
        )  # fmt: skip
        assert group.coverage.members == len(state.members)
        known = reported.lags()
        lags = [known[queue][0] for queue in states if queue in known and not known[queue][1]]
        assert (group.queues, group.lag_unknown) == (len(states), len(states) - len(lags))
        assert group.lag == (sum(lags) if lags else None)
        roots = incidents(model, cluster=group.cluster, group=group.group, only_open=True, at=instant, unfold=False)
        own = [incident.severity for incident in roots]
        counted = {name: own.count(name) for name in ("critical", "warning", "info")}
        assert group.incidents.model_dump() == counted | {"closed": 0}
        assert {one.incident_id for one in roots if one.group} <= {one.incident_id for one in opened}
        assert group.last_rebalance == max((r.start_time for r in reported.rebalances()), default=None)
        if group.group in {"everyone", "pullers"}:
            assert group.unowned is None
        else:
            assert group.unowned == sum(queue.owner is None for queue in states.values())


@pytest.mark.parametrize("instant", MOMENTS)
@pytest.mark.parametrize(("name", "cluster"), NAMED)
def test_queues_have_the_owners_of_then(model, name, cluster, instant):
    reported = ReportedGroup(name, instant, cluster)
    owners, states = reported.owners(), reported.queues()

    of_group = queues(model, find_group(model, name, cluster, at=instant))
    assert {place(queue): queue.owner for queue in of_group} == {queue: owners.get(queue) for queue in states}
    assert {place(queue): (queue.status, queue.time) for queue in of_group} == {
        queue: (state.status, state.time) for queue, state in states.items()
    }
    lags = reported.lags()
    assert {place(queue): (queue.lag, queue.lag_is_stale) for queue in of_group} == {
        queue: lags.get(queue, (None, False)) for queue in states
    }
    assert [place(queue) for queue in of_group] == sorted(map(place, of_group))


@pytest.mark.parametrize("instant", INSTANTS)
def test_who_owned_a_queue_is_the_interval_around_then(model, instant):
    owners = ReportedGroup("g", instant).owners()

    for topic, broker, queue_id in [("Orders", "broker-a", 0), ("Orders", "broker-b", 3)]:
        interval = who_owned(model, find_group(model, "g", at=instant), MessageQueue(topic, broker, queue_id))
        assert (interval.client_id if interval else None) == owners.get((topic, broker, queue_id))
        if interval is not None:
            assert interval.from_time <= instant
            assert interval.to_time is None or instant < interval.to_time


def test_an_unassigned_queue_had_somebody_before(model):
    group_at = find_group(model, "g")
    released = [
        one for one in ReportedGroup("g").of(AssignmentChange) if (one.broker, one.queue_id) == ("broker-a", 0)
    ][-1]

    assert who_owned(model, find_group(model, "g"), MessageQueue("Orders", "broker-a", 0)) is None
    before = last_owner(model, group_at, MessageQueue("Orders", "broker-a", 0))
    assert (before.client_id, before.to_time) == (released.client_id, released.time)
    early = find_group(model, "g", at=INSTANTS[0])
    assert last_owner(model, early, MessageQueue("Orders", "broker-a", 0)) is None


@pytest.mark.parametrize(("earlier", "later"), [(0, 3), (3, 0), (2, 4), (4, 8), (8, None), (10, 10)])
def test_a_difference_is_that_of_two_times(model, earlier, later):
    begin, end = INSTANTS[earlier], None if later is None else INSTANTS[later]
    if later is not None and later < earlier:
        with pytest.raises(UserError, match="--from must be before --to"):
            diff(model, find_group(model, "g", at=begin), end)
        return
    before, after = (
        ReportedGroup("g", begin).owners(),
        (ReportedGroup("g", end) if end else ReportedGroup("g")).owners(),
    )

    assert {
        place(one): (one.from_client, one.to_client) for one in diff(model, find_group(model, "g", at=begin), end)
    } == {
        queue: (before.get(queue), after.get(queue))
        for queue in before | after
        if before.get(queue) != after.get(queue)
    }


def test_intervals_are_those_that_touch_the_span(model):
    group_at = find_group(model, "g")
    since, until = START + 80_000, START + 120_000

    owned = intervals(model, group_at, since, until)
    assert owned
    assert all(one.from_time <= until and (one.to_time is None or one.to_time >= since) for one in owned)
    for instant in range(since, until, 5_000):
        at = {place(one): one.client_id for one in owned
              if one.from_time <= instant and (one.to_time is None or instant < one.to_time)}  # fmt: skip
        assert at == ReportedGroup("g", instant).owners()


def test_retry_topics_are_told_only_when_asked_for(model):
    plain, every = queues(model, find_group(model, "g")), queues(model, find_group(model, "g"), retry=True)

    assert {one.topic for one in plain} == {"Orders"}
    assert {one.topic for one in every} == {"Orders", "%RETRY%g"}
    assert len(every) == 2 * len(plain)
    span = (INSTANTS[0], INSTANTS[-1])
    assert (
        len(diff(model, find_group(model, "g", at=span[0]), span[1], retry=True))
        == 2 * len(diff(model, find_group(model, "g", at=span[0]), span[1]))
        > 0
    )
    of = find_group(model, "g")
    assert len(intervals(model, of, *span, retry=True)) == 2 * len(intervals(model, of, *span)) > 0
    assert queues(model, find_group(model, "g"), topic="Orders") == plain


@pytest.mark.parametrize("instant", [*MOMENTS, None])
def test_an_overview_has_members_open_incidents_and_last_rebalances(model, instant):
    reported = ReportedGroup("g") if instant is None else ReportedGroup("g", instant)
    summary = overview(model, find_group(model, "g", at=instant))

    owned = [queue.owner for queue in reported.queues().values()]
    assert {one.client_id: one.queues for one in summary.members} == {
        client: owned.count(client) for client in {*reported.state().members, *owned} - {None}
    }
    assert {one.client_id for one in summary.members if one.is_member} == set(reported.state().members)
    roots = [one for one in summary.incidents if one.group]
    assert {one.incident_id for one in roots} <= set(reported.open())
    assert bool(roots) == bool(reported.open())
    assert summary.group == read_group(model, find_group(model, "g", at=instant))
    assert len(summary.rebalances) <= LAST_REBALANCES
    assert all(one.moves == () for one in summary.rebalances)


@pytest.mark.parametrize(("since", "until"), [(0, None), (INSTANTS[1], INSTANTS[6]), (INSTANTS[-1], None), (0, 1)])
def test_totals_are_those_of_the_rebalances_in_the_period(model, since, until):
    in_period = rebalances(model, find_group(model, "g"), since=since, until=until)
    pauses = {one.rebalance_id: [m.pause_ms for m in one.moves if m.pause_ms is not None] for one in in_period}
    totals = rebalance_totals(model, find_group(model, "g"), since, until)
    assert totals.rebalances == len(in_period)
    assert totals.first == min((one.start_time for one in in_period), default=None)
    assert totals.pause_ms == (sum(map(sum, pauses.values())) if any(pauses.values()) else None)
    assert totals.pauses_unknown == sum(len(one.moves) for one in in_period) - sum(map(len, pauses.values()))
    assert totals.pause_is_at_most == any(
        m.pause_is_at_most for one in in_period for m in one.moves if m.pause_ms is not None
    )
    assert totals.costliest_pause_ms == max((sum(some) for some in pauses.values() if some), default=None)
    assert totals.costliest is None or sum(pauses[totals.costliest]) == totals.costliest_pause_ms
    assert totals.by_cause == Counter(one.trigger for one in in_period)
    assert totals.pause_by_cause == {
        cause: sum(some for one in in_period if one.trigger == cause for some in pauses[one.rebalance_id])
        if any(pauses[one.rebalance_id] for one in in_period if one.trigger == cause)
        else None
        for cause in totals.by_cause
    }
    assert list(totals.by_cause.values()) == sorted(totals.by_cause.values(), reverse=True)


def test_rebalances_are_newest_first_and_within_the_span(model):
    reported = ReportedGroup("g").rebalances()

    newest_first = rebalances(model, find_group(model, "g"))
    assert [one.rebalance_id for one in newest_first] == [one.rebalance_id for one in reported]
    assert [len(one.moves) for one in newest_first] == [len(one.moves) for one in reported]
    assert rebalances(model, find_group(model, "g"), last=2) == newest_first[:2]
    since, until = newest_first[5].start_time, newest_first[2].start_time
    assert rebalances(model, find_group(model, "g"), since=since, until=until) == newest_first[2:6]


def test_a_rebalance_is_found_by_how_its_id_begins(model):
    newest = rebalances(model, find_group(model, "g"), last=1)[0]

    assert rebalance(model, find_group(model, "g"), newest.rebalance_id[:8]) == newest
    with pytest.raises(UserError, match=r"\d+ rebalances of g have ids beginning with ''"):
        rebalance(model, find_group(model, "g"), "")
    with pytest.raises(NotFoundError, match="No rebalance of g has an id beginning with 'zz'"):
        rebalance(model, find_group(model, "g"), "zz")


@pytest.mark.parametrize("instant", [*INSTANTS, None])
def test_incidents_are_as_their_last_transition_left_them(model, instant):
    reported = ReportedGroup("g") if instant is None else ReportedGroup("g", instant)

    listed = {one.incident_id: one for one in incidents(model, group="g", at=instant)}
    assert {name: (one.severity, one.changed_at) for name, one in listed.items()} == {
        name: (one.severity, one.time) for name, one in reported.incidents().items()
    }
    for name, of_core in reported.incidents().items():
        explaining = listed.get(listed[name].parent)
        # One that names a client or broker with an incident of its own has it as parent.
        assert listed[name].parent == of_core.parent or (of_core.parent is None and explaining.code in EXPLAINING)
    assert {name for name, one in listed.items() if one.resolved_at is None} == set(reported.open())
    only_open = incidents(model, group="g", at=instant, only_open=True)
    assert {one.incident_id for one in only_open} == set(reported.open())


def test_incidents_are_filtered_and_the_open_ones_come_first(model):
    listed = incidents(model)
    assert [one.resolved_at is not None for one in listed] == sorted(one.resolved_at is not None for one in listed)

    of_h = incidents(model, group="h")
    assert [one for one in of_h if one.group] == [one for one in listed if one.group == "h"] != []
    assert [one.code for one in of_h if not one.group], "its broker's, too"
    for wanted in ({"code": "LOCK_EXPIRED"}, {"severity": "info"}, {"cluster": "d"}):
        [(name, value)] = wanted.items()
        assert incidents(model, **wanted) == [one for one in listed if getattr(one, name) == value] != []
    late = START + 200_000
    since = [one for one in listed if one.resolved_at is None or one.resolved_at >= late]
    assert [one.incident_id for one in incidents(model, since=late)] == [one.incident_id for one in since]


def test_an_incident_has_its_life_what_it_explains_and_the_event_behind_it(model):
    reported = ReportedGroup("twin", cluster="d").incidents()

    story = incident(model, "twin-d-st")
    assert story.incident.incident_id == "twin-d-storm"
    assert {one.incident_id for one in story.absorbed} == {
        name for name, one in reported.items() if one.code == "STALE_HEARTBEAT"
    }
    assert {one.parent for one in story.absorbed} == {"twin-d-storm"}
    assert story.life[0].transition == "OPENED"
    assert len(story.life) == story.incident.transitions
    source_id, _, seq = story.life[0].cause.split("|")
    assert story.cause_event is not None
    assert (story.cause_event["source_id"], story.cause_event["seq"]) == (source_id, int(seq))


def test_incident_ids_that_fit_none_or_several_are_refused(model):
    with pytest.raises(NotFoundError, match="No incident has an id beginning with 'zz'"):
        incident(model, "zz")
    with pytest.raises(UserError, match=r"\d+ incidents have ids beginning with ''"):
        incident(model, "")


def test_a_name_in_two_clusters_wants_the_cluster(model):
    with pytest.raises(UserError, match="Group twin exists in the clusters c, d: select one with --cluster"):
        find_group(model, "twin")
    assert find_group(model, "twin", "d").cluster == "d"


def test_an_unknown_group_or_a_time_before_history_is_a_sentence(model):
    with pytest.raises(NotFoundError, match="Unknown consumer group twins: did you mean twin"):
        find_group(model, "twins")
    with pytest.raises(NotFoundError, match="`rebalance-watch group list` lists all groups"):
        find_group(model, "payments-of-last-year")
    with pytest.raises(UserError, match="The history of g begins at 2027-01-15T08:00:"):
        find_group(model, "g", at=START - 1)


def test_what_is_not_known_is_not_told_as_nothing(model):
    with pytest.raises(NotFoundError, match=r"Unknown cluster e: known clusters: c, d"):
        groups(model, cluster="e")
    with pytest.raises(NotFoundError, match="Unknown consumer group x: "):
        incidents(model, group="x")
    with pytest.raises(NotFoundError, match="Unknown consumer group g in cluster d"):
        find_group(model, "g", "d")
    with pytest.raises(UserError, match="History begins at 2027-01-15T08:00:"):
        groups(model, START - 1)
    with pytest.raises(UserError, match="History begins at 2027-01-15T08:00:"):
        incidents(model, at=START - 1)
    with pytest.raises(NotFoundError, match=r"Unknown topic Order of g: did you mean Orders\?"):
        queues(model, find_group(model, "g"), topic="Order")
    with pytest.raises(NotFoundError, match="Unknown topic Order of g"):
        diff(model, find_group(model, "g", at=START + 20_000), topic="Order")
    with pytest.raises(NotFoundError, match="Unknown queue Orders@broker-a:9 of g: Orders has queues 0 to 3"):
        who_owned(model, find_group(model, "g"), MessageQueue("Orders", "broker-a", 9))
    with pytest.raises(InvalidValueError, match=r"Invalid code 'LAG_GROWT': did you mean LAG_GROWTH\?"):
        incidents(model, group="g", code="LAG_GROWT")
    assert incidents(model, group="g", code="proxy_unreachable") == []


def test_who_broadcasts_owns_nothing(model):
    assert all(one.owner is None for one in queues(model, find_group(model, "everyone")))
    group_at = find_group(model, "everyone", at=END)
    for ask, *of in ((who_owned, MessageQueue("Orders", "broker-a", 0)), (diff, END)):
        with pytest.raises(UserError, match="everyone is broadcasting: every client reads every queue"):
            ask(model, group_at, *of)


def test_an_owner_is_none_where_history_says_so_despite_an_older_state(model):
    [before], [after] = (
        queues(model, find_group(model, "calm", at=END - 2_500)),
        queues(model, find_group(model, "calm")),
    )
    assert (before.owner, before.since) == ("a", END - 3_000)
    assert (after.owner, after.since) == (None, END - 2_000)


def test_a_queue_that_did_not_exist_yet_was_not_unassigned(model):
    with pytest.raises(NotFoundError, match="had no queue Late@b:0 at that time: it was first seen at 2027-01-15"):
        who_owned(model, find_group(model, "calm", at=END - 4_000), MessageQueue("Late", "b", 0))
    [change] = diff(model, find_group(model, "calm", at=END - 4_000), END - 2_500)
    assert (change.from_client, change.to_client, change.is_new) == (None, "a", True)
    [later] = diff(model, find_group(model, "calm", at=END - 2_500), END)
    assert (later.from_client, later.to_client, later.is_new) == ("a", None, False)


def test_sql_gives_what_json_has(model):
    answer = sql(
        model,
        "SELECT sum(s.lag) AS lag, NULL AS nothing, CAST('nan' AS DOUBLE) AS odd, {'a': [1, 2]} AS parts,"
        " CAST('2027-01-15' AS DATE) AS day, CAST('x' AS BLOB) AS raw, 1.5::DECIMAL(3, 1) AS half"
        f" FROM progress_at(from_ms({INSTANTS[3]})) s WHERE s.group = 'g'",
    )

    total = sum(
        queue.lag
        for queue in queues(model, find_group(model, "g", at=INSTANTS[3]), retry=True)
        if queue.lag is not None
    )
    assert answer.rows == ((total, None, None, {"a": [1, 2]}, "2027-01-15", "78", 1.5),)
    assert answer.columns == ("lag", "nothing", "odd", "parts", "day", "raw", "half")
    assert not answer.cut
    few = sql(model, "SELECT 1 AS a, 2 AS a FROM range(5)", limit=3)
    assert (few.columns, few.rows, few.cut) == (("a", "a"), ((1, 2),) * 3, True)


def test_an_answer_is_json_that_says_null_for_what_is_not_known(model):
    group = read_group(model, find_group(model, "everyone"))
    reported = msgspec.json.decode(as_json(group))
    assert reported["unowned"] is None
    assert reported["coverage"]["brokers"] == group.coverage.brokers
    assert as_json(None) == b"null"
    assert as_json([]) == b"[]"
