"""The strategies: worked cases of the real classes, their properties, and what they refuse."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.allocation import (
    AllocateStrategy,
    AllocationError,
    AllocationNullError,
    name_of_class,
    strategy,
    strategy_of_class,
    takes_parameters,
)
from rebalance_model.allocation.strategies import md5_hash
from rebalance_model.entities import MessageQueue, java_order, java_text, queue_order
from tests.differential.allocation_script import NAMES, build, case

AVG, CIRCLE, HASH, CONFIG = map(strategy, ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG"))
ROOM = strategy("MACHINE_ROOM", consumeridcs={"r1", "r2"})


class ByPrefix:
    """Rooms are what stands before the first dash."""

    def broker_deploy_in(self, mq):
        return mq.broker.split("-")[0]

    def consumer_deploy_in(self, cid):
        return cid.split("-")[0]


NEARBY = strategy("MACHINE_ROOM_NEARBY", inner=AVG, resolver=ByPrefix())


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, i) for i in range(count)]


def shares(kind, mq_all, clients: list[str]) -> list[list[str]]:
    found = [kind.allocate("G", c, mq_all, clients) for c in clients]
    short = len({q.broker for q in mq_all}) == 1
    return [[q.queue_id if short else f"{q.broker}:{q.queue_id}" for q in part] for part in found]


def outcome(ask):
    """Return what it answers, or the class and message of its refusal."""
    try:
        return ask()
    except AllocationError as error:
        return type(error), str(error)


C2, C3, C4 = (["c0", "c1", "c2", "c3"][:n] for n in (2, 3, 4))


@pytest.mark.parametrize(
    ("kind", "queue_count", "clients", "expected"),
    [
        (AVG, 1, ["c0"], [[0]]),
        (AVG, 4, C3, [[0, 1], [2], [3]]),
        (AVG, 6, C4, [[0, 1], [2, 3], [4], [5]]),
        (AVG, 8, C3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (AVG, 10, C4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (AVG, 2, C4, [[0], [1], [], []]),
        (CIRCLE, 8, C3, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (CIRCLE, 10, C4, [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
        (CIRCLE, 5, C2, [[0, 2, 4], [1, 3]]),
        (HASH, 8, C3, [[3, 4, 6], [1, 2, 5], [0, 7]]),
        (HASH, 8, ["c0", "c0", "c1"], [[2, 3, 4, 6], [2, 3, 4, 6], [0, 1, 5, 7]]),
        (strategy("CONSISTENT_HASH", virtual_node_cnt=0), 4, C2, [[], []]),
        (strategy("CONSISTENT_HASH", custom_hash_function=len), 4, ["a", "bb"], [[0, 1, 2, 3], []]),
        (ROOM, 4, C2, [[], []]),
    ],
)
def test_worked_cases(kind, queue_count, clients, expected):
    assert shares(kind, queues(queue_count), clients) == expected


def test_places_on_the_ring():
    keys = ["c0-0", "c0-1", "c1-0", "c2-9", "MessageQueue [topic=T, brokerName=b, queueId=0]"]
    assert [md5_hash(key) for key in keys] == [2316876094, 4137623405, 3886541579, 3434028882, 562732085]
    assert java_text(MessageQueue("T", "b", 0)) == keys[-1]
    assert md5_hash("half of a pair \ud83d") == md5_hash("half of a pair ?")


def test_of_two_ring_nodes_at_one_place_the_later_one_stays():
    """Two nodes each. The queue stands at 0, and so does a's first node and b's."""
    places = {"a-0": 0, "a-1": 1, "a-2": 2, "b-0": 0, "b-1": 3}
    kind = strategy("CONSISTENT_HASH", virtual_node_cnt=2, custom_hash_function=lambda key: places.get(key, 0))
    assert shares(kind, queues(1), ["b", "a"]) == [[], [0]]
    assert shares(kind, queues(1), ["a", "b"]) == [[], [0]]
    assert shares(kind, queues(1), ["a", "b", "a"]) == [[], [0], []]  # a has 1 left: its next are numbers 1 and 2

    def last_digit(key: str) -> int:
        return int(key[-1]) if key[-1].isdigit() else 0

    both = strategy("CONSISTENT_HASH", virtual_node_cnt=2, custom_hash_function=last_digit)
    assert shares(both, queues(1), ["a", "b", "a"]) == [[0], [], [0]]  # a has none left: it starts at 0 again


@pytest.mark.parametrize(
    ("clients", "expected"),
    [
        (C2, [["r1@b:0", "r1@b:1", "r2@b:1"], ["r1@b:2", "r2@b:0"]]),
        (C3, [["r1@b:0", "r2@b:0"], ["r1@b:1", "r2@b:1"], ["r1@b:2"]]),
        ([f"c{i}" for i in range(7)], [["r1@b:0"], ["r1@b:1"], ["r1@b:2"], ["r2@b:0"], ["r2@b:1"], [], []]),
    ],
)
def test_machine_room_gives_what_is_left_over_from_the_tail(clients, expected):
    others = [MessageQueue("T", broker, 0) for broker in ("r1@", "@r1", "r1@x@y", "plain", "r9@b")]
    assert shares(ROOM, [*queues(3, "r1@b"), *others, *queues(2, "r2@b")], clients) == expected


def test_machine_room_reads_a_brokers_name_as_javas_split_does():
    names = ["r1@X@@", "r1@@", "@b", "@b@", "r1@@b", "@", "", "r1@X"]
    mq_all = [MessageQueue("T", name, 0) for name in names]
    assert shares(strategy("MACHINE_ROOM", consumeridcs={"r1", ""}), mq_all, ["c"]) == [
        ["r1@X@@:0", "@b:0", "@b@:0", "r1@X:0"]
    ]


def test_nearby_gives_queues_to_clients_of_their_room_or_else_to_all():
    mq_all = [*queues(4, "r1-b"), *queues(5, "r2-b"), *queues(3, "r3-b")]
    expected = [
        ["r1-b:0", "r1-b:1", "r2-b:0", "r2-b:1"],
        ["r1-b:2", "r1-b:3", "r2-b:2", "r2-b:3"],
        ["r3-b:0", "r3-b:1", "r3-b:2", "r2-b:4"],
    ]
    assert shares(NEARBY, mq_all, ["r1-c0", "r1-c1", "r3-c0"]) == expected
    assert shares(NEARBY, queues(1, "r2-b"), ["r1-c0"]) == [[0]]
    # Rooms come in Java's order of strings, which is not Python's.
    far = [*queues(1, "\uff5e-b"), *queues(1, "😀-b")]
    assert shares(NEARBY, far, ["r1-c0"]) == [["😀-b:0", "\uff5e-b:0"]]


def test_config_returns_the_list_itself_for_any_arguments():
    configured = queues(2)
    kind = strategy("CONFIG", message_queue_list=configured)
    assert kind.allocate("G", None, None, None) is configured
    assert kind.plan("G", [], ["a", "b"]) == {"a": configured, "b": configured}
    assert CONFIG.allocate("G", "c", queues(1), ["c"]) is None


def test_a_repeated_client_id_leaves_queues_without_an_owner():
    """Seen on the real classes: both processes compute the share of the first place."""
    clients = ["c0", "c0", "c1"]
    plan = AVG.plan("G", queues(8), clients)
    assert {cid: [q.queue_id for q in share] for cid, share in plan.items()} == {"c0": [0, 1, 2], "c1": [6, 7]}
    assert shares(CIRCLE, queues(8), clients) == [[0, 3, 6], [0, 3, 6], [2, 5]]


@pytest.mark.parametrize("kind", [AVG, CIRCLE, HASH, ROOM, NEARBY])
@pytest.mark.parametrize("nothing", [[], None])
def test_arguments_are_checked_in_javas_order(kind, nothing):
    def refused(*args):
        return outcome(lambda: kind.allocate("G", *args))

    assert refused("", nothing, nothing) == refused(None, nothing, nothing) == (AllocationError, "currentCID is empty")
    assert refused("c", nothing, nothing) == (AllocationError, "mqAll is null or mqAll empty")
    assert refused("c", queues(1), nothing) == (AllocationError, "cidAll is null or cidAll empty")
    assert refused("stranger", queues(1), ["c"]) == []
    assert kind.plan("G", queues(1), nothing) == {}


def test_nulls_that_java_meets_with_a_null_pointer_exception():
    assert outcome(lambda: strategy("MACHINE_ROOM_NEARBY", resolver=ByPrefix())) == (
        AllocationNullError,
        "allocateMessageQueueStrategy is null",
    )
    for ask in (lambda: strategy("MACHINE_ROOM_NEARBY", inner=AVG), lambda: strategy("MACHINE_ROOM_NEARBY-AVG")):
        assert outcome(ask) == (AllocationNullError, "machineRoomResolver is null")
    unset = strategy("MACHINE_ROOM")
    assert unset.allocate("G", "c", queues(1), ["c"]) == []  # no broker has a room, so the chosen rooms are never read
    refused = outcome(lambda: unset.allocate("G", "c", queues(1, "r1@b"), ["c"]))
    assert refused == (AllocationNullError, "consumeridcs is null")
    without_list = strategy("MACHINE_ROOM_NEARBY-CONFIG", resolver=ByPrefix())
    refused = outcome(lambda: without_list.allocate("G", "r1-c", queues(1, "r1-b"), ["r1-c"]))
    assert refused == (AllocationNullError, "the inner strategy's share is null")


class Named(AllocateStrategy):
    """Gives a queue that is called as the group is."""

    name, java_class = "NAMED", "Named"

    def division(self, group, mq_all, cid_all):
        return lambda _: [MessageQueue(group, "b", 0)]


def test_ones_own_strategy_alone_and_inside():
    mine = Named()
    given = [MessageQueue("G", "b", 0)]
    nearby = strategy("MACHINE_ROOM_NEARBY", inner=mine, resolver=ByPrefix())
    assert nearby.name == "MACHINE_ROOM_NEARBY-NAMED"
    mq_all = [*queues(1, "r1-b"), *queues(1, "r2-b")]
    assert mine.allocate("G", "r1-c", mq_all, ["r1-c"]) == given
    assert nearby.allocate("G", "r1-c", mq_all, ["r1-c"]) == given * 2  # its own room, and one without clients
    assert nearby.plan("G", mq_all, ["r1-c"]) == {"r1-c": given * 2}


def test_nearby_refuses_what_has_no_room():
    refused = outcome(lambda: NEARBY.allocate("G", "-c", queues(1, ""), ["-c"]))
    assert refused == (
        AllocationError,
        "Machine room is null for mq MessageQueue [topic=T, brokerName=, queueId=0]",
    )
    refused = outcome(lambda: NEARBY.allocate("G", "-c", queues(1, "r1-b"), ["-c"]))
    assert refused == (AllocationError, "Machine room is null for consumer id -c")


class Changes(ByPrefix):
    """Says another room for a client each time that it is asked."""

    def __init__(self, *rooms):
        self.rooms = list(rooms)

    def consumer_deploy_in(self, cid):
        return self.rooms.pop(0)


def test_a_clients_own_room_is_resolved_again_as_in_java():
    def ask(*rooms):
        nearby = strategy("MACHINE_ROOM_NEARBY-AVG", resolver=Changes(*rooms))
        return outcome(lambda: nearby.allocate("G", "c", [*queues(1, "r1-b"), *queues(1, "r2-b")], ["c"]))

    assert ask("r1", None) == (AllocationNullError, "the machine room that is looked up is null")
    assert ask("r1", "r2") == (AllocationError, "cidAll is null or cidAll empty")
    assert ask("r1", "r1") == [*queues(1, "r1-b"), *queues(1, "r2-b")]
    assert ask("r1", "r3") == queues(1, "r2-b")


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("AVERAGE", {}, "^no allocation strategy is called 'AVERAGE': AVG, AVG_BY_CIRCLE, CONFIG, "),
        ("MACHINE_ROOM_NEARBY-", {"resolver": ByPrefix()}, "^no allocation strategy is called '': AVG"),
        ("AVG", {"virtual_node_cnt": 3}, "^AVG has no parameter 'virtual_node_cnt': it takes none$"),
        ("MACHINE_ROOM", {"rooms": {"r1"}}, "^MACHINE_ROOM has no parameter 'rooms': consumeridcs$"),
        (
            "CONSISTENT_HASH",
            {"inner": AVG},
            "^CONSISTENT_HASH has no parameter 'inner': virtual_node_cnt, custom_hash_function$",
        ),
        ("CONSISTENT_HASH", {"virtual_node_cnt": -1}, "^illegal virtualNodeCnt :-1$"),
        ("CONSISTENT_HASH", {"virtual_node_cnt": 2**31}, "^illegal virtualNodeCnt :2147483648$"),
        ("CONSISTENT_HASH", {"virtual_node_cnt": "10"}, "^virtual_node_cnt can't be '10'$"),
        ("CONSISTENT_HASH", {"virtual_node_cnt": None}, "^virtual_node_cnt can't be None$"),
        ("CONSISTENT_HASH", {"custom_hash_function": 7}, "^custom_hash_function can't be 7$"),
        ("CONFIG", {"message_queue_list": "T"}, "^message_queue_list can't be 'T'$"),
        ("MACHINE_ROOM", {"consumeridcs": "r1"}, "^consumeridcs can't be 'r1'$"),
        ("MACHINE_ROOM_NEARBY", {"inner": "AVG"}, "^inner can't be 'AVG'$"),
        ("MACHINE_ROOM_NEARBY", {"resolver": "r1"}, "^resolver can't be 'r1'$"),
    ],
)
def test_what_java_does_not_have_is_refused_with_its_reason(name, params, message):
    with pytest.raises(AllocationError, match=message) as refused:
        strategy(name, **params)
    assert not isinstance(refused.value, AllocationNullError)


def test_names_and_parameters_as_javas():
    assert [kind.name for kind in (AVG, CIRCLE, HASH, CONFIG, ROOM)] == [
        *("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG", "MACHINE_ROOM"),
    ]
    assert NEARBY.name == "MACHINE_ROOM_NEARBY-AVG"
    nested = strategy("MACHINE_ROOM_NEARBY-CONSISTENT_HASH", resolver=ByPrefix(), virtual_node_cnt=0)
    assert nested.name == "MACHINE_ROOM_NEARBY-CONSISTENT_HASH"
    assert shares(nested, queues(3, "r1-b"), ["r1-c"]) == [[]]
    for param in ("custom_hash_function", "message_queue_list", "consumeridcs"):
        name = {"custom_hash_function": "CONSISTENT_HASH", "message_queue_list": "CONFIG"}.get(param, "MACHINE_ROOM")
        assert strategy(name, **{param: None}).name == name  # null, as if it had not been set
    assert strategy("CONSISTENT_HASH", virtual_node_cnt=2**31 - 1).virtual_node_cnt == 2**31 - 1


def test_only_a_class_without_parameters_is_found_by_its_name():
    assert strategy_of_class("com.example.Mine") is None
    assert strategy_of_class("AllocateMessageQueueByConfig") is None
    assert strategy_of_class(HASH.java_class) == strategy("CONSISTENT_HASH")
    assert takes_parameters(strategy("CONSISTENT_HASH"))
    assert not takes_parameters(strategy("AVG"))
    for kind in (AVG, CIRCLE):
        found = strategy_of_class(kind.java_class)
        assert found is not None
        assert found.name == kind.name
    assert [kind.java_class for kind in (AVG, CIRCLE, HASH, CONFIG, ROOM, NEARBY)] == [
        *("AllocateMessageQueueAveragely", "AllocateMessageQueueAveragelyByCircle"),
        *("AllocateMessageQueueConsistentHash", "AllocateMessageQueueByConfig"),
        *("AllocateMessageQueueByMachineRoom", "AllocateMachineRoomNearby"),
    ]
    assert [name_of_class(kind.java_class) for kind in (AVG, CONFIG, ROOM)] == ["AVG", "CONFIG", "MACHINE_ROOM"]
    assert name_of_class(NEARBY.java_class) == "MACHINE_ROOM_NEARBY"
    assert name_of_class("com.example.Mine") is None


SIZES = st.integers(1, 60)


@given(st.sampled_from([AVG, CIRCLE, HASH, ROOM, NEARBY]), SIZES, SIZES)
def test_every_queue_has_one_owner(kind, queue_count, client_count):
    mq_all = [MessageQueue("T", ("r1@b", "r2@b")[i % 2], i) for i in range(queue_count)]
    clients = [f"c{i:03}" for i in range(client_count)]
    parts = [part or [] for part in kind.plan("G", mq_all, clients).values()]
    assert sorted(q.queue_id for part in parts for q in part) == list(range(queue_count))
    if kind is not HASH:
        assert max(map(len, parts)) - min(map(len, parts)) <= (1 if kind is not NEARBY else 2)


@given(st.lists(st.text(min_size=1), min_size=2, max_size=12, unique=True), st.data())
def test_consistent_hash_moves_only_the_queues_of_the_client_that_goes(clients, data):
    gone = data.draw(st.sampled_from(clients))
    before = HASH.plan("G", queues(64), clients)
    after = HASH.plan("G", queues(64), [c for c in clients if c != gone])
    for cid, share in after.items():
        kept = [q for q in share or [] if q not in (before[gone] or [])]
        assert kept == before[cid]


def planned(kind, mq_all, cid_all):
    """As a plan, and client by client."""
    return outcome(lambda: list(kind.plan("G", mq_all, cid_all).items())), outcome(
        lambda: [(cid, kind.allocate("G", cid, mq_all, cid_all)) for cid in dict.fromkeys(cid_all or ())]
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_what_each_client_computes_errors_included(name):
    """On the random cases of the comparison with Java; a resolver that changes its mind has no plan."""
    refused = 0
    for asked in (case(name, seed) for seed in range(300)):
        kind = outcome(partial(build, asked))
        if isinstance(kind, tuple) or "fickle rooms" in str(asked["params"]):
            continue
        mq_all = None if asked["queues"] is None else [MessageQueue(*mq) for mq in asked["queues"]]
        plan, one_by_one = planned(kind, mq_all, asked["clients"])
        assert plan == one_by_one, asked
        refused += isinstance(plan, tuple)
    assert refused or name == "CONFIG"


def test_arguments_are_not_changed():
    mq_all, clients = queues(5, "r1@b"), ["c1", "c0", "c1"]
    for kind in (AVG, CIRCLE, HASH, ROOM, NEARBY):
        kind.plan("G", mq_all, clients)["c1"].clear()
    assert (mq_all, clients) == (queues(5, "r1@b"), ["c1", "c0", "c1"])


def test_javas_order_of_strings_and_queues():
    texts = ["\uff5e", "😀", "a", "B", "10", "9", "10.0.0.10@1", "10.0.0.2@1", "", "é"]
    expected = ["", "10", "10.0.0.10@1", "10.0.0.2@1", "9", "B", "a", "é", "😀", "\uff5e"]
    assert sorted(texts, key=java_order) == expected
    mixed = [MessageQueue("T", "b", 10), MessageQueue("T", "b", 9), MessageQueue("T", "a", 11)]
    assert sorted(mixed, key=queue_order) == [mixed[2], mixed[1], mixed[0]]
