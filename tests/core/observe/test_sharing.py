"""Groups whose members do not divide the queues: no owners are reported, and coverage shows the reason."""

import json

import msgspec
import pytest

from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition, QueueSnapshot
from rebalance_model.observe.policy import Policy
from streaming.queries.evidence import commands_from
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import rows
from tests.support.trace import START, TOPIC, Held, Member, Trace, holding

NO_ANSWER = Member(error=207)
POPS = Member(orderly=False, pops=(TOPIC,))


def last(trace: Trace, kind: type = GroupSnapshot):
    return [e for e in trace.effects if isinstance(e, kind)][-1]


def coverage(trace: Trace) -> dict[str, object]:
    return json.loads(last(trace).coverage)


def growing(at: int) -> dict[int, tuple[int, int]]:
    """Offsets of queue 0: one more message each second, and nothing is committed."""
    return {0: (100 + at, 100)}


def concurrent(*queues: int) -> Member:
    return Member(tuple(Held(q, locked=False, cached=5) for q in queues), orderly=False)


# BROADCASTING


def test_a_broadcasting_group_with_old_clustering_offsets_opens_nothing():
    """It consumed in CLUSTERING mode before: the broker keeps those offsets, and no client commits there any more."""
    trace = Trace(message_model="BROADCASTING")
    for at in range(0, 700, 10):
        trace.poll(at, {"a": concurrent(0, 1, 2, 3), "b": concurrent(0, 1, 2, 3)}, growing(at))
    for at in range(700, 900, 10):  # and there is no member for a while
        trace.poll(at, {}, growing(at))
    assert trace.incidents() == []
    assert {"QUEUE_STALLED", "LAG_GROWTH", "QUEUE_UNASSIGNED"} <= set(coverage(trace)["silent_rules"])
    assert (last(trace).health, last(trace, QueueSnapshot).status_reason) == ("OK", "every client reads it")


# POP


def test_queues_of_popping_clients_are_shared_and_not_unassigned():
    trace = Trace()
    for at in range(0, 400, 10):
        trace.poll(at, {"a": POPS, "b": POPS}, growing(at))
    assert {what for _, _, what in trace.incidents()} <= {"LAG_GROWTH CONSUMED_SLOWER"}
    row = [e for e in trace.effects if isinstance(e, QueueSnapshot) and e.queue_id][-1]  # 0 has its incident
    assert (row.owner, row.expected_owner, row.status_reason) == (None, None, "shared: its clients pop it")
    assert coverage(trace)["sharing"] == "POPPED"
    assert {"QUEUE_STALLED", "QUEUE_UNASSIGNED", "ASSIGNMENT_SKEW"} <= set(coverage(trace)["silent_rules"])


OTHER = "Invoices"


def pulling(*queues: int, pops: tuple[str, ...] = ()) -> Member:
    """Return a concurrent member that has these queues of the first topic, and pops other topics."""
    return Member(tuple(Held(q, locked=False, cached=5) for q in queues), orderly=False, pops=pops)


def stories(*, pops: tuple[str, ...]) -> Trace:
    """Fold a group of two members whose queues 2 and 3 nobody takes, and whose queue 0 stands."""
    trace = Trace(topics=(TOPIC, *pops))
    for at in range(0, 400, 10):
        offsets = growing(at) | {1: (100 + at, 100 + at), 2: (100 + at, 100)}
        trace.poll(at, {"a": pulling(0, pops=pops), "b": pulling(1, pops=pops)}, offsets)
    return trace


def test_a_topic_that_is_popped_hides_nothing_of_one_that_is_pulled():
    """Issue 35: with a second topic that the members popped, only LAG_GROWTH was left."""
    classic, mixed = stories(pops=()), stories(pops=(OTHER,))
    assert {"QUEUE_UNASSIGNED", "QUEUE_STALLED MESSAGE_HELD"} <= {what for _, _, what in classic.incidents()}
    assert mixed.incidents() == classic.incidents()
    assert (coverage(classic)["sharing"], coverage(mixed)["sharing"]) == ("DIVIDED", "MIXED")


def test_queues_of_a_popped_topic_have_no_expected_owner_beside_a_pulled():
    mixed = stories(pops=(OTHER,))
    rows = {(e.topic, e.queue_id): e for e in mixed.effects if isinstance(e, QueueSnapshot)}
    assert {rows[TOPIC, q].expected_owner for q in range(4)} == {"a", "b"}
    shared = {(rows[OTHER, q].owner, rows[OTHER, q].expected_owner, rows[OTHER, q].status_reason) for q in range(4)}
    assert shared == {(None, None, "shared: its clients pop it")}


def test_what_a_pulled_queue_had_ends_when_its_topic_is_popped():
    trace = Trace()
    for at in range(0, 400, 10):
        trace.poll(at, {"a": pulling(0, 1), "b": Member(orderly=False)}, growing(at))
    assert "QUEUE_UNASSIGNED" in {what for _, _, what in trace.incidents()}
    for at in range(400, 430, 10):
        trace.poll(at, {"a": POPS, "b": POPS}, growing(at))
    last_of = {one.incident_id: one for one in trace.effects if isinstance(one, IncidentTransition)}.values()
    ended = {one.resolution for one in last_of if one.code == "QUEUE_UNASSIGNED"}
    assert ended == {"its topic is popped: clients share its queues"}


# FIFO


@pytest.mark.parametrize(("fifo", "opened"), [(True, 1), (False, 0)])
def test_a_queue_that_is_popped_in_order_is_blocked(fifo, opened):
    """The clients speak gRPC: no broker lists them. Not in order, a commit advances when messages are popped."""
    trace = Trace(fifo=fifo)
    for at in range(0, 40, 10):
        trace.poll(at, {}, {0: (100 + at, 100 + at), 1: (100 + at, 100 + at)})
    for at in range(40, 160, 10):
        trace.poll(at, {}, {0: (100 + at, 130), 1: (100 + at, 100 + at)})
    assert len(trace.incidents("ORDERED_QUEUE_STUCK")) == opened
    if opened:
        [row] = rows(trace, "ORDERED_QUEUE_STUCK")
        assert (row.sub_cause, row.severity, row.queue_id) == ("POP_BLOCKED", "critical", 0)
        assert (row.time - START) / 1000 == 100
        trace.poll(160, {}, {0: (260, 140), 1: (260, 260)})
        assert trace.incidents("ORDERED_QUEUE_STUCK")[-1][:2] == (160, "RESOLVED")


def test_ordered_members_that_pull_are_judged_by_their_locks():
    """The setting is for clients that pop; the group's are classic ones."""
    trace = Trace(fifo=True)
    for at in range(0, 200, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3, in_listener=1, consume_age=at)}, growing(at))
    assert {what for _, _, what in trace.incidents("ORDERED_QUEUE_STUCK")} == {"ORDERED_QUEUE_STUCK LISTENER_HUNG"}


# Nobody pops


def unlisted(trace: Trace, waits: int, until: int) -> Trace:
    """Fold a group without listed clients whose commits advance until 100; then messages wait in queue 0."""
    for at in range(0, 110, 10):
        trace.poll(at, {}, {0: (100 + at, 100 + at)})
    for at in range(110, until, 10):
        trace.poll(at, {}, {0: (200 + waits, 200)})
    return trace


@pytest.mark.parametrize(("fifo", "waits", "opened"), [(False, 5, 1), (False, 0, 0), (True, 5, 0)])
def test_messages_wait_behind_a_proxy_and_nobody_pops(fifo, waits, opened):
    """A blocked FIFO queue looks the same, and is reported as such."""
    trace = unlisted(Trace(fifo=fifo), waits, until=300)
    opening = [row for row in rows(trace, "NO_ACTIVE_CLIENTS_WITH_LAG") if row.transition == "OPENED"]
    assert [(row.sub_cause, row.severity) for row in opening] == [("NOT_POPPED", "critical")] * opened
    assert [(row.time - START) / 1000 for row in opening] == [180] * opened
    for row in opening:  # without a topic the command fails: such a group has no retry topic
        of_row = msgspec.structs.asdict(row) | {"evidence": json.loads(row.evidence), "main_cause": row.sub_cause}
        [command] = commands_from(of_row | {"main_client_id": None})
        assert command.text == "mqadmin consumerProgress -g g -t Orders"


def test_a_message_after_hours_without_any_has_its_time():
    """The near miss: the last commit is long ago, and the message has waited 20 s."""
    trace = unlisted(Trace(), 0, until=4_000)
    for at in range(4_000, 4_030, 10):
        trace.poll(at, {}, {0: (201, 200)})
    trace.poll(4_030, {}, {0: (201, 201)})
    assert trace.incidents("NO_ACTIVE_CLIENTS_WITH_LAG") == []


# CONSUME_ACTIVELY


def test_active_pullers_have_no_expected_owner():
    trace = Trace(consume_type="CONSUME_ACTIVELY", policy=Policy(allocate_strategy="AVG"))
    for at in range(0, 200, 10):
        trace.poll(at, {"a": concurrent(2, 3), "b": concurrent(0, 1)})
    assert trace.incidents() == []
    assert trace.owners() == {0: "b", 1: "b", 2: "a", 3: "a"}
    assert {queue.expected_owner for queue in trace.state.queues.values()} == {None}
    assert "ASSIGNMENT_MISMATCH" in coverage(trace)["silent_rules"]


def test_a_stalled_queue_of_active_pullers_is_not_called_unassigned():
    """They commit at checkpoints: what reads on can't be told from what hangs until `uncommitted_after`."""
    trace = Trace(consume_type="CONSUME_ACTIVELY", policy=Policy(uncommitted_after=120_000))
    for at in range(0, 150, 10):
        trace.poll(at, {"a": Member(orderly=False)}, growing(at))
    assert [what for _, how, what in trace.incidents("QUEUE_STALLED") if how == "OPENED"] == [
        "QUEUE_STALLED UNDETERMINED"
    ]


# Nobody is listed


def test_constant_lag_in_a_group_without_listed_clients_is_not_ok():
    trace = Trace()
    for at in range(0, 60, 10):
        trace.poll(at, {}, {0: (100, 40)})
    assert trace.incidents() == []  # it never had a client
    assert (last(trace).health, last(trace).health_reason) == (
        "UNKNOWN",
        "no client is listed, and messages wait since 2027-01-15 08:00:00 UTC or longer",
    )
    assert len([e for e in trace.effects if isinstance(e, GroupSnapshot)]) <= 3  # not a row a poll


def test_a_group_without_clients_and_without_lag_is_well():
    trace = Trace().poll(0, {}, {0: (100, 100)}).poll(10, {}, {0: (100, 100)})
    assert last(trace).health == "OK"


# Clients behind a proxy


def test_a_group_that_moved_behind_a_separate_proxy_is_consumed():
    """CLUSTER mode: no broker lists its clients; they commit, so messages that wait are on their way."""
    trace = Trace()
    for at in range(0, 30, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)}, {0: (100 + at, 95 + at)})
    for at in range(30, 300, 10):
        trace.poll(at, {}, {0: (100 + at, 95 + at)})
    assert trace.incidents() == []
    assert last(trace).health_reason == "commits advance, but no client is listed: they are behind a proxy"
    assert coverage(trace)["sharing"] == "UNLISTED"
    assert "NO_ACTIVE_CLIENTS_WITH_LAG" not in coverage(trace)["silent_rules"]


def test_the_last_commits_of_clients_that_have_gone_are_no_sign_of_others():
    trace = Trace()
    for at in range(0, 30, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)}, {0: (100 + at, 95 + at)})
    for at in range(30, 150, 10):
        trace.poll(at, {}, {0: (100 + at, 120 if at == 30 else 124)})
    assert len(trace.incidents("NO_ACTIVE_CLIENTS_WITH_LAG")) == 1


def test_clients_that_a_brokers_own_proxy_lists_answer_nothing_by_design():
    """LOCAL mode: the broker lists the gRPC clients, and a question to them is answered 207 after 10 s, always."""
    trace = Trace()
    for at in range(0, 200, 10):
        trace.poll(at, {"a": NO_ANSWER, "b": NO_ANSWER}, {0: (100 + at, 99 + at)})
    assert trace.incidents() == []
    assert last(trace).health_reason == "its clients are behind a proxy and answer no request"
    assert {"CLIENT_UNRESPONSIVE", "QUEUE_UNASSIGNED"} <= set(coverage(trace)["silent_rules"])


# A client that does not answer


def test_the_last_answer_of_a_silent_client_is_not_shown_as_present():
    trace = Trace(route=1).poll(0, {"a": holding(0, cached=7)}).poll(10, {"a": holding(0, cached=7)})
    row = last(trace, QueueSnapshot)
    assert (row.locked, row.status) == (True, "OK")
    for at in range(20, 320, 10):  # to the next whole state
        trace.poll(at, {"a": NO_ANSWER})
    row = last(trace, QueueSnapshot)
    assert (row.owner, row.status) == ("a", "BAD")
    assert (row.locked, row.lock_at, row.pull_at, row.consume_at) == (None,) * 4


def test_the_hook_still_shows_lock_and_pulls_of_a_silent_client():
    trace = HookTrace().boots(0).heart_beat(1, "a").locks(2, "a", 0)
    trace.route = 1
    trace.poll(5, {"a": holding(0, cached=7)})
    for at in range(10, 330, 10):
        trace.heart_beat(at, "a").locks(at + 1, "a", 0).pulls(at + 2, "a", 0)
        trace.poll(at + 5, {"a": NO_ANSWER})
    row = last(trace, QueueSnapshot)
    assert (row.locked, row.consume_at) == (True, None)
    assert 0 <= row.time - row.lock_at < 10_000
    assert 0 <= row.time - row.pull_at < 10_000


@pytest.mark.parametrize("error", [1, 207])
def test_a_push_group_of_which_one_has_answered_is_behind_no_proxy(error):
    trace = Trace().poll(0, {"a": holding(0, 1), "b": holding(2, 3)})
    for at in range(10, 60, 10):
        trace.poll(at, {"a": holding(0, 1), "b": Member(error=error, remark="invoke consumer <g> <b>")})
    assert len(trace.incidents("CLIENT_UNRESPONSIVE")) == 1


@pytest.mark.parametrize(("pulled", "opened"), [((0, 1), 0), ((1,), 0), ((), 1)])
def test_a_client_that_never_answers_works_if_it_pulls_any_queue(pulled, opened):
    """rocketmq-client-go#301; the near miss is frozen: it took its queues at the start, and pulls none."""
    trace = HookTrace().boots(0).heart_beat(1, "a").asks(2, "a", 0, 1).pulls(3, "a", 0, 1)
    for at in range(10, 200, 10):
        trace.heart_beat(at, "a", topics=("Orders", "%RETRY%g")).pulls(at + 1, "a", *pulled)
        trace.poll(at + 5, {"a": NO_ANSWER}, {0: (9, 9)})
    assert len(trace.incidents("CLIENT_UNRESPONSIVE")) == opened


def test_of_clients_that_moved_to_a_proxy_a_standing_commit_is_unknown():
    """LOCAL mode: the member that answered is gone; the proxied one pops, and reports no queue."""
    trace = Trace().poll(0, {"a": concurrent(0, 1, 2, 3)}, growing(0))
    for at in range(10, 150, 10):
        trace.poll(at, {"b": NO_ANSWER}, growing(at))
    assert "QUEUE_STALLED" in coverage(trace)["inapplicable_rules"]
    assert trace.incidents("QUEUE_STALLED") == []
    assert last(trace).health == "UNKNOWN"
