"""The scenario table of what hooks tell of commits: what goes back, is read twice, or stands still, and why."""

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.state import HookQueue
from tests.scenarios.hook_trace import A, HookTrace
from tests.scenarios.trace import TOPIC, Trace, holding


def told(trace: Trace, *codes: str) -> list[tuple[float, str, str]]:
    """Every transition of these codes, in the trace's seconds."""
    return [(round(at, 3), what, name) for at, what, name in trace.incidents(*codes)]


def evidence(trace: Trace, code: str) -> list[dict[str, object]]:
    told = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == code]
    return [msgspec.json.decode(e.evidence) for e in told]


def queue(trace: Trace) -> HookQueue:
    told = trace.state.queues[MessageQueue(TOPIC, A, 0)].hook
    assert told is not None
    return told


def ordered() -> HookTrace:
    """a has queue 0, b is a member."""
    return HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).pulls(2, "a", 0, offset=100)


def concurrent(pulled: int = 100) -> HookTrace:
    return HookTrace().heart_beat(0, "a", "b").asks(1, "a", 0).pulls(2, "a", 0, offset=pulled)


# OFFSET_REGRESSION, DUPLICATE_CONSUMPTION (semantics 7.2: #2837, #7182; 7.3: #4215, #1825, #2181)


def thawed() -> HookTrace:
    """detection.md, worked on a real cluster: a, frozen at 305, thaws at 465; b has had its queue since 423.4."""
    trace = HookTrace().heart_beat(277.1, "a", "b").locks(287.1, "a", 0)
    trace.pulls(304, "a", 0, offset=361).commits(304.5, "a", 0, 361)
    trace.heart_beat(400, "b").lists(423, "b").locks(423.4, "b", 0).asks(423.5, "b", 0)
    trace.pulls(424, "b", 0, offset=361).commits(440, "b", 0, 441).commits(464.4, "b", 0, 558)
    return trace.heart_beat(465, "a", number=1).commits(465.01, "a", 0, 361, number=1)


def test_a_thawed_client_commits_its_old_position_over_its_heirs():
    trace = thawed()
    assert told(trace, "OFFSET_REGRESSION") == [(465.01, "OPENED", "OFFSET_REGRESSION STALE_OWNER")]
    [found] = evidence(trace, "OFFSET_REGRESSION")
    assert (found["fell_from"], found["fell_to"], found["messages"], found["worth_ms"]) == (558, 361, 197, 41_000)
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "OFFSET_REGRESSION"]
    assert (opened.client_id, opened.severity) == ("a", "warning")
    assert trace.incidents("DUPLICATE_CONSUMPTION") == []  # b goes on where it is


def test_and_when_it_gets_the_queue_back_it_reads_197_messages_again():
    trace = thawed().unlocks(466, "b", 0).locks(466.5, "a", 0, channel="a:1").asks(466.6, "a", 0, number=1)
    trace.pulls(467, "a", 0, number=1, offset=361).commits(470, "a", 0, 500, number=1)
    rebalance_id = trace.state.episode.rebalance_id
    trace.commits(475, "a", 0, 558, number=1).passes(536)
    assert told(trace, "DUPLICATE_CONSUMPTION") == [
        (472, "OPENED", "DUPLICATE_CONSUMPTION"),
        (535, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]
    found = evidence(trace, "DUPLICATE_CONSUMPTION")[0]
    assert (found["messages"], found["offsets"], found["worth_ms"]) == (197, "Orders@broker-a:0 361..558", 41_000)
    assert found["rebalance_id"] == rebalance_id
    # passed at 475, and no other commit fell within a persist interval
    assert told(trace, "OFFSET_REGRESSION")[-1] == (480, "RESOLVED", "OFFSET_REGRESSION STALE_OWNER")


def test_a_regression_whose_mark_the_owners_next_commit_passes_is_forgiven():
    trace = thawed().commits(469.4, "b", 0, 570).passes(475)
    assert told(trace, "OFFSET_REGRESSION")[1:] == [(474.4, "RESOLVED", "OFFSET_REGRESSION STALE_OWNER")]
    assert trace.incidents("DUPLICATE_CONSUMPTION") == []


def test_an_old_position_on_a_channel_that_has_not_said_whose_it_is_is_a_stale_owners():
    trace = ordered().commits(5, "a", 0, 100).commits(10, "x", 0, 40)
    assert told(trace) == [(10, "OPENED", "OFFSET_REGRESSION STALE_OWNER")]
    assert evidence(trace, "OFFSET_REGRESSION")[0]["channel"] == "x:0"


def test_an_owner_that_has_its_queue_again_and_did_not_ask_where_to_begin_goes_on_where_it_was():
    trace = ordered().commits(5, "a", 0, 40).unlocks(10, "a", 0).locks(11, "b", 0).asks(11, "b", 0)
    trace.commits(20, "b", 0, 90).unlocks(21, "b", 0).locks(22, "a", 0).commits(23, "a", 0, 40)
    assert told(trace) == [(23, "OPENED", "OFFSET_REGRESSION STALE_OWNER")]


def test_what_a_former_owner_commits_after_its_heir_began_is_read_twice():
    """b asks where to begin at 20 and is told 100; a, that learns of it later, commits 130 at 24."""
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.pulls(22, "b", 0, offset=110)
    assert trace.incidents() == []
    trace.commits(24, "a", 0, 130).commits(25, "b", 0, 110).commits(30, "b", 0, 140).passes(91)
    assert told(trace, "OFFSET_REGRESSION") == [
        (25, "OPENED", "OFFSET_REGRESSION REREAD"),
        (35, "RESOLVED", "OFFSET_REGRESSION REREAD"),
    ]
    assert told(trace, "DUPLICATE_CONSUMPTION") == [
        (29, "OPENED", "DUPLICATE_CONSUMPTION"),
        (90, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]
    assert evidence(trace, "DUPLICATE_CONSUMPTION")[0]["messages"] == 30


def test_the_more_its_former_owner_commits_the_more_is_read_twice():
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.pulls(22, "b", 0, offset=110)
    trace.commits(24, "a", 0, 130).commits(29, "a", 0, 150).commits(34, "b", 0, 149).commits(39, "b", 0, 151).passes(
        100
    )
    assert told(trace, "DUPLICATE_CONSUMPTION") == [
        (29, "OPENED", "DUPLICATE_CONSUMPTION"),
        (99, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]


def test_an_heir_that_gives_the_queue_back_before_a_message_came_is_a_near_miss():
    """Of the simulation, seed 116: b's pull waits at 5, it gives the queue back, which no call tells, and a goes on."""
    trace = concurrent(pulled=5).commits(15, "a", 0, 5).asks(20, "b", 0).pulls(20.5, "b", 0, offset=5)
    trace.commits(21, "b", 0, 5).pulls(21.4, "a", 0, offset=6).commits(22, "a", 0, 6).pulls(23, "a", 0, offset=7)
    trace.commits(27, "a", 0, 7).passes(60)
    assert trace.incidents() == []


@pytest.mark.parametrize(
    "shown",
    [
        lambda t: t.pulls(24.9, "b", 0, offset=110),  # the sum of its pulls comes after the commit
        lambda t: t.commits(24.9, "b", 0, 110),
    ],
)
def test_that_an_heir_had_messages_may_show_after_its_former_owners_commit(shown):
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.commits(24, "a", 0, 130)
    assert trace.incidents("DUPLICATE_CONSUMPTION") == []
    shown(trace)
    trace.passes(30)
    assert told(trace, "DUPLICATE_CONSUMPTION") == [(29.9, "OPENED", "DUPLICATE_CONSUMPTION")]
    assert evidence(trace, "DUPLICATE_CONSUMPTION")[0]["messages"] == 30


def test_a_second_in_which_the_heir_reads_again_and_commits_beyond_is_told():
    """Of the simulation, seed 119: a sum of pulls begins below the former owner's commit, and carries that one."""
    trace = concurrent(pulled=40).commits(15, "a", 0, 43).asks(20, "b", 0).commits(20, "a", 0, 44)
    trace.pulls(21, "b", 0, first_offset=43, last_offset=45, count=3, commit=44).commits(22, "b", 0, 45).passes(90)
    assert told(trace, "DUPLICATE_CONSUMPTION") == [
        (26, "OPENED", "DUPLICATE_CONSUMPTION"),
        (86.001, "RESOLVED", "DUPLICATE_CONSUMPTION"),
    ]


def test_what_two_owners_read_after_each_other_is_one_incident():
    """a has not learnt yet that the queue is b's: both consume everything, and commit in turn."""
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.2, "b", 0, offset=100)
    for second in range(12):
        at, offset = 21 + second, 110 + 10 * second
        trace.pulls(at, "b", 0, offset=offset).commits(at + 0.1, "a", 0, offset).commits(at + 0.6, "b", 0, offset + 2)
    trace.passes(120)
    assert [what for _, what, _ in told(trace, "DUPLICATE_CONSUMPTION")] == ["OPENED", "RESOLVED"]


def test_a_former_owner_that_commits_long_after_the_move_is_stale():
    trace = concurrent().commits(15, "a", 0, 100).asks(20, "b", 0).pulls(20.5, "b", 0, offset=100)
    trace.commits(46, "a", 0, 130).commits(47, "b", 0, 110)
    assert told(trace) == [(47, "OPENED", "OFFSET_REGRESSION STALE_OWNER")]


@pytest.mark.parametrize(
    ("to", "cause", "severity"),
    [
        (0, "RESET_TO_MIN", "critical"),  # #4215: an overflow resets to 0
        (9_000, "OPERATOR_RESET", "critical"),
        (10_000, "OPERATOR_RESET", "warning"),  # 10,000 messages are not more than 10,000
        (19_899, "OPERATOR_RESET", "warning"),
        (19_900, "OPERATOR_RESET", "info"),
    ],
)
def test_an_owner_that_goes_back_itself_was_reset(to, cause, severity):
    trace = ordered().commits(5, "a", 0, 20_000).commits(20, "a", 0, to)
    assert trace.incidents() == []  # it may have been overtaken by another of its own
    trace.commits(25, "a", 0, to)
    assert told(trace) == [(25, "OPENED", f"OFFSET_REGRESSION {cause}")]
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition)]
    assert opened.severity == severity


def test_two_commits_of_one_client_that_overtake_each_other_are_a_near_miss():
    trace = ordered().commits(5, "a", 0, 100).commits(5.001, "a", 0, 98).commits(6, "a", 0, 99).commits(10, "a", 0, 101)
    assert trace.incidents() == []


def test_an_offset_reset_while_nobody_had_the_queue():
    """b asks where to begin after a's last commit, and is told less: somebody has changed what is stored."""
    trace = ordered().commits(5, "a", 0, 100).unlocks(10, "a", 0).locks(20, "b", 0).asks(20.1, "b", 0)
    trace.commits(25, "b", 0, 10).commits(30, "b", 0, 12)
    assert told(trace) == [(30, "OPENED", "OFFSET_REGRESSION OPERATOR_RESET")]


def test_a_broker_that_comes_back_with_older_offsets():
    trace = HookTrace().boots(0).heart_beat(1, "a").locks(2, "a", 0).pulls(3, "a", 0, offset=50).commits(5, "a", 0, 50)
    trace.boots(20).heart_beat(21, "a").locks(22, "a", 0).pulls(23, "a", 0, offset=30).commits(25, "a", 0, 31)
    trace.commits(30, "a", 0, 51).passes(36)
    assert told(trace, "OFFSET_REGRESSION", "DUPLICATE_CONSUMPTION")[:2] == [
        (25, "OPENED", "OFFSET_REGRESSION FAILOVER"),
        (28, "OPENED", "DUPLICATE_CONSUMPTION"),
    ]
    assert [t for t in told(trace) if t[1] == "RESOLVED" and "OFF" in t[2]] == [
        (35, "RESOLVED", "OFFSET_REGRESSION FAILOVER")
    ]


def test_a_broker_restart_after_which_the_owner_goes_on_is_a_near_miss():
    trace = HookTrace().boots(0).heart_beat(1, "a").locks(2, "a", 0).pulls(3, "a", 0, offset=50).commits(5, "a", 0, 50)
    trace.boots(20).heart_beat(21, "a").locks(22, "a", 0).pulls(23, "a", 0, offset=60).commits(25, "a", 0, 55)
    assert trace.incidents("OFFSET_REGRESSION", "DUPLICATE_CONSUMPTION") == []


def test_a_commit_that_a_pull_carried_is_told_late_and_says_nothing_of_now():
    trace = ordered().commits(10, "a", 0, 100)
    trace.pulls(10.9, "a", 0, offset=101, commit=90, first_time=trace.clock(9), last_time=trace.clock(9.5))
    assert (queue(trace).commit_offset, trace.incidents()) == (100, [])


def test_a_seconds_sum_of_pulls_begins_before_the_commit_of_its_last():
    trace = ordered().commits(5, "a", 0, 90).unlocks(6, "a", 0).locks(7, "b", 0)
    trace.pulls(8, "b", 0, first_offset=90, last_offset=130, count=9, commit=120)
    assert trace.incidents() == []


def test_a_regression_freezes_while_the_hook_is_silent():
    trace = HookTrace().poll(0, {"a": holding(0), "b": holding(1, 2, 3)})
    trace.heart_beat(0.5, "a", "b").locks(1, "a", 0).commits(5, "a", 0, 100).commits(6, "b", 0, 40)
    assert [t[1] for t in trace.incidents("OFFSET_REGRESSION")] == ["OPENED"]
    for at in range(10, 100, 10):
        trace.poll(at, {"a": holding(0), "b": holding(1, 2, 3)})
    assert [t[1] for t in trace.incidents("OFFSET_REGRESSION")] == ["OPENED"]


# OFFSET_REGRESSION by polls alone


def polled(*commits: int) -> Trace:
    """One answer every 10 s, from 0 on, with 1000 messages there."""
    trace = Trace()
    for n, commit in enumerate(commits):
        trace.poll(10 * n, {"a": holding(0)}, {0: (1_000, commit)})
    return trace


def test_by_polls_an_offset_that_stays_below_what_was_committed_has_fallen_back():
    trace = polled(90, 300, 100, 120, 290, 300)
    assert trace.incidents("OFFSET_REGRESSION") == [(30, "OPENED", "OFFSET_REGRESSION POLLED")]
    assert [e.severity for e in trace.effects if isinstance(e, IncidentTransition)] == ["warning"]
    found = evidence(trace, "OFFSET_REGRESSION")[0]
    assert (found["fell_from"], found["fell_to"], found["messages"]) == (300, 100, 200)
    assert trace.tick(56).incidents("OFFSET_REGRESSION")[-1] == (55, "RESOLVED", "OFFSET_REGRESSION POLLED")


@pytest.mark.parametrize(
    ("commits", "why"),
    [
        ((90, 300, 100, 300, 310), "one answer: a hand-over, or a client that thaws, and its heir goes on"),
        ((90, 300, 0, 0, 0, 0, 310), "the offset may be gone: 0 is what the broker shows for none"),
        ((0, 0, 5, 9, 9), "it has not been committed before"),
    ],
)
def test_by_polls_it_is_a_near_miss(commits, why):
    assert polled(*commits).incidents("OFFSET_REGRESSION") == [], why


def test_by_both_the_hook_tells_of_a_commit_that_fell_back_and_polls_add_nothing():
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).commits(2, "a", 0, 300)
    for n, commit in enumerate((300, 100, 100, 100)):
        trace.passes(4 + 10 * n).heart_beat(4 + 10 * n, "a").commits(4 + 10 * n, "a", 0, commit)
        trace.poll(5 + 10 * n, {"a": holding(0)}, {0: (1_000, commit)})
    assert {t[1:] for t in trace.incidents("OFFSET_REGRESSION")} == {("OPENED", "OFFSET_REGRESSION OPERATOR_RESET")}


# ORDERED_QUEUE_STUCK by the hook alone (semantics 7.25: hung client; 7.9: ali#459)


def working(until: int) -> HookTrace:
    """a commits 7 at 5 with 9 pulled, then heartbeats and renews, and commits the same again."""
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).pulls(2, "a", 0, offset=7)
    trace.commits(5, "a", 0, 7).pulls(6, "a", 0, offset=9)
    for at in range(20, until, 20):
        trace.passes(at).heart_beat(at, "a", "b").locks(at, "a", 0).commits(at, "a", 0, 7)
    return trace


def test_a_listener_that_blocks_makes_its_queue_stuck_past_60_s_and_a_commit_frees_it():
    trace = working(80).passes(66)
    assert trace.incidents() == []  # what waits was pulled at 6
    trace.passes(70).commits(80, "a", 0, 8)
    assert told(trace, "ORDERED_QUEUE_STUCK") == [
        (66.001, "OPENED", "ORDERED_QUEUE_STUCK LISTENER_BLOCKED"),
        (80, "RESOLVED", "ORDERED_QUEUE_STUCK LISTENER_BLOCKED"),
    ]
    assert evidence(trace, "ORDERED_QUEUE_STUCK")[0]["lag_at_least"] == 2


def test_a_commit_in_time_is_a_near_miss():
    trace = working(60).commits(65, "a", 0, 8).passes(125)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_a_queue_that_was_pulled_again_where_its_commit_stands_waits_for_nothing():
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).commits(5, "a", 0, 9)
    for at in range(6, 200, 14):
        trace.passes(at).heart_beat(at, "a").locks(at, "a", 0).pulls(at, "a", 0, offset=9)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_an_heirs_first_pull_is_no_proof_that_nothing_waits():
    trace = working(60).unlocks(61, "a", 0).locks(62, "b", 0).asks(62, "b", 0).pulls(63, "b", 0, offset=7).passes(67)
    assert told(trace, "ORDERED_QUEUE_STUCK") == [(66.001, "OPENED", "ORDERED_QUEUE_STUCK UNDETERMINED")]
    trace.heart_beat(67, "b").locks(67, "b", 0).pulls(78, "b", 0, offset=7)  # a second one is
    assert told(trace, "ORDERED_QUEUE_STUCK")[1:] == [(78, "RESOLVED", "ORDERED_QUEUE_STUCK UNDETERMINED")]


def frozen() -> HookTrace:
    """detection.md, worked on a real cluster: SIGSTOP of a at 305."""
    trace = HookTrace().heart_beat(277.1, "a", "b").locks(287.1, "a", 0).pulls(304, "a", 0, offset=361)
    trace.commits(304.9, "a", 0, 361)
    for at in range(306, 424, 10):
        trace.passes(at).heart_beat(at, "b")
    return trace


def test_a_frozen_owner_from_its_lock_to_its_heir():
    trace = frozen().lists(423.3, "b").locks(423.4, "b", 0).asks(423.4, "b", 0).pulls(424, "b", 0, offset=361)
    trace.commits(426, "b", 0, 380)
    assert told(trace) == [
        (317.101, "OPENED", "LOCK_EXPIRED"),
        (337.101, "OPENED", "STALE_HEARTBEAT"),
        (347.101, "ESCALATED", "LOCK_EXPIRED"),
        (364.901, "OPENED", "ORDERED_QUEUE_STUCK OWNER_UNRESPONSIVE"),
        (407.101, "RESOLVED", "STALE_HEARTBEAT"),  # dropped by the broker's scan, 120 to 130 s after its heartbeat
        (407.101, "RESOLVED", "LOCK_EXPIRED"),
        (407.101, "RECLASSIFIED", "ORDERED_QUEUE_STUCK UNASSIGNED"),
        (426, "RESOLVED", "ORDERED_QUEUE_STUCK UNASSIGNED"),
    ]
    [stuck, *_] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "ORDERED_QUEUE_STUCK"]
    assert stuck.severity == "warning"  # nobody is there to pull: whether anything waits is not known
    assert evidence(trace, "ORDERED_QUEUE_STUCK")[0]["lag_at_least"] is None


def test_a_queue_that_has_not_moved_for_5_minutes_worries_nobody_when_its_owner_goes():
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).commits(2, "a", 0, 7)
    for at in range(10, 320, 10):
        trace.passes(at).heart_beat(at, "a", "b").locks(at, "a", 0).pulls(at, "a", 0, offset=7)
    trace.leaves(321, "a").passes(400)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_a_client_that_renews_but_never_pulls_again_is_not_known_to_keep_anything_waiting():
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).pulls(2, "a", 0, offset=7).commits(5, "a", 0, 9)
    for at in range(20, 110, 20):
        trace.passes(at).heart_beat(at, "a").locks(at, "a", 0)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


@pytest.mark.parametrize(
    ("how", "sub_cause"),
    [
        (lambda t: t.locks(61, "a", 0, granted=()), "NOT_LOCKED"),
        (lambda t: t, "LOCK_EXPIRED"),
    ],
)
def test_a_stuck_queues_lock_is_named_before_its_listener(how, sub_cause):
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).pulls(2, "a", 0, offset=7).commits(5, "a", 0, 7)
    trace.pulls(6, "a", 0, offset=9).locks(20, "a", 0).heart_beat(50, "a", "b")
    how(trace).passes(67)
    assert told(trace, "ORDERED_QUEUE_STUCK") == [(66.001, "OPENED", f"ORDERED_QUEUE_STUCK {sub_cause}")]


# QUEUE_STALLED by the hook alone


def stalled(until: int, **heartbeat: object) -> HookTrace:
    trace = concurrent().commits(5, "a", 0, 90)
    for at in range(20, until, 20):
        trace.passes(at)
        if heartbeat.get("alive", True):
            trace.heart_beat(at, "a", "b").commits(at, "a", 0, 90)
    return trace


def test_a_concurrent_queue_stalls_30_s_later_than_an_ordered_one_is_stuck():
    trace = stalled(100).passes(95)
    assert trace.incidents("QUEUE_STALLED") == []
    trace.passes(96).commits(100, "a", 0, 91)
    assert told(trace, "QUEUE_STALLED") == [
        (95.001, "OPENED", "QUEUE_STALLED LISTENER_BLOCKED"),
        (100, "RESOLVED", "QUEUE_STALLED LISTENER_BLOCKED"),
    ]
    assert evidence(trace, "QUEUE_STALLED")[0]["lag_at_least"] == 10


def test_an_owner_that_nothing_is_heard_of_is_named():
    trace = stalled(100, alive=False).passes(96)
    assert told(trace, "QUEUE_STALLED") == [(95.001, "OPENED", "QUEUE_STALLED OWNER_UNRESPONSIVE")]
