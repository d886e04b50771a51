"""Strategies that a policy states with their parameters: as those of Java, and as a group's expected owners."""

import json
from dataclasses import replace

import msgspec
import pytest

from rebalance_model.allocation import AllocationError
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.configured_strategy import configured_strategy, owners
from rebalance_model.observe.group.expectation import strategy_of
from rebalance_model.observe.policy import CONFIGURABLE, Policy
from tests.differential.allocation_script import VECTORS, universe
from tests.support.rounds import OWN, rounds
from tests.support.trace import Trace, holding, mq

ROOMS = {"broker_deploy_in": "^(?!@@$)([^-@]*)", "consumer_deploy_in": "^([^-@]*)"}
"""As the comparison with Java finds rooms: see `Rooms` there."""


def recorded(name: str):
    """Return the recorded cases and answers of a Java class."""
    lines = (VECTORS / f"allocation_{name.lower()}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def stated(case) -> Policy | None:
    """Return the policy that states the case's strategy; None if none can."""
    name, params = case["strategy"], case["params"]
    if name == "MACHINE_ROOM":
        return (
            Policy(allocate_strategy=name, consumeridcs=params["consumeridcs"]) if params.get("consumeridcs") else None
        )
    if name == "CONFIG":
        listed = [MessageQueue(*one) for one in params.get("message_queue_list") or () if one[1] and one[2] >= 0]
        if not listed or len(listed) < len(params["message_queue_list"]):
            return None
        return Policy(allocate_strategy=name, message_queue_list={"*": [str(one) for one in listed]})
    name = f"{name}-{(params['inner'] or {}).get('strategy')}"
    if params["resolver"] != "rooms" or name not in CONFIGURABLE or params["inner"]["params"]:
        return None
    return Policy(allocate_strategy=name, **ROOMS)


@pytest.mark.parametrize(("name", "least"), [("CONFIG", 20), ("MACHINE_ROOM", 40), ("MACHINE_ROOM_NEARBY", 2)])
def test_a_stated_strategy_answers_as_the_real_java_class(name, least):
    compared = 0
    for case, java in recorded(name):
        policy = stated(case)
        if policy is None or case["queues"] is None:
            continue
        places = {}
        for place, queue in enumerate(universe(case)):
            places.setdefault(MessageQueue(*queue), place)
        chosen = configured_strategy(policy)
        for cid, answer in zip(case["asking"], java["answers"], strict=True):
            try:
                share = chosen.allocate("G", cid, [MessageQueue(*one) for one in case["queues"]], case["clients"])
                result = None if share is None else [places[one] for one in share]
            except AllocationError as error:
                result = ["IllegalArgumentException", str(error)]
            assert result == answer, case
        assert chosen.name == java["name"]
        compared += 1
    assert compared >= least


def test_the_same_parameters_make_one_strategy():
    rooms = {"allocate_strategy": "MACHINE_ROOM", "consumeridcs": ["r1"]}
    assert configured_strategy(Policy(**rooms)) is configured_strategy(Policy(**rooms, stuck_after=1))
    assert configured_strategy(Policy()) is None
    assert configured_strategy(Policy(allocate_strategy="AVG")).name == "AVG"


def test_a_list_is_that_of_the_first_glob_that_matches():
    lists = {"10.0.0.5@*": ["T@b:0"], "10.*": ["T@b:1", "T@r1@b:2"]}
    chosen = configured_strategy(Policy(allocate_strategy="CONFIG", message_queue_list=lists))
    queues = [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1), MessageQueue("T", "b", 2)]

    found = owners(chosen, "g", queues, ["10.0.0.5@1", "10.9.9.9@1", "elsewhere"])
    assert list(found.values()) == ["10.0.0.5@1", "10.9.9.9@1", None]
    assert chosen.allocate("g", "elsewhere", queues, ["elsewhere"]) is None
    twice = owners(chosen, "g", queues, ["10.0.0.5@1", "10.0.0.5@2"])
    assert list(twice.values()) == [None, None, None]  # both have the first


NEARBY = {"allocate_strategy": "MACHINE_ROOM_NEARBY-AVG", "broker_deploy_in": "(b)", "consumer_deploy_in": "(.)"}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"allocate_strategy": "CONFIG", "message_queue_list": {"a": ["T@broker-a:3"], "b": ["T@broker-a:0"]}},
         ["b", None, None, "a"]),
        ({**NEARBY, "broker_deploy_in": "-(a)"}, ["a", "a", "a", "a"]),
        ({**NEARBY, "broker_deploy_in": "-(x)"}, [None] * 4),  # each client throws, and keeps its queues
        ({"allocate_strategy": "MACHINE_ROOM", "consumeridcs": ["r1"]}, [None] * 4),  # no broker is in a room
    ],
)  # fmt: skip
def test_a_stated_strategy_names_the_expected_owners(stated, expected):
    topic = mq(0).topic
    text = json.dumps(stated).replace("T@broker-a", f"{topic}@{mq(0).broker}")
    trace = Trace(policy=msgspec.json.decode(text, type=Policy))
    rounds(trace, 0, 20, {c: replace(holding(), strategy=OWN) for c in "ab"})

    assert [trace.state.queues[mq(q)].expected_owner for q in range(4)] == expected
    assert (trace.state.strategy, trace.state.strategy_basis) == (stated["allocate_strategy"], "CONFIGURED")


def test_another_policy_counts_from_the_next_round_on():
    """The state may be older than the policy: the job was started again with another one."""
    trace = rounds(Trace(policy=Policy(allocate_strategy="AVG")), 0, 20, {c: holding() for c in "ab"})
    before = [trace.state.queues[mq(q)].expected_owner for q in range(4)]
    trace.restart(Policy(allocate_strategy="AVG_BY_CIRCLE"))
    rounds(trace, 20, 40, {c: holding() for c in "ab"})

    assert before == ["a", "a", "b", "b"]
    assert [trace.state.queues[mq(q)].expected_owner for q in range(4)] == ["a", "b", "a", "b"]
    trace.restart(Policy())
    assert strategy_of(trace.state, trace.policy) is None
    rounds(trace, 40, 60, {c: holding() for c in "ab"})
    assert (trace.state.strategy, trace.state.strategy_basis) == ("AVG", "DECLARED")
