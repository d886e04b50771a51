"""Predictions for every strategy of RocketMQ, with measured costs, warnings, short names, and a rolling restart."""

import pytest

from checkpoints.generation import claimed
from checkpoints.manifest import Basis
from rebalance_model.allocation import strategy
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.configured_strategy import configured_strategy
from rebalance_model.observe.policy import Policy
from streaming.base.errors import NotFoundError, UserError
from streaming.base.nearest import full_name
from streaming.queries.clients import client
from streaming.queries.group_at import find_group
from streaming.queries.plan import move_cost
from streaming.queries.rolling_restart import planned_restart, rolling_restart
from streaming.queries.what_if import what_if
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import CLIENTS, DIED, MINUTE, Group, orders
from tests.support.tables import append

NOW = 1_795_300_000_000
LISTS = {"*@orders-1": ["Orders@broker-a:0", "Orders@broker-a:9"], "*@orders-2": ["Orders@broker-a:1"]}
STATED = {
    "CONFIG": {"message_queue_list": LISTS},
    "MACHINE_ROOM": {"consumeridcs": ["r1"]},
    "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE": {"broker_deploy_in": "^(broker)", "consumer_deploy_in": "^([0-9]+)"},
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a function that makes the tables of groups under a policy and opens them."""
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)
    opened = []

    def make(policy: Policy, *groups: Group) -> ReadModel:
        basis = Basis(source="test", partitions=1, state_partitions=1, code_version="0", policy=policy)
        with claimed(tmp_path / "checkpoints", tmp_path / "tables", basis):
            append(tmp_path / "tables", [row for group in groups for row in group.taken()])
        opened.append(ReadModel(tmp_path / "tables"))
        return opened[-1]

    yield make
    for model in opened:
        model.close()


def after(plan) -> dict[str, str | None]:
    """Return the new owner of each queue that moves."""
    return {move.queue.removeprefix("Orders@broker-a:"): move.to_client for move in plan.moves}


@pytest.mark.parametrize("name", STATED)
def test_a_strategy_is_simulated_with_what_the_policy_states(made, name):
    own = {"pattern": "orders-*", "allocate_strategy": name, **STATED[name]}
    model = made(Policy(group=(own,)), orders(NOW))
    prediction = what_if(model, find_group(model, "orders-group"))

    first, *others = prediction.plans
    assert prediction.own == first.strategy == name.partition("-")[0]
    assert {plan.strategy for plan in others} >= {"AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"}
    first_client, second_client = CLIENTS[:2]
    expected = {
        "CONFIG": {"1": second_client, "2": None, "3": None, "4": None, "5": None},
        "MACHINE_ROOM": dict.fromkeys("012345"),
        "MACHINE_ROOM_NEARBY": {"1": second_client, "2": first_client},
    }
    assert after(first) == expected[first.strategy]
    assert first.refused is None
    assert first.queues_unassigned == sum(client is None for client in expected[first.strategy].values())
    assert {share.client_id for share in first.shares if share.is_member} == set(CLIENTS[:2])
    assert not any("not simulated" in caveat for caveat in prediction.caveats)


def test_what_a_strategy_lacks_is_a_sentence(made):
    model = made(Policy(), orders(NOW))

    assert [plan.strategy for plan in what_if(model, find_group(model, "orders-group")).plans] == [
        "AVG",
        "AVG_BY_CIRCLE",
        "CONSISTENT_HASH",
    ]
    plan = what_if(model, find_group(model, "orders-group"), strategy="MACHINE_ROOM_NEARBY").plans[-1]
    sentence = "MACHINE_ROOM_NEARBY-AVG needs broker_deploy_in and consumer_deploy_in: state it in the policy"
    assert (plan.refused, plan.moves, plan.duplicates) == (sentence, (), None)
    with pytest.raises(UserError, match=r"Invalid strategy 'BEST': use one of AVG,"):
        what_if(model, find_group(model, "orders-group"), strategy="BEST")


def test_pauses_and_duplicates_are_those_of_the_groups_own_moves(made):
    model = made(Policy(), orders(NOW))
    group_at = find_group(model, "orders-group")

    cost = move_cost(model, group_at, NOW)
    assert (cost.rebalances, cost.moves, cost.pause_ms, cost.pause_ms_max) == (1, 2, 2_300, 2_300)
    assert (cost.counted, cost.reconsumed, cost.duplicates(3)) == (2, 14, 21)
    plan = what_if(model, find_group(model, "orders-group"), leave=[CLIENTS[0]]).plans[0]
    assert (plan.queues_moved, plan.pause_ms, plan.duplicates, plan.measured_moves) == (3, 2_300, 21, 2)
    before = move_cost(model, group_at, NOW - DIED - MINUTE)
    assert (before.moves, before.pause_ms, before.duplicates(3)) == (0, None, None)


def test_warnings_say_what_is_not_well_known(made, monkeypatch):
    group = orders(NOW)
    group.queue(NOW, 0, CLIENTS[0], expected_owner=CLIENTS[1])
    group.queue(NOW, 1, None)
    model = made(Policy(), group)

    said = what_if(model, find_group(model, "orders-group")).plans[0].warnings
    assert "1 of 3 members" not in " ".join(said)
    assert any(one.startswith("1 queue has another owner than the strategy names") for one in said)
    monkeypatch.setattr("time.time_ns", lambda: (NOW + 60 * MINUTE) * 1_000_000)
    late = " ".join(what_if(model, find_group(model, "orders-group")).caveats)
    assert "No telemetry since" in late
    assert "members and owners are the last known ones" in late


@pytest.mark.parametrize(
    ("name", "full"),
    [("10.0.0.5@orders-2", "10.0.0.5@orders-2"), ("orders-2", "10.0.0.5@orders-2"), ("ders-2", None), ("", None),
     ("2", "10.0.0.5@orders-2")],
)  # fmt: skip
def test_the_end_of_a_name_is_enough(name, full):
    assert full_name(name, CLIENTS, "client") == full


def test_an_end_of_several_names_is_refused_with_them():
    with pytest.raises(UserError, match=r"2 clients end with 1: a-1, b-1\. Use a longer name"):
        full_name("1", ["b-1", "a-1"], "client")


def test_short_names_are_understood_where_a_client_is_named(made):
    model = made(Policy(), orders(NOW))

    assert what_if(model, find_group(model, "orders-group"), leave=["orders-1"]).left == [CLIENTS[0]]
    assert client(model, "orders-2").client_id == CLIENTS[1]
    with pytest.raises(NotFoundError, match="Unknown client orders-9"):
        client(model, "orders-9")


def test_a_restart_moves_least_if_neighbours_overlap():
    """By AVG, 4 queues for each of 3 members: neighbours exchange one share."""
    queues = [MessageQueue("T", "b", n) for n in range(12)]
    plan = planned_restart(strategy("AVG"), "g", queues, ["a", "b", "c"])

    assert [(step.client_id, step.queues, step.moved, step.moved_overlapped) for step in plan.steps] == [
        ("a", 4, 6, 6), ("b", 4, 4, 6), ("c", 4, 6, 6)
    ]  # fmt: skip
    assert (plan.moved, plan.moved_overlapped) == (32, 24)


def test_a_restart_goes_room_by_room():
    rooms = {"broker_deploy_in": "^(r[0-9])", "consumer_deploy_in": "(r[0-9])$"}
    stated = Policy(allocate_strategy="MACHINE_ROOM_NEARBY-AVG", **rooms)
    queues = [MessageQueue("T", f"r{room}-b", n) for room in (1, 2) for n in range(4)]
    plan = planned_restart(configured_strategy(stated), "g", queues, ["a-r1", "b-r2", "c-r1", "d-r2"])
    assert [step.client_id for step in plan.steps] == ["a-r1", "c-r1", "b-r2", "d-r2"]


def test_the_last_member_leaves_its_queues_to_nobody():
    plan = planned_restart(strategy("AVG"), "g", [MessageQueue("T", "b", 0)], ["a"])
    assert (plan.moved, plan.moved_overlapped) == (2, 2)


def test_the_restart_of_a_group_has_its_costs_and_reasons(made):
    model = made(Policy(group=({"pattern": "x", "stuck_after": 1},)), orders(NOW))

    plan = rolling_restart(model, find_group(model, "orders-group"))
    assert [step.client_id for step in plan.steps] == list(CLIENTS[:2])
    assert (plan.strategy, plan.queues, plan.pause_ms, plan.measured_moves) == ("AVG", 6, 2_300, 2)
    assert plan.duplicates == plan.moved_overlapped * 7
    assert any("in any order" in sentence for sentence in plan.sentences)


def test_a_restart_by_an_unknown_strategy_is_refused(made):
    room = {"pattern": "*", "allocate_strategy": "MACHINE_ROOM_NEARBY-AVG", "broker_deploy_in": "^(x)"}
    model = made(Policy(group=({**room, "consumer_deploy_in": "(1)"},)), orders(NOW))

    with pytest.raises(UserError, match="refuses to allocate: Machine room is null for mq"):
        rolling_restart(model, find_group(model, "orders-group"))
