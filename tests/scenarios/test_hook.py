"""What brokers' hooks tell of a group: members, locks, holders, and what is wrong, call by call."""

import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.state import decode_group, encode_group
from tests.scenarios.hook_trace import A, B, HookTrace
from tests.scenarios.trace import SILENT, START, Held, Member, holding, mq

LOCK_LIVES = 30
"""rebalanceLockMaxLiveTime of the client; the broker's is 60. Seconds."""


def ordered() -> HookTrace:
    """a has 0 and 1, b has 2 and 3, by their locks."""
    return HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)


def concurrent() -> HookTrace:
    return HookTrace().heart_beat(0, "a", "b").asks(1, "a", 0, 1).asks(1, "b", 2, 3)


def concurrently(*queue_ids: int) -> Member:
    return Member(tuple(Held(q, locked=False) for q in queue_ids), orderly=False)


# Who has a queue


def test_the_client_whose_lock_was_granted_has_the_queue():
    trace = ordered()
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert trace.lock_table() == {0: ("a", 1), 1: ("a", 1), 2: ("b", 1), 3: ("b", 1)}


def test_what_is_refused_is_not_had_and_a_call_that_failed_refuses_nothing():
    trace = ordered().locks(20, "a", 0, 1, granted=(0,))
    assert trace.lock_table() == {0: ("a", 20), 2: ("b", 1), 3: ("b", 1)}
    trace.locks(21, "b", 2, 3, granted=(), code=1)
    assert trace.lock_table()[2] == ("b", 1)
    trace.locks(22, "a", 2, granted=())  # not its lock, so the refusal says nothing new
    assert trace.lock_table()[2] == ("b", 1)


def test_an_unlock_in_flight_after_the_heirs_grant_takes_nothing_from_the_heir():
    trace = ordered().locks(61, "b", 0, 1, 2, 3).unlocks(62, "a", 0, 1)
    assert trace.owners() == dict.fromkeys(range(4), "b")
    assert set(trace.lock_table().values()) == {("b", 61)}


def test_an_unlock_releases():
    trace = ordered().unlocks(40, "a", 0)
    assert trace.owners()[0] is None
    assert trace.evidence()[-1] == (0, "RELEASED a", "UNLOCKED")


def test_the_client_that_asked_last_where_to_begin_has_a_concurrent_queue():
    trace = concurrent().asks(40, "b", 1)
    assert trace.owners() == {0: "a", 1: "b", 2: "b", 3: "b"}
    assert trace.evidence()[-2:] == [(1, "RELEASED a", "TAKEN_OVER"), (1, "ASSIGNED b", "OFFSET_ASKED")]


def test_pulls_in_turn_move_nothing_and_a_question_that_was_lost_is_made_up_for_by_pulls_alone():
    """The former owner's last second, and two clients that pull one queue until both have rebalanced, are no news."""
    trace = concurrent().pulls(2, "a", 0)
    for at in range(3, 33):
        trace.pulls(at, "b", 0)
    assert trace.owners()[0] == "a"
    trace.pulls(33, "b", 0)  # a has not pulled for longer than a client that has the queue goes without
    assert trace.owners()[0] == "b"
    assert trace.evidence()[-1] == (0, "ASSIGNED b", "PULLED")
    trace.pulls(34, "a", 0)
    assert trace.owners()[0] == "b"


def test_a_pull_names_the_holder_where_none_is_known():
    trace = HookTrace().heart_beat(0, "a").pulls(1, "a", 0)
    assert trace.owners() == {0: "a"}


def test_pulls_and_questions_of_an_ordered_group_prove_no_lock():
    trace = ordered().asks(2, "b", 0).pulls(40, "b", 0)
    assert trace.owners()[0] == "a"


def cut_off() -> HookTrace:
    """The members of an ordered group without a, whose locks are 29 s old when it is back on another channel."""
    return ordered().heart_beat(20, "a", "b").locks(21, "b", 2, 3).lists(25, "b").heart_beat(29, "a", number=1)


def test_who_is_back_and_pulls_under_a_lock_that_lives_has_its_ordered_queue_again_and_its_lock_expires():
    trace = cut_off()
    assert trace.owners()[0] is None
    trace.pulls(1 + LOCK_LIVES, "a", 0, number=1)
    assert trace.owners()[0] == "a"
    assert trace.evidence()[-1] == (0, "ASSIGNED a", "PULLED")
    trace.passes(40)
    assert [at for at, *_ in expiries(trace)] == [(trace.clock(0) - START) / 1000 + 1 + LOCK_LIVES + 0.001]


def test_a_pull_under_a_lock_that_ran_out_or_that_another_has_by_now_gives_no_ordered_queue_back():
    trace = cut_off().pulls(1 + LOCK_LIVES + 0.001, "a", 0, number=1).locks(33, "b", 1)
    trace.pulls(34, "a", 1, number=1)
    assert (trace.owners()[0], trace.owners()[1]) == (None, "b")


def test_a_group_that_is_started_anew_without_order_is_concurrent_once_its_locks_are_gone():
    """b replaces the ordered a: it asks where to begin, and pulls, but for no lock."""
    trace = ordered().leaves(10, "a").leaves(10, "b").heart_beat(12, "c").asks(13, "c", 0, 1)
    for at in range(14, 44):
        trace.pulls(at, "c", 0, 1)
    assert trace.state.orderly
    assert trace.owners()[0] is None
    trace.pulls(44.001, "c", 0, 1).pulls(45, "c", 0)
    assert trace.state.orderly is None
    assert (trace.owners()[0], trace.owners()[1]) == ("c", "c")
    trace.heart_beat(60, "c")
    for at in range(46, 200, 10):
        trace.heart_beat(at, "c").pulls(at, "c", 0, 1)
    assert trace.incidents("LOCK_EXPIRED", "ORDERED_QUEUE_STUCK") == []


def test_a_group_stays_ordered_while_any_lock_of_it_is_renewed():
    trace = ordered()
    for at in range(2, 200):
        trace.pulls(at, "a", 2)
        if at % 20 == 0:
            trace.heart_beat(at, "a", "b").locks(at, "b", 2, 3)
    assert trace.state.orderly
    assert trace.owners()[2] == "b"


def test_when_the_ordered_one_of_a_mixed_group_leaves_who_pulls_has_each_queue():
    """While c locks, the hook believes locks alone: that b pulls 1 now is news, and that a pulls it no more."""
    trace = concurrent().heart_beat(4, "c").locks(5, "c", 3)
    for at in range(10, 150, 10):
        trace.heart_beat(at, "a", "b", "c").pulls(at, "a", 0).pulls(at, "b", 1, 2).pulls(at, "c", 3)
        trace.locks(at, "c", 3)
    trace.unlocks(150, "c", 3).leaves(150, "c")
    for at in range(151, 260, 5):
        trace.heart_beat(at, "a", "b").pulls(at, "a", 0).pulls(at, "b", 1, 2, 3).passes(at + 1)
    assert trace.state.orderly is None
    assert trace.owners() == {0: "a", 1: "b", 2: "b", 3: "b"}
    assert trace.incidents("PULL_EXPIRED", "QUEUE_DOUBLE_OWNED") == []


def test_of_more_askers_than_are_kept_the_one_of_longest_ago_is_forgotten_even_if_it_is_the_last():
    """A broker's clock may be set back: the ninth to ask is then the oldest."""
    askers = "cdefghij"
    trace = ordered()
    for number, client in enumerate(askers):
        trace.locks(20 + number, client, 0, granted=())
    trace.locks(10, "k", 0, granted=())
    told = trace.state.queues[trace._mqs((0,))[0]].hook
    assert told is not None
    assert sorted(told.refusals) == list(askers)


# Channels that nobody has named


def test_what_an_unknown_channel_said_is_its_clients_as_soon_as_it_says_who_it_is():
    trace = HookTrace().heart_beat(0, "a").asks(1, "b", 2, 3)
    assert trace.owners() == {}
    trace.heart_beat(3, "b")
    assert trace.owners() == {2: "b", 3: "b"}
    assert trace.view().waiting == {}


def test_what_a_channel_said_that_never_says_who_it_is_is_forgotten():
    trace = HookTrace().heart_beat(0, "a").asks(1, "b", 2, 3)
    trace.passes(36).heart_beat(36, "a")
    assert trace.view().waiting != {}
    trace.passes(36.002)
    assert trace.view().waiting == {}
    trace.heart_beat(40, "b")
    assert trace.owners() == {}


def test_a_lock_says_whose_an_unregistered_channel_is():
    """Thawed, a goes on on a new channel before its first heartbeat there."""
    trace = concurrent().asks(30, "a", 2, number=1)
    assert trace.owners()[2] == "b"
    trace.locks(31, "a", 3, channel="a:1", code=1)
    assert trace.owners()[2] == "a"
    trace.asks(32, "a", 3, number=1)
    assert trace.owners()[3] == "a"
    trace.heart_beat(33, "a", number=1)
    assert trace.view().speakers == {}
    assert trace.channels() == {"a:0": "a", "b:0": "b", "a:1": "a"}


def test_a_thawed_client_is_a_member_twice_until_the_broker_drops_its_old_channel():
    trace = ordered().heart_beat(60, "b").heart_beat(90, "b", "a", number=1)
    assert trace.channels() == {"a:0": "a", "b:0": "b", "b:1": "b", "a:1": "a"}
    trace.passes(130)
    assert sorted(trace.channels()) == ["a:0", "a:1", "b:0", "b:1"]
    trace.passes(130.002)
    assert sorted(trace.channels()) == ["a:1", "b:0", "b:1"]
    assert trace.state.members == ("a", "b")
    trace.passes(220.002)
    assert trace.state.members == ()
    assert trace.owners() == dict.fromkeys(range(4))


def test_a_member_list_that_names_a_client_once_leaves_its_younger_channel():
    trace = ordered().heart_beat(90, "a", number=1).lists(95, "a", "b")
    assert trace.channels() == {"b:0": "b", "a:1": "a"}


# The broker's own member list (38)


def test_who_is_missing_from_the_list_has_gone_without_a_word():
    trace = ordered().lists(40, "b")
    assert trace.state.members == ("b",)
    assert trace.owners() == {0: None, 1: None, 2: "b", 3: "b"}
    assert trace.state.episode.causes[-1] == "CONNECTION_CLOSED a"


def test_an_answer_that_overlaps_a_heartbeat_or_a_goodbye_proves_nothing_against_them():
    trace = ordered().heart_beat(40, "c").lists(40.01, "a", "b", asked=39.99)
    assert trace.state.members == ("a", "b", "c")
    trace.leaves(50, "c").lists(50.01, "a", "b", "c", asked=49.99)
    assert trace.state.members == ("a", "b")
    trace.lists(60, "a", "b", "c")  # asked since: it is there, on a channel that nobody has told of
    assert trace.state.members == ("a", "b", "c")
    assert trace.channels()["?c"] == "c"
    trace.heart_beat(70, "c")
    assert trace.channels() == {"a:0": "a", "b:0": "b", "c:0": "c"}


def test_who_is_listed_without_a_heartbeat_is_named_by_its_first_call():
    trace = HookTrace().lists(0, "a", "b").locks(1, "a", 0)
    assert trace.channels() == {"?b": "b", "a:0": "a"}
    trace.locks(3, "b", 2, channel="a:0")  # as if two clients shared a connection: it stays that of the first
    assert trace.channels() == {"?b": "b", "a:0": "a"}
    assert trace.state.members == ("a", "b")


def test_an_empty_list_ends_the_group_and_a_failed_one_says_nothing():
    trace = ordered().lists(40, code=2)
    assert trace.state.members == ("a", "b")
    trace.lists(41, code=1)
    assert trace.state.members == ()
    assert trace.state.views[A].info.subscription_table == {}


def test_who_leaves_goes_at_once_and_a_call_that_the_broker_refused_changes_nothing():
    trace = ordered().heart_beat(20, "c", code=1).leaves(20, "a", code=1)
    assert trace.state.members == ("a", "b")
    trace.unlocks(30, "a", 0, 1).leaves(30.01, "a")
    assert trace.state.members == ("b",)
    assert trace.state.episode.causes[-1] == "CLIENT_UNREGISTERED a"
    trace.passes(130.002)
    assert trace.view().goodbyes == {}


def test_a_heartbeat_without_subscriptions_leaves_them_as_they_were():
    trace = ordered().heart_beat(30, "a", topics=(), without_sub=True)
    assert list(trace.state.views[A].info.subscription_table) == ["Orders"]
    trace.heart_beat(31, "a", topics=())
    assert list(trace.state.views[A].info.subscription_table) == []


def test_members_that_were_there_before_are_found_not_joined():
    """The hook is put into a broker that runs: every member heartbeats within 35 s, or a list names them all."""
    trace = HookTrace(hook_seq={f"{A}-0": 700}).heart_beat(0, "a").locks(1, "a", 0).heart_beat(20, "b")
    assert trace.state.episode is None
    assert trace.evidence() == [(0, "ASSIGNED a", "FIRST_SEEN")]
    trace.lists(21, "a", "b").heart_beat(22, "c")
    assert trace.state.episode.causes == ["CLIENT_JOINED c"]


# The broker itself


def test_a_broker_that_restarts_has_no_lock_and_its_members_come_back():
    trace = ordered().boots(10)
    assert (trace.channels(), trace.lock_table()) == ({}, {})
    assert trace.state.members == ("a", "b")
    assert trace.state.episode.causes[-1] == "BROKER_RESTARTED broker-a"
    trace.heart_beat(15, "a").passes(45)
    assert trace.state.members == ("a",)
    assert trace.view().returning == {}
    assert trace.owners() == {0: "a", 1: "a", 2: None, 3: None}


def test_after_a_restart_offsets_are_unknown_until_the_next_commit():
    trace = ordered().commits(5, "a", 0, 50).commits(6, "a", 1, 7)
    trace.pulls(7, "a", 1, commit=9).pulls(8, "a", 1, commit=11, code=1).commits(8, "a", 0, 51, code=1)
    known = {mq.queue_id: queue.hook.commit_offset for mq, queue in trace.state.queues.items()}
    assert known == {0: 50, 1: 9, 2: -1, 3: -1}
    trace.boots(10)
    assert {queue.hook.commit_offset for queue in trace.state.queues.values()} == {-1}


def test_a_restart_shows_in_the_first_event_of_the_new_incarnation_though_its_first_word_was_lost():
    trace = ordered()
    trace.boot[A], trace.hook_seq[f"{A}-0"] = trace.clock(10), 5
    trace.heart_beat(15, "a")
    assert trace.channels() == {"a:0": "a"}
    assert trace.lock_table() == {}
    assert trace.state.members == ("a", "b")


def test_a_restart_that_a_group_never_heard_of_before_is_nothing_to_it():
    assert HookTrace().boots(0).effects == []
    polled = HookTrace().poll(0, {"a": holding(0)})
    told = len(polled.effects)
    assert len(polled.boots(5).boots(9).effects) == told


def test_what_is_told_twice_or_late_counts_once():
    trace = ordered()
    told, blob = len(trace.effects), encode_group(trace.state)
    for event in list(trace.events):
        trace._fold(event)
    assert len(trace.effects) == told
    assert encode_group(trace.state) == blob
    old = trace.boots(10).events[0]
    trace._fold(old)  # of the incarnation before
    assert trace.channels() == {}


def test_a_gap_is_noted_and_what_was_known_stands():
    trace = ordered()
    since = trace.view().covered_since
    trace.hook_seq[f"{A}-0"] += 3
    trace.heart_beat(30, "a")
    assert (since, trace.view().covered_since) == (trace.clock(0), trace.clock(30))
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_what_a_slaves_hook_tells_is_left_in_the_archive():
    trace = ordered().of(A, 1).heart_beat(5, "c").locks(6, "c", 0)
    assert trace.state.members == ("a", "b")
    assert trace.owners()[0] == "a"


# Several brokers


def test_a_member_known_to_one_broker_only_is_a_member():
    trace = ordered().of(B).heart_beat(2, "a", "c").locks(3, "c", 0)
    assert trace.state.members == ("a", "b", "c")
    assert {mq.broker: queue.owner for mq, queue in trace.state.queues.items() if mq.queue_id == 0} == {A: "a", B: "c"}
    trace.of(A).lists(10, "b")  # a is still b's other broker's
    assert trace.state.members == ("a", "b", "c")
    trace.of(B).lists(11, "c")
    assert trace.state.members == ("b", "c")


def test_each_broker_hears_for_itself():
    """a is silent to broker-b alone, which drops it; its heartbeats to broker-a keep it a member."""
    trace = HookTrace().of(B).heart_beat(0, "a").of(A).heart_beat(0, "a", "b")
    trace.of(A).heart_beat(100, "a", "b").of(B).passes(129)
    assert trace.channels() == {"a:0": "a"}
    trace.passes(131)
    assert trace.channels() == {}
    trace.of(A)
    assert trace.channels() == {"a:0": "a", "b:0": "b"}
    assert trace.state.members == ("a", "b")


# What is wrong


def expiries(trace: HookTrace) -> list[tuple[float, str, str]]:
    return [told for told in trace.incidents() if told[2] == "LOCK_EXPIRED"]


def test_a_lock_expires_by_the_brokers_clock_to_the_millisecond():
    trace = ordered()
    for at in range(2, 28, 5):
        trace.passes(at)
    trace.locks(25, "b", 2, 3).passes(1 + LOCK_LIVES)
    assert expiries(trace) == []
    trace.passes(40)
    opened = 1 + LOCK_LIVES + 0.001
    off = (trace.clock(0) - START) / 1000
    assert expiries(trace) == [(off + opened, "OPENED", "LOCK_EXPIRED")] * 2
    trace.locks(41, "a", 1).passes(1 + 2 * LOCK_LIVES).passes(62)
    assert expiries(trace)[2:] == [
        (off + 41, "RESOLVED", "LOCK_EXPIRED"),
        (off + 25 + LOCK_LIVES + 0.001, "OPENED", "LOCK_EXPIRED"),
        (off + 25 + LOCK_LIVES + 0.001, "OPENED", "LOCK_EXPIRED"),
        (off + 1 + 2 * LOCK_LIVES + 0.001, "ESCALATED", "LOCK_EXPIRED"),
    ]
    trace.locks(63, "a", 0).locks(64, "b", 2, 3)
    assert expiries(trace)[6:] == [
        (off + 63, "RESOLVED", "LOCK_EXPIRED"),
        (off + 64, "RESOLVED", "LOCK_EXPIRED"),
        (off + 64, "RESOLVED", "LOCK_EXPIRED"),
    ]


def test_a_lock_that_is_renewed_in_time_never_expires():
    trace = ordered()
    for at in range(20, 200, 20):
        trace.heart_beat(at, "a", "b").locks(at, "a", 0, 1).locks(at, "b", 2, 3).passes(at + 19)
    assert expiries(trace) == []


def test_an_owner_that_died_stuck_is_known_by_the_lock_that_the_broker_keeps():
    """Beside the hook's locks the poll tells the lag: the queue has no owner, and its lock is a stranger's for 60 s."""
    two = {"a": holding(0, 1), "b": holding(2, 3)}
    trace = HookTrace().heart_beat(0, "a", "b").locks(0, "a", 0, 1).locks(0, "b", 2, 3)
    for at in range(0, 70, 10):
        trace.locks(at, "a", 0, 1).locks(at, "b", 2, 3).heart_beat(at, "a", "b").poll(at, two, {0: (100 + at, 50)})
        trace.passes(at + 5)
    trace.lists(65, "b")
    for at in (70, 80, 90, 100, 110, 130):
        trace.locks(at, "b", 2, 3).heart_beat(at, "b").passes(at)
        trace.poll(at, {"b": holding(2, 3)}, {0: (100 + at, 50)})
    stuck = [(at, how, what) for at, how, what in trace.incidents() if "STUCK" in what]
    assert [what for _, _, what in stuck][-2:] == [
        "ORDERED_QUEUE_STUCK OWNER_GONE_LOCK_HELD",
        "ORDERED_QUEUE_STUCK UNASSIGNED",
    ]


# Hook and poll


def test_a_pull_of_what_has_waited_ends_no_stall_and_a_commit_does():
    """Healed, a client that was cut off pulls at once; only later it commits."""
    two = {"a": holding(0, 1), "b": holding(2, 3)}
    trace = ordered().pulls(1, "a", 0, offset=50, commit=50).poll(2, two, {0: (50, 50)})
    for at in range(10, 110, 10):
        trace.heart_beat(at, "a", "b").locks(at, "a", 0, 1).locks(at, "b", 2, 3).poll(at, two, {0: (60 + at, 50)})
    trace.tick(104).pulls(105, "a", 0, offset=130).passes(106)
    trace.poll(110, two, {0: (170, 50)})
    assert [how for _, how, what in trace.incidents() if "STUCK" in what] == ["OPENED"]
    trace.tick(111).pulls(112, "a", 0, offset=160, commit=130)
    assert [how for _, how, what in trace.incidents() if "STUCK" in what] == ["OPENED", "RESOLVED"]


@pytest.mark.parametrize(("pulls", "expired"), [(True, []), (False, [0, 1])])
def test_who_is_asked_in_vain_and_pulls_all_the_same_has_not_ceased_to_pull(pulls, expired):
    """A client that was cut off stands twice in the broker's list, and the broker asks it over the dead channel."""
    trace = ordered().pulls(1, "a", 0, 1).poll(2, {"a": holding(0, 1), "b": holding(2, 3)})
    for at in range(10, 200, 10):
        trace.heart_beat(at, "a", "b").locks(at, "a", 0, 1).locks(at, "b", 2, 3).pulls(at, "b", 2, 3)
        trace.poll(at, {"a": SILENT, "b": holding(2, 3)})
        if pulls:
            trace.pulls(at, "a", 0, 1)
    told = [effect for effect in trace.effects if isinstance(effect, IncidentTransition)]
    assert [one.queue_id for one in told if one.code == "PULL_EXPIRED"] == expired


def test_what_the_holder_denies_when_it_is_asked_is_not_its_queue_whoever_answered_first():
    """a takes queue 2 for a moment and drops it without a word; b, which pulls it as ever, answers before a does."""
    members = {"b": concurrently(2, 3), "a": concurrently(0, 1)}
    trace = concurrent().poll(2, members).tick(4).asks(5, "a", 2)
    assert trace.owners()[2] == "a"
    trace.poll(12, members)
    assert trace.owners()[2] == "b"


def test_an_answer_from_before_the_hooks_last_word_is_older_evidence():
    trace = ordered().poll(5, {"a": holding(0, 1), "b": holding(2, 3)})
    trace.tick(60).locks(70, "b", 0, 1, 2, 3)
    old = trace._answer("a", holding(0, 1), START + 5_000)
    trace._fold(old)
    assert trace.owners() == dict.fromkeys(range(4), "b")


def test_when_the_followed_collector_falls_silent_the_group_lives_by_the_hook_and_goes_back_when_it_returns():
    two = {"a": holding(0, 1), "b": holding(2, 3)}
    trace = HookTrace().poll(0, two).heart_beat(0, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)
    trace.poll(10, two | {"b": SILENT})
    assert trace.state.is_polled
    for at in range(12, 62, 10):
        trace.locks(at, "a", 0, 1).locks(at, "b", 2, 3).heart_beat(at, "a", "b").passes(at)
        if at == 22:
            trace.falls_silent(26, "c/poll-1")
    assert not trace.state.is_polled
    assert {c.unanswered for c in trace.state.clients.values()} == {0}
    trace.is_back(70, "c/poll-1").poll(70, two)
    assert trace.state.is_polled
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert {what for _, _, what in trace.incidents()} == {"TELEMETRY_GAP POLL_SILENT"}
    assert decode_group(encode_group(trace.state)) == trace.state


def test_what_a_hook_told_before_it_fell_silent_ages_no_more():
    """Its holder answers nothing; polls go on, and by them alone nothing is known of its pulls."""
    trace = HookTrace().heart_beat(0, "a").asks(0.1, "a", 0).pulls(1, "a", 0)
    trace.falls_silent(16, trace.view().source)
    for at in range(20, 200, 10):
        trace.poll(at, {"a": SILENT})
    assert trace.state.queues[mq(0)].owner == "a"
    assert trace.incidents("PULL_EXPIRED") == []
