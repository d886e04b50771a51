"""REBALANCE_STORM: a group that rebalances repeatedly."""

import pytest

from rebalance_model.observe.events import Connection, ConsumerConnection
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import evidence, rows, transitions_of
from tests.support.trace import START, TOPIC, Held, Member, Trace, holding

STORM = "REBALANCE_STORM"
SUBSCRIPTIONS = "SUBSCRIPTION_INCONSISTENT"


def test_a_groups_usual_rate_is_that_of_the_last_day():
    trace = group("a", "b")
    state, now = trace.state, START
    state.causes_since, state.causes_counted = now - 24 * 3_600_000, 100
    trace.leaves(20, "a")
    assert (now + 20_000 - state.causes_since, state.causes_counted) == (12 * 3_600_000, 50)


def group(*clients: str) -> HookTrace:
    """Return a trace of these members since the first heartbeat."""
    return HookTrace().boots(0).heart_beat(1, *clients)


def restarts(trace: HookTrace, at: float, client: str, *, number: int = 0, down: float = 8) -> HookTrace:
    return trace.leaves(at, client, number=number).heart_beat(at + down, client, number=number)


def test_a_client_that_rejoins_often_is_a_storm_at_the_seventh_cause():
    """Left and joined three times, each time after somebody had gone; the seventh is at 80."""
    trace = group("a", "b")
    for n in range(6):
        restarts(trace, 20 + 20 * n, "a")
    assert transitions_of(trace, STORM) == [(80, "OPENED", "REBALANCE_STORM MEMBER_FLAPPING")]
    [opened] = rows(trace, STORM)
    assert (opened.severity, opened.client_id, opened.parent) == ("critical", "a", None)
    assert evidence(trace, STORM)[0]["CLIENT_UNREGISTERED a"] == 4
    # quiet since 128: its last unregistration, at 120, leaves the window at 420.001
    trace.passes(440)
    assert transitions_of(trace, STORM)[1:] == [(420.001, "RESOLVED", "REBALANCE_STORM MEMBER_FLAPPING")]


def test_processes_that_die_and_return_with_other_ids_are_a_storm():
    """A crash loop: ids hold the process, so each is new; those that came after the first had gone go themselves."""
    trace = group("a", "b-0")
    for n in range(6):
        trace.leaves(20 + 10 * n, f"b-{n}").heart_beat(25 + 10 * n, f"b-{n + 1}")
    assert transitions_of(trace, STORM) == [(60, "OPENED", "REBALANCE_STORM MEMBER_FLAPPING")]
    assert rows(trace, STORM)[0].client_id is None  # no one client


def test_connections_that_are_cut_repeatedly_are_reconnect_churn():
    """#9115: new addresses, the same client ids. No client unregisters; the member list is one shorter each time."""
    trace = group("a", "b")
    for n in range(5):
        trace.lists(20 + 20 * n, "b").heart_beat(25 + 20 * n, "a", number=n + 1)
    assert transitions_of(trace, STORM) == [(80, "OPENED", "REBALANCE_STORM RECONNECT_CHURN")]


def test_new_channels_beside_the_old_ones_are_reconnect_churn_too():
    trace = group("a", "b")
    for n in range(7):
        trace.heart_beat(20 + 10 * n, "a", number=n + 1)
    assert transitions_of(trace, STORM) == [(80, "OPENED", "REBALANCE_STORM RECONNECT_CHURN")]


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
    """100 causes within 5 minutes, and right after a start; but no client that has joined since then leaves again."""
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
    assert transitions_of(trace, STORM) == []


def test_a_rollout_under_new_ids_is_no_storm():
    trace = group(*(f"old-{n}" for n in range(8)))
    for n in range(8):
        trace.leaves(30 + 20 * n, f"old-{n}").heart_beat(38 + 20 * n, f"new-{n}")
    assert transitions_of(trace, STORM) == []


@pytest.mark.parametrize(
    ("survivors", "opened"), [("", []), ("d", [(220, "OPENED", "REBALANCE_STORM MEMBER_FLAPPING")])]
)
def test_departures_that_no_member_sees_are_no_causes(survivors: str, opened: list[tuple[float, str, str]]):
    """From the simulation, seed 2753: all are killed at 60, and stopped at 220. Only who is left rebalances at 60."""
    trace = group("a", "b", "c", *survivors).heart_beat(30, "a", "b", "c", *survivors)
    if survivors:
        trace.lists(61, *survivors)
    trace.passes(161).heart_beat(170, "a", "b", "c", *survivors)
    for client in "abc":
        trace.leaves(220, client)
    assert transitions_of(trace, STORM) == opened


def test_a_partition_that_cuts_all_members_off_once_is_no_storm():
    """90 s: 20 clients disappear without unregistering, and return on other channels."""
    clients = [f"c-{n:02}" for n in range(20)]
    trace = group(*clients).heart_beat(30, *clients).lists(50, code=1)
    trace.heart_beat(140, *clients, number=1)
    assert transitions_of(trace, STORM) == []


def test_clients_that_all_reconnect_once_are_no_storm():
    """90 s without a network, which closed no channel: each client opens a new one, and the old one goes."""
    clients = [f"c-{n:02}" for n in range(20)]
    trace = group(*clients).heart_beat(100, *clients, number=1).lists(130, *clients)
    assert transitions_of(trace, STORM) == []
    assert len(trace.state.causes) == 20 + 40


def test_queue_incidents_caused_by_a_storm_are_its_children():
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
    assert transitions_of(trace, STORM) == []


def test_four_causes_are_a_storm_in_a_group_that_never_rebalances():
    """More than an hour without any: twice there and back is more than 4 times that."""
    trace = group("a", "b")
    for minute in range(1, 66):
        trace.passes(60 * minute - 1).heart_beat(60 * minute, "a", "b").heart_beat(60 * minute + 30, "a", "b")
    restarts(trace, 3960, "a")
    restarts(trace, 3980, "a")
    assert transitions_of(trace, STORM) == [(3988, "OPENED", "REBALANCE_STORM MEMBER_FLAPPING")]
    assert evidence(trace, STORM)[0]["own_causes_per_hour"] == 1  # its members' start


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
    assert transitions_of(trace, STORM) == []


def test_topics_that_alternate_with_each_heartbeat_become_a_storm():
    """#351: b has joined at 10 with other topics: 150 s for a rolling upgrade; then 10 flips have been."""
    trace = group("a").heart_beat(10, "b", topics=(TOPIC, "Refunds"))
    for at in range(30, 200, 15):
        trace.passes(at - 1)
        trace.heart_beat(at, "a") if at % 30 else trace.heart_beat(at, "b", topics=(TOPIC, "Refunds"))
    assert transitions_of(trace, STORM, SUBSCRIPTIONS) == [
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


def test_subscription_changes_that_soon_stopped_are_no_later_storm():
    """From the simulation, seed 109: from 305 on, 150 s after d joined, no client has just joined any more."""
    trace = flipping(150).heart_beat(155, "d")
    for at in range(170, 330, 15):
        trace.passes(at - 1).heart_beat(at, "a", "c", "d")
    trace.leaves(330, "d").passes(340)
    assert transitions_of(trace, STORM) == []


def test_a_client_that_joins_during_a_storm_of_topics_is_no_upgrade():
    trace = flipping(175).heart_beat(181, "d")
    for at in range(190, 300, 15):
        trace.passes(at - 1).heart_beat(at, "a", "c", "d")
    assert transitions_of(trace, STORM) == [(160, "OPENED", "REBALANCE_STORM TOPIC_SET_FLIP")]


def test_a_route_that_changes_repeatedly_is_a_storm():
    """Its queue count is raised and lowered again and again; there and back once is none."""
    trace = Trace()
    for n in range(4):
        trace.poll(10 * n, {"a": holding(0, 1, 2, 3)}, route=(4, 6)[n % 2])
    assert trace.incidents(STORM) == []
    for n in range(4, 9):
        trace.poll(10 * n, {"a": holding(0, 1, 2, 3)}, route=(4, 6)[n % 2])
    assert trace.incidents(STORM) == [(70, "OPENED", "REBALANCE_STORM ROUTE_FLAPPING")]


def test_a_client_that_rebalances_every_second_is_a_storm():
    """Semantics 4, CONFIG: its queues are no queues of the retry topic, so it is never balanced."""
    trace = group("a").asks(2, "a", 0)
    for second in range(3, 310):
        trace.lists(second, "a", channel="a:0").passes(second)
        if second % 30 == 0:
            trace.heart_beat(second, "a")
    assert transitions_of(trace, STORM) == [(304, "OPENED", "REBALANCE_STORM ENDLESS_REBALANCE")]
    trace.heart_beat(312, "a").passes(330)
    assert transitions_of(trace, STORM)[1:] == [(319.001, "RESOLVED", "REBALANCE_STORM ENDLESS_REBALANCE")]


def test_an_endless_rebalance_names_the_strategy_that_causes_it():
    trace = HookTrace().boots(0).heart_beat(1, "a")
    config = Member((Held(0),), strategy="org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig")
    for second in range(3, 310):
        trace.lists(second, "a", channel="a:0")
        if second % 10 == 0:
            trace.heart_beat(second, "a").poll(second, {"a": config})
    assert {name for _, _, name in trace.incidents(STORM)} == {"REBALANCE_STORM CONFIG_ON_RETRY_TOPIC"}


@pytest.mark.parametrize("why", ["requests it every 20 s", "is refused a lock"])
def test_member_list_requests_are_no_storm_if_the_client(why: str):
    trace = group("a", "b").locks(2, "b", 0)
    for second in range(3, 330, 20 if why == "requests it every 20 s" else 1):
        trace.heart_beat(second, "a", "b").lists(second, "a", "b", channel="a:0")
        trace.locks(second, "b", 0).locks(second, "a", 0, granted=())
    assert transitions_of(trace, STORM) == []
