"""The scenario table of groups over time: storms, subscriptions, member lists, lag, groups of nobody."""

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import Connection, ConsumerConnection, RpcError, Subscription
from rebalance_model.observe.policy import Policy
from tests.scenarios.hook_trace import A, B, HookTrace
from tests.scenarios.trace import START, TOPIC, Held, Member, Trace, holding

STORM, SUBSCRIPTIONS, SPLIT = "REBALANCE_STORM", "SUBSCRIPTION_INCONSISTENT", "CID_VIEW_SPLIT"
GROWTH, NOBODY = "LAG_GROWTH", "NO_ACTIVE_CLIENTS_WITH_LAG"


def told(trace: Trace, *codes: str) -> list[tuple[float, str, str]]:
    """The transitions of these codes, in the trace's seconds of hooks alone."""
    return [(round(at, 3), what, name) for at, what, name in trace.incidents(*codes)]


def rows(trace: Trace, code: str) -> list[IncidentTransition]:
    return [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == code]


def evidence(trace: Trace, code: str) -> dict[str, object]:
    return msgspec.json.decode(rows(trace, code)[0].evidence)


# REBALANCE_STORM


def test_a_groups_own_rate_is_that_of_the_last_day():
    trace = group("a", "b")
    state, now = trace.state, START
    state.causes_since, state.causes_counted = now - 24 * 3_600_000, 100
    trace.leaves(20, "a")
    assert (now + 20_000 - state.causes_since, state.causes_counted) == (12 * 3_600_000, 50)


def group(*clients: str) -> HookTrace:
    """Its members have been there from the first heartbeat on."""
    return HookTrace().boots(0).heart_beat(1, *clients)


def restarts(trace: HookTrace, at: float, client: str, *, number: int = 0, down: float = 8) -> HookTrace:
    return trace.leaves(at, client, number=number).heart_beat(at + down, client, number=number)


def test_a_client_that_comes_and_goes_is_a_storm_at_its_seventh_cause():
    """Left and joined three times, each time after somebody had gone; the seventh is at 80."""
    trace = group("a", "b")
    for n in range(6):
        restarts(trace, 20 + 20 * n, "a")
    assert told(trace, STORM) == [(80, "OPENED", "REBALANCE_STORM MEMBER_FLAPPING")]
    [opened] = rows(trace, STORM)
    assert (opened.severity, opened.client_id, opened.parent) == ("critical", "a", None)
    assert evidence(trace, STORM)["CLIENT_UNREGISTERED a"] == 4
    # quiet since 128: its last goodbye, at 120, leaves the window at 420.001
    trace.passes(440)
    assert told(trace, STORM)[1:] == [(420.001, "RESOLVED", "REBALANCE_STORM MEMBER_FLAPPING")]


def test_processes_that_die_and_come_back_under_other_ids_are_a_storm():
    """A crash loop: ids hold the process, so each is new; those that came after the first had gone go themselves."""
    trace = group("a", "b-0")
    for n in range(6):
        trace.leaves(20 + 10 * n, f"b-{n}").heart_beat(25 + 10 * n, f"b-{n + 1}")
    assert told(trace, STORM) == [(60, "OPENED", "REBALANCE_STORM MEMBER_FLAPPING")]
    assert rows(trace, STORM)[0].client_id is None  # no one client


def test_connections_that_are_cut_again_and_again_are_reconnect_churn():
    """#9115: new addresses, the same client ids. Nobody says goodbye; whoever asks is told of one member less."""
    trace = group("a", "b")
    for n in range(5):
        trace.lists(20 + 20 * n, "b").heart_beat(25 + 20 * n, "a", number=n + 1)
    assert told(trace, STORM) == [(80, "OPENED", "REBALANCE_STORM RECONNECT_CHURN")]


def test_new_channels_beside_the_old_ones_are_reconnect_churn_too():
    trace = group("a", "b")
    for n in range(7):
        trace.heart_beat(20 + 10 * n, "a", number=n + 1)
    assert told(trace, STORM) == [(80, "OPENED", "REBALANCE_STORM RECONNECT_CHURN")]


def test_by_polls_a_client_on_another_channel_each_time_is_reconnect_churn():
    trace = Trace(route=2)
    for n in range(9):
        trace.tick(10 * n)
        now = START + 10_000 * n
        one = Connection(client_id="a", channel=f"a:{n}")
        trace._fold(ConsumerConnection(connections=(one,), subscriptions=(), **trace._poll(now)))
    assert trace.incidents(STORM) == [(70, "OPENED", "REBALANCE_STORM RECONNECT_CHURN")]


@pytest.mark.parametrize("together", [True, False], ids=["all at once", "one by one"])
def test_a_rollout_of_50_is_no_storm(together: bool):
    """100 causes within 5 minutes, and right after a start; but nobody who has come since then goes again."""
    clients = [f"c-{n:02}" for n in range(50)]
    trace = group(*clients)
    if together:
        for c in clients:
            trace.leaves(30, c)
        trace.heart_beat(40, *clients)
    else:
        for n, c in enumerate(clients):
            restarts(trace, 30 + 5 * n, c, down=4)
            if n % 6 == 5:
                trace.heart_beat(34 + 5 * n, *clients)
    assert told(trace, STORM) == []


def test_a_rollout_under_new_ids_is_no_storm():
    trace = group(*(f"old-{n}" for n in range(8)))
    for n in range(8):
        trace.leaves(30 + 20 * n, f"old-{n}").heart_beat(38 + 20 * n, f"new-{n}")
    assert told(trace, STORM) == []


def test_a_partition_that_cuts_everybody_off_once_is_no_storm():
    """90 s: 20 clients vanish without a word, and come back on other channels."""
    clients = [f"c-{n:02}" for n in range(20)]
    trace = group(*clients).heart_beat(30, *clients).lists(50, code=1)
    trace.heart_beat(140, *clients, number=1)
    assert told(trace, STORM) == []


def test_clients_that_all_reconnect_once_are_no_storm():
    """90 s without a network, which closed no channel: each client opens a new one, and the old one goes."""
    clients = [f"c-{n:02}" for n in range(20)]
    trace = group(*clients).heart_beat(100, *clients, number=1).lists(130, *clients)
    assert told(trace, STORM) == []
    assert len(trace.state.causes) == 20 + 40


def test_what_a_storm_does_to_queues_is_part_of_it():
    """b is refused queue 0 from 30 on, as a's comings and goings move it; at 86 for longer than 50 s."""
    trace = group("a", "b", "c").locks(2, "c", 0).asks(2, "c", 0).pulls(3, "c", 0, offset=9).commits(4, "c", 0, 9)
    for n in range(4):
        restarts(trace, 20 + 20 * n, "a", down=6)
        for at in (30 + 20 * n, 35 + 20 * n):
            trace.passes(at - 1).locks(at, "c", 0).locks(at, "b", 0, granted=())
    [contended] = rows(trace, "LOCK_CONTENDED")
    assert contended.parent == rows(trace, STORM)[0].incident_id
    trace.commits(96, "b", 0, 1)
    [reset] = rows(trace, "OFFSET_REGRESSION")
    assert reset.parent is None  # an offset that fell back is its own alert, whoever comes and goes


def test_the_sixth_cause_is_a_near_miss():
    trace = group("a", "b")
    for n in range(3):
        restarts(trace, 20 + 20 * n, "a")
    assert told(trace, STORM) == []


def test_four_causes_are_a_storm_in_a_group_that_never_rebalances():
    """More than an hour without any: twice there and back is more than 4 times that."""
    trace = group("a", "b")
    for minute in range(1, 66):
        trace.passes(60 * minute - 1).heart_beat(60 * minute, "a", "b").heart_beat(60 * minute + 30, "a", "b")
    restarts(trace, 3960, "a")
    restarts(trace, 3980, "a")
    assert told(trace, STORM) == [(3988, "OPENED", "REBALANCE_STORM MEMBER_FLAPPING")]
    assert evidence(trace, STORM)["own_causes_per_hour"] == 1  # its members' start


def test_four_causes_are_none_in_a_group_that_rebalances_often():
    """A client that comes and goes every 400 s: 18 causes an hour, 1.5 a window; 4 are not more than 4 times that."""
    trace = group("a", "b")
    for n in range(12):
        at = 10 + 400 * n
        restarts(trace.passes(at - 1), at, "a", down=30)
        for beat in range(30, 390, 30):
            trace.passes(at + beat + 5).heart_beat(at + beat + 6, "a", "b")
    restarts(trace, 4811, "a")
    restarts(trace, 4831, "a")
    assert told(trace, STORM) == []


def test_topics_that_flip_with_each_heartbeat_are_a_storm_once_it_can_be_no_upgrade():
    """#351: b has joined at 10 with other topics: 150 s for a rolling upgrade; then 10 flips have been."""
    trace = group("a").heart_beat(10, "b", topics=(TOPIC, "Refunds"))
    for at in range(30, 200, 15):
        trace.passes(at - 1)
        trace.heart_beat(at, "a") if at % 30 else trace.heart_beat(at, "b", topics=(TOPIC, "Refunds"))
    assert told(trace, STORM, SUBSCRIPTIONS) == [
        (160, "OPENED", "REBALANCE_STORM TOPIC_SET_FLIP"),
        (160, "OPENED", "SUBSCRIPTION_INCONSISTENT TOPIC_SET"),
    ]
    storm, child = rows(trace, STORM)[0], rows(trace, SUBSCRIPTIONS)[0]
    assert child.parent == storm.incident_id


def flipping(until: int) -> HookTrace:
    """b joins at 10 with other topics, and leaves."""
    trace = group("a", "c").heart_beat(10, "b", topics=(TOPIC, "Refunds"))
    for at in range(30, until, 15):
        trace.passes(at - 1)
        trace.heart_beat(at, "a", "c") if at % 30 else trace.heart_beat(at, "b", topics=(TOPIC, "Refunds"))
    return trace.leaves(until, "b").heart_beat(until + 5, "a", "c")


def test_the_flips_of_a_mistake_that_was_soon_taken_back_are_no_storm_later():
    """Of the simulation, seed 109: from 305 on, 150 s after d came, nobody has just joined any more."""
    trace = flipping(150).heart_beat(155, "d")
    for at in range(170, 330, 15):
        trace.passes(at - 1).heart_beat(at, "a", "c", "d")
    trace.leaves(330, "d").passes(340)
    assert told(trace, STORM) == []


def test_a_client_that_joins_amid_a_storm_of_flips_is_no_upgrade():
    trace = flipping(175).heart_beat(181, "d")
    for at in range(190, 300, 15):
        trace.passes(at - 1).heart_beat(at, "a", "c", "d")
    assert told(trace, STORM) == [(160, "OPENED", "REBALANCE_STORM TOPIC_SET_FLIP")]


def test_a_route_that_comes_and_goes_is_a_storm():
    """Its queue count is raised and lowered again and again; there and back once is none."""
    trace = Trace()
    for n in range(4):
        trace.poll(10 * n, {"a": holding(0, 1, 2, 3)}, route=(4, 6)[n % 2])
    assert trace.incidents(STORM) == []
    for n in range(4, 9):
        trace.poll(10 * n, {"a": holding(0, 1, 2, 3)}, route=(4, 6)[n % 2])
    assert trace.incidents(STORM) == [(70, "OPENED", "REBALANCE_STORM ROUTE_FLAPPING")]


def test_a_client_that_rebalances_every_second_is_never_done():
    """Semantics 4, CONFIG: its queues are no queues of the retry topic, so it is never balanced."""
    trace = group("a").asks(2, "a", 0)
    for second in range(3, 310):
        trace.lists(second, "a", channel="a:0").passes(second)
        if second % 30 == 0:
            trace.heart_beat(second, "a")
    assert told(trace, STORM) == [(304, "OPENED", "REBALANCE_STORM ENDLESS_REBALANCE")]
    trace.heart_beat(312, "a").passes(330)
    assert told(trace, STORM)[1:] == [(319.001, "RESOLVED", "REBALANCE_STORM ENDLESS_REBALANCE")]


def test_its_strategy_names_the_reason():
    trace = HookTrace().boots(0).heart_beat(1, "a")
    config = Member((Held(0),), strategy="org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig")
    for second in range(3, 310):
        trace.lists(second, "a", channel="a:0")
        if second % 10 == 0:
            trace.heart_beat(second, "a").poll(second, {"a": config})
    assert {name for _, _, name in trace.incidents(STORM)} == {"REBALANCE_STORM CONFIG_ON_RETRY_TOPIC"}


@pytest.mark.parametrize("why", ["asks every 20 s", "is refused a lock"])
def test_asking_for_the_members_is_no_storm_when_it(why: str):
    trace = group("a", "b").locks(2, "b", 0)
    for second in range(3, 330, 20 if why == "asks every 20 s" else 1):
        trace.heart_beat(second, "a", "b").lists(second, "a", "b", channel="a:0")
        trace.locks(second, "b", 0).locks(second, "a", 0, granted=())
    assert told(trace, STORM) == []


# SUBSCRIPTION_INCONSISTENT


def subscribed(trace: HookTrace, at: float, **expressions: tuple[str, str]) -> HookTrace:
    """Heartbeats of clients with the (kind, expression) of their one topic."""
    for client, (kind, text) in expressions.items():
        one = Subscription(topic=TOPIC, sub_string=text, expression_type=kind)
        retry = Subscription(topic=f"%RETRY%{client}", sub_string="*")
        trace.heart_beat(at, client, subscriptions=(one, retry))
    return trace


@pytest.mark.parametrize(
    ("a", "b", "opens"),
    [
        (("TAG", "x || y"), ("TAG", "y||x"), False),  # the same tags
        (("TAG", "*"), ("TAG", ""), False),  # both: all
        (("TAG", "x"), ("TAG", "x || y"), True),  # ali#212: the broker filters for both by one of them
        (("TAG", "x"), ("SQL92", "x"), True),
        (("SQL92", "k > 1"), ("SQL92", "k > 2"), True),
        (("SQL92", "k > 1"), ("SQL92", " k > 1 "), False),
    ],
)
def test_expressions_of_one_topic_are_compared_by_what_they_mean(a, b, opens):
    trace = HookTrace().boots(0)
    for at in range(1, 182, 30):
        subscribed(trace.passes(at), at, a=a, b=b)
    expected = [(151, "OPENED", "SUBSCRIPTION_INCONSISTENT EXPRESSION")] if opens else []
    assert told(trace, SUBSCRIPTIONS) == expected


def test_what_differs_is_named_and_equal_again_resolves():
    trace = HookTrace().boots(0)
    for at in range(1, 182, 30):
        subscribed(trace.passes(at), at, a=("TAG", "x"), b=("TAG", "x"), c=("TAG", "y"))
    assert evidence(trace, SUBSCRIPTIONS) == {
        "members": 3, "members_known": 3, "topic": TOPIC, "members with TAG x": 2, "members with TAG y": 1,
        "odd_one": "c",
    }  # fmt: skip
    assert rows(trace, SUBSCRIPTIONS)[0].client_id == "c"
    subscribed(trace, 190, c=("TAG", "x"))
    assert told(trace, SUBSCRIPTIONS)[1:] == [(190, "RESOLVED", "SUBSCRIPTION_INCONSISTENT EXPRESSION")]


def test_a_rolling_upgrade_of_149_s_is_a_near_miss():
    trace = HookTrace().boots(0)
    for at in range(1, 150, 30):
        subscribed(trace.passes(at), at, a=("TAG", "x"), b=("TAG", "x || y"))
    subscribed(trace.passes(149), 150, a=("TAG", "x || y"))
    assert told(trace.passes(300), SUBSCRIPTIONS) == []


def test_a_heartbeat_without_subscriptions_keeps_the_last_one():
    """registerConsumerWithoutSub: nothing is said, so nothing differs."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b")
    for at in range(31, 300, 30):
        trace.passes(at).heart_beat(at, "a").heart_beat(at, "b", subscriptions=(), without_sub=True)
    assert told(trace, SUBSCRIPTIONS) == []


def test_a_member_of_whom_nothing_is_known_freezes_it():
    """b's only heartbeat does not say what it subscribes."""
    trace = HookTrace().boots(0).heart_beat(1, "a").heart_beat(2, "b", subscriptions=(), without_sub=True)
    trace.heart_beat(3, "c", topics=(TOPIC, "Refunds"))
    for at in range(30, 220, 30):  # c differed, and does not any more
        trace.passes(at).heart_beat(at, "a", "c").heart_beat(at, "b", subscriptions=(), without_sub=True)
    assert told(trace, SUBSCRIPTIONS) == []
    assert trace.state.pending[SUBSCRIPTIONS].frozen_at is not None


def test_polls_show_it_by_what_clients_answer():
    """#7556, 7.7: b has unsubscribed a topic; its share of that topic's queues has no owner."""
    trace = Trace()
    for at in range(0, 170, 10):
        members = {"a": Member((Held(0), Held(1)), subscribes=(TOPIC, "Refunds"))}
        trace.poll(at, members | {"b": Member((Held(2), Held(3)), subscribes=(TOPIC,))})
    assert trace.incidents(SUBSCRIPTIONS) == [(150, "OPENED", "SUBSCRIPTION_INCONSISTENT TOPIC_SET")]


def test_an_answer_after_the_last_heartbeat_counts():
    trace = HookTrace().boots(0).poll(2, {})
    trace.heart_beat(5, "a", "b", topics=(TOPIC, "Refunds"))
    both = {
        "a": Member((Held(0), Held(1)), subscribes=(TOPIC,)),
        "b": Member((Held(2),), subscribes=(TOPIC, "Refunds")),
    }
    trace.poll(10, both)
    assert SUBSCRIPTIONS in trace.state.pending
    trace.heart_beat(11, "a", topics=(TOPIC, "Refunds"))
    assert SUBSCRIPTIONS not in trace.state.pending


# CID_VIEW_SPLIT


def both_brokers(trace: HookTrace, at: float, *clients: str) -> HookTrace:
    return trace.of(B).heart_beat(at, *clients).of(A).heart_beat(at, *clients)


def two_brokers() -> HookTrace:
    """Both members are known to both."""
    return HookTrace().boots(0).heart_beat(1, "a", "b").of(B).boots(0).heart_beat(1, "a", "b").of(A)


def ticks(trace: HookTrace, at: float) -> HookTrace:
    return trace.of(A).passes(at).of(B).passes(at).of(A)


def test_a_member_whose_heartbeats_reach_one_broker_only():
    """#2732, #7870: b is dropped by broker-b and goes on with broker-a. Whoever asks broker-b shares out without it."""
    trace = two_brokers()
    for at in range(31, 300, 30):
        ticks(trace, at).of(B).heart_beat(at, "a").of(A).heart_beat(at, "a", "b")
    # broker-b's scan has dropped it by 131.001, and 60 s are given
    assert [(round(at), *what) for at, *what in told(trace, SPLIT)] == [(191, "OPENED", SPLIT)]
    assert evidence(trace, SPLIT) == {
        "brokers": 2, "missing": 1, "client": "b", "broker": B, f"members of {A}": 2, f"members of {B}": 1,
    }  # fmt: skip
    assert rows(trace, SPLIT)[0].client_id == "b"
    both_brokers(ticks(trace, 310), 310, "a", "b")
    assert told(trace, SPLIT)[1:] == [(310, "RESOLVED", SPLIT)]


def test_a_dead_member_that_one_broker_still_lists_is_a_near_miss():
    """No event says that its channel was closed: broker-a has been asked for the members since, broker-b has not."""
    trace = two_brokers().lists(20, "a")
    for at in range(31, 300, 30):
        both_brokers(ticks(trace, at), at, "a")
    assert told(trace, SPLIT) == []


def test_a_broker_that_has_just_begun_to_tell_is_waited_for():
    """Its hook begins in the middle: not every member has been heard, and one view is not two."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b")
    trace.hook_seq[f"{B}-0"] = 5
    trace.of(B).heart_beat(2, "a")
    assert SPLIT not in trace.state.pending


def test_polls_show_brokers_that_list_different_members():
    trace = Trace()
    for at in range(0, 100, 10):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
        one = (Connection(client_id="a", channel="a:0"),)
        said = {**trace._poll(START + 1000 * at), "broker": B}
        trace._fold(ConsumerConnection(connections=one, **said))
    assert trace.incidents(SPLIT) == []  # broker-b has no queue of the group's topics: nobody asks it
    trace.state.queues[MessageQueue(TOPIC, B, 0)] = msgspec.structs.replace(
        trace.state.queues[MessageQueue(TOPIC, A, 0)], owner=None
    )
    trace.poll(100, {"a": holding(0, 1), "b": holding(2, 3)}).tick(170)
    assert SPLIT in trace.state.pending or trace.incidents(SPLIT)


def test_queues_that_move_while_brokers_list_different_members_are_no_storm_of_reconnections():
    """Nobody reconnects: clients ask one broker or the other who the members are. The split is the cause, told once."""
    trace = Trace()
    for at in range(0, 400, 10):
        owners = {"a": holding(0, 1), "b": holding(2, 3)} if at % 20 else {"a": holding(0, 1, 2, 3), "b": holding()}
        trace.poll(at, owners)
        one = (Connection(client_id="a", channel="a:0"),)
        trace._fold(ConsumerConnection(connections=one, **{**trace._poll(START + 1000 * at), "broker": B}))
    assert len(trace.rebalances()) > 8
    assert trace.incidents(STORM) == []


def test_a_broker_that_does_not_answer_is_no_view():
    trace = Trace()
    for at in range(0, 100, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)})
        trace._fold(ConsumerConnection(error=RpcError(code=-1), **{**trace._poll(START + 1000 * at), "broker": B}))
    assert trace.incidents(SPLIT) == []


# LAG_GROWTH


def lags(trace: Trace, start: float, lag: list[int], *, pace: int = 100, **members: Member) -> Trace:
    """Rounds with this lag of queue 0; ``pace`` messages are produced between two."""
    for n, one in enumerate(lag):
        at = start + 10 * n
        broker = 10_000 + round(at) * pace // 10
        trace.poll(at, members or {"a": holding(0)}, {0: (broker, broker - one)}, route=1)
    return trace


RISING = list(range(5, 200, 5))


def test_lag_that_has_not_fallen_for_a_window_and_has_grown():
    """No number says what much lag is: it was 5 at 0, and has grown at each answer since."""
    trace = lags(Trace(), 0, RISING)
    assert trace.incidents(GROWTH) == [(300, "OPENED", "LAG_GROWTH UNDETERMINED")]
    assert rows(trace, GROWTH)[0].severity == "warning"
    assert evidence(trace, GROWTH) == {
        "owner": "a", "lag": 155, "grown_from": 5, "rising_ms": 300_000, "window_ms": 300_000,
        "produced_per_hour": 36_000, "consumed_per_hour": 34_200,
        "usually_produced_per_hour": None, "usually_consumed_per_hour": None,
    }  # fmt: skip
    lags(trace, 390, [150])
    assert trace.incidents(GROWTH)[1:] == [(390, "RESOLVED", "LAG_GROWTH UNDETERMINED")]


@pytest.mark.parametrize(
    "lag",
    [
        [*RISING[:20], 90, *RISING[20:]],  # it fell once, at 200
        [7] * 45,  # it stands: what is produced is consumed
        [3, *[4] * 45],  # one step up, and it stands
        [0, 0, 1, 0] * 12,
    ],
)
def test_lag_that_is_not_growing(lag: list[int]):
    assert lags(Trace(), 0, lag).incidents(GROWTH) == []


@pytest.mark.parametrize(
    ("pace", "lag", "why"),
    [
        (180, [80 * n for n in range(40)], "PRODUCED_FASTER"),  # consumed as ever, produced half as much again
        (100, [60 * n for n in range(40)], "CONSUMED_SLOWER"),
        (100, [100 * n for n in range(40)], "CONSUMED_SLOWER"),  # not at all
    ],
)
def test_growth_is_put_down_to_what_is_further_off_its_usual_pace(pace: int, lag: list[int], why: str):
    trace = Trace()
    lags(trace, 0, [2] * 40)  # 100 messages a round, for more than a window
    start = 400
    for n, one in enumerate(lag):
        broker = 10_000 + 3_900 + 100 + n * pace
        trace.poll(start + 10 * n, {"a": holding(0)}, {0: (broker, broker - 2 - one)}, route=1)
    assert trace.incidents(GROWTH) == [(700, "OPENED", f"LAG_GROWTH {why}")]
    assert evidence(trace, GROWTH)["usually_produced_per_hour"] == 36_000


def test_a_queue_that_nobody_owns_and_one_that_changes_hands():
    trace = lags(Trace(), 0, RISING[:31], a=Member())
    assert trace.incidents(GROWTH) == [(300, "OPENED", "LAG_GROWTH NOBODY_OWNS")]
    trace = lags(Trace(policy=Policy(rebalance_settle_after=900_000)), 0, RISING[:6])
    lags(trace, 60, RISING[6:31], a=Member())
    assert trace.incidents(GROWTH) == [(300, "OPENED", "LAG_GROWTH REBALANCE_PAUSE")]


def test_growth_that_was_not_covered_begins_anew_and_keeps_its_usual_pace():
    trace = lags(Trace(), 0, [2] * 40)
    lags(trace, 400, RISING[:15])
    lags(trace, 640, RISING[15:31])  # a hole of 100 s: the window begins at 640
    assert trace.incidents(GROWTH) == []
    pace = trace.state.queues[MessageQueue(TOPIC, A, 0)].pace
    assert pace is not None
    assert (pace.rising_since, pace.produced) == (START + 640_000, 36_000)


def test_a_long_rise_is_not_taken_for_the_usual_pace():
    trace = lags(Trace(), 0, [2] * 40)
    lags(trace, 400, [*RISING, 1])
    pace = trace.state.queues[MessageQueue(TOPIC, A, 0)].pace
    assert pace is not None
    assert (pace.at, pace.consumed) == (START + 790_000, 36_000)


def test_a_queue_whose_commit_was_never_seen_has_no_pace():
    trace = Trace()
    for n in range(40):
        trace.poll(10 * n, {"a": holding(0)}, {0: (50 + n, 0)}, route=1)
    assert trace.incidents(GROWTH) == []


# NO_ACTIVE_CLIENTS_WITH_LAG


def abandoned(trace: Trace, until: float, offsets: tuple[int, int] | None = (150, 100)) -> Trace:
    """Members until 10; nobody from 20 on."""
    for n in range(2):
        trace.poll(10 * n, {"a": holding(0)}, {0: (100, 100)}, route=1)
    for at in range(20, round(until) + 1, 10):
        trace.poll(at, {}, {0: offsets} if offsets else None, route=1)
    return trace


def test_messages_wait_and_nobody_is_there():
    """The last member went at 20, as polls see it; from 80 on it is too long."""
    trace = abandoned(Trace(), 100)
    assert trace.incidents(NOBODY) == [(80, "OPENED", NOBODY)]
    assert rows(trace, NOBODY)[0].severity == "critical"
    assert evidence(trace, NOBODY) == {
        "lag": 50, "members": 0, "without_members_ms": 60_000, "limit_ms": 60_000,
    }  # fmt: skip
    trace.poll(110, {"b": holding(0)}, {0: (150, 100)}, route=1)
    assert trace.incidents(NOBODY)[1:] == [(110, "RESOLVED", NOBODY)]


def test_a_restart_within_a_minute_is_a_near_miss():
    trace = abandoned(Trace(), 70).poll(79, {"a": holding(0)}, {0: (150, 100)}, route=1)
    assert trace.incidents(NOBODY) == []


def test_without_lag_nobody_is_missed_and_lag_that_comes_later_is_told_then():
    trace = abandoned(Trace(), 200, (100, 100))
    assert trace.incidents(NOBODY) == []
    trace.poll(210, {}, {0: (101, 100)}, route=1)
    assert trace.incidents(NOBODY) == [(210, "OPENED", NOBODY)]


def test_a_group_that_never_had_a_member_is_not_judged():
    trace = Trace()
    for n in range(20):
        trace.poll(10 * n, {}, {0: (100, 50)}, route=1)
    assert trace.incidents(NOBODY) == []


def test_hooks_alone_do_not_know_its_lag():
    trace = HookTrace().boots(0).heart_beat(1, "a").asks(2, "a", 0).pulls(3, "a", 0, offset=5, commit=5).leaves(4, "a")
    assert told(trace.passes(300), NOBODY) == []


def test_a_group_is_given_up_after_its_memory():
    trace = abandoned(Trace(policy=Policy(group_memory=300_000)), 100)
    trace.tick(330)
    assert trace.incidents(NOBODY)[1:] == [(320.001, "RESOLVED", NOBODY)]


def test_lag_grows_as_a_child_of_what_explains_it():
    trace = abandoned(Trace(), 10)
    for n, lag in enumerate(RISING[:33]):
        trace.poll(20 + 10 * n, {}, {0: (100 + lag, 100)}, route=1)
    assert [(row.sub_cause, row.parent) for row in rows(trace, GROWTH)] == [
        ("NOBODY_OWNS", rows(trace, NOBODY)[0].incident_id)
    ]
