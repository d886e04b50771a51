"""Groups that a broker no longer lists: asked about for a minute more, and while they have members there."""

from rebalance_model.observe.events import ConsumerConnection
from streaming.base.limits import GROUP_FORGOTTEN_MS, SILENT_BROKER_GROUPS
from streaming.collect.known_brokers import KnownGroups
from tests.support.polling import polled
from tests.support.scripted_cluster import A, B, ScriptedCluster

PLACE = A.place


def test_a_group_that_is_left_out_is_asked_about_for_a_minute():
    groups = KnownGroups()
    groups.update(PLACE, {"g": False, "h": False}, 0)
    assert groups.update(PLACE, {"h": False}, 1_000) == {"g", "h"}
    assert groups.update(PLACE, {"h": False}, 1_000 + GROUP_FORGOTTEN_MS) == {"g", "h"}
    assert groups.update(PLACE, {"h": False}, 1_001 + GROUP_FORGOTTEN_MS) == groups.of(PLACE) == {"h"}


def test_it_knows_which_groups_a_broker_gives_messages_in_order():
    groups = KnownGroups()
    groups.update(PLACE, {"g": True, "h": False}, 0)
    assert [groups.is_fifo(PLACE, name) for name in ("g", "h", "unknown")] == [True, False, False]
    groups.update(PLACE, {"g": False}, 1_000)
    assert not groups.is_fifo(PLACE, "g")


def test_a_group_that_has_members_is_asked_about():
    groups = KnownGroups()
    groups.update(PLACE, {"g": False}, 0)
    for now in range(1_000, 10 * GROUP_FORGOTTEN_MS, 10_000):
        assert groups.update(PLACE, {}, now) == {"g"}
        groups.note_asked(PLACE, "g", now, has_members=True)


def test_a_group_that_was_left_out_once_begins_anew():
    groups = KnownGroups()
    groups.update(PLACE, {"g": False}, 0)
    groups.update(PLACE, {}, 1_000)
    groups.update(PLACE, {"g": False}, GROUP_FORGOTTEN_MS)
    assert groups.update(PLACE, {}, 2 * GROUP_FORGOTTEN_MS) == {"g"}


def test_a_broker_that_lists_ever_other_groups_keeps_some():
    groups = KnownGroups()
    for number in range(5):
        groups.update(PLACE, {f"{number}-{name}": False for name in range(2 * SILENT_BROKER_GROUPS)}, number)
    assert len(groups.of(PLACE)) == 3 * SILENT_BROKER_GROUPS


def test_the_groups_of_a_broker_that_is_gone_are_forgotten():
    groups = KnownGroups()
    groups.update(PLACE, {"g": False}, 0)
    groups.keep([])
    assert groups.of(PLACE) == set()


def test_a_broker_with_queues_of_a_listed_group_is_asked_about_it():
    groups = KnownGroups()
    groups.update(PLACE, {"g": False}, 0)
    groups.note_route("C", "g", {"broker-a", "broker-b"}, 0)
    groups.note_route("C", "of-nobody", {"broker-b"}, 0)
    assert groups.update(B.place, {}, 1_000) == {"g"}
    assert (groups.lists(PLACE, "g"), groups.lists(B.place, "g")) == (True, False)
    assert groups.update(B.place, {}, 1 + GROUP_FORGOTTEN_MS) == set()  # its topics left that broker


def without_the_group_on_b():
    cluster = ScriptedCluster(brokers=(A, B))
    cluster.groups_of["broker-b"] = set()
    cluster.members_of["broker-b"] = []
    return cluster


def test_a_broker_that_never_had_the_group_is_reported_so():
    cluster = without_the_group_on_b()

    async def talk(poller):
        await poller.round()
        await poller.round()

    reported = [(one.broker, one.is_created) for one in polled(cluster, talk) if isinstance(one, ConsumerConnection)]
    assert sorted(reported, key=str) == [("broker-a", None), ("broker-a", None), ("broker-b", False)]


def test_a_group_whose_members_have_left_is_not_reported_so():
    """One object stands for the answer without members."""
    cluster = without_the_group_on_b()

    async def talk(poller):
        await poller.round()
        await poller.round()
        cluster.members, cluster.groups_of["broker-b"] = [], {"g"}
        await poller.round()

    reported = [(one.broker, one.is_created) for one in polled(cluster, talk) if isinstance(one, ConsumerConnection)]
    assert sorted(reported[-2:]) == [("broker-a", None), ("broker-b", None)]


def test_a_deleted_group_is_polled_while_its_members_are_listed():
    cluster = ScriptedCluster(groups=("g", "h"))

    async def talk(poller):
        await poller.round()
        cluster.group_names = {"h"}
        await poller.round()

    asked = [event.group for event in polled(cluster, talk) if isinstance(event, ConsumerConnection)]
    assert sorted(asked) == ["g", "g", "h", "h"]


def test_the_members_of_a_fifo_group_are_reported_with_its_order():
    cluster = ScriptedCluster(groups=("f", "g"))
    cluster.fifo = {"f"}
    found = [one for one in polled(cluster) if isinstance(one, ConsumerConnection)]
    assert {(one.group, one.consume_message_orderly) for one in found} == {("f", True), ("g", False)}


def test_groups_with_members_come_first_then_those_that_wait_longest():
    groups = KnownGroups()
    groups.update(PLACE, dict.fromkeys("abcd", False), 0)
    assert groups.in_turn(PLACE, "dcba") == ([], ["a", "b", "c", "d"])
    groups.note_turn(PLACE, "a")
    groups.note_turn(PLACE, "b")
    groups.note_asked(PLACE, "c", 0, has_members=True)
    assert groups.in_turn(PLACE, "abcd") == (["c"], ["d", "a", "b"])
    groups.note_asked(PLACE, "c", 0, has_members=False)
    groups.update(PLACE, dict.fromkeys("abcde", False), 0)
    assert groups.in_turn(PLACE, "abcde") == ([], ["c", "d", "a", "b", "e"])  # a new one is no earlier than the others


def test_of_many_new_groups_first_all_members_are_requested():
    cluster = ScriptedCluster(groups=[f"g{number:02}" for number in range(20)], members=())
    polled(cluster)
    asked = [question for question, _ in cluster.asked if question in {"connection", "consume_stats"}]
    assert asked == ["connection"] * 20 + ["consume_stats"] * 20
