"""The commands to run next about an incident: filled in, quoted, and only those whose arguments are known."""

import shlex
from typing import get_args

import pytest

from rebalance_model.observe.rules.registry import RULES
from rebalance_model.observe.rules.rule import Inspection
from streaming.queries.evidence import commands_from

ROW = {
    "code": "ORDERED_QUEUE_STUCK", "sub_cause": "SUSPEND_LOOP", "group": "orders-group", "topic": "Orders",
    "broker": "broker-a", "queue_id": 3, "client_id": "10.0.0.5@orders-2", "evidence": {"commit_offset": 712},
}  # fmt: skip
EVIDENCE = {"commit_offset": 712, "topic": "%DLQ%g", "broker": "broker-b", "first_offset": 12}
MQADMIN = {
    "queryMsgByOffset": set("btiof"), "consumerStatus": set("gibs"), "consumerConnection": set("gb"),
    "consumerProgress": set("gtsc"), "clusterList": set("mic"), "topicRoute": set("tl"),
}  # fmt: skip
"""The options of RocketMQ's subcommands."""


def texts(**changed):
    return [command.text for command in commands_from(ROW | changed)]


def test_commands_are_filled_in_from_the_evidence():
    assert texts() == [
        "mqadmin queryMsgByOffset -b broker-a -t Orders -i 3 -o 712",
        "mqadmin consumerStatus -g orders-group -i 10.0.0.5@orders-2 -s",
    ]


@pytest.mark.parametrize("offset", [None, -1])
def test_an_unknown_offset_or_client_gives_no_command(offset):
    assert texts(evidence={"commit_offset": offset}, client_id=None) == []
    assert texts(evidence={}, sub_cause="LISTENER_HUNG") == [
        "mqadmin consumerStatus -g orders-group -i 10.0.0.5@orders-2 -s"
    ]


def test_a_group_rule_names_its_client_in_the_evidence():
    found = texts(code="REBALANCE_STALLED", sub_cause="", client_id=None, queue_id=None, evidence={"owner": "a"})
    assert found == ["mqadmin consumerStatus -g orders-group -i a -s"]


def test_the_first_dead_letter_is_read_at_its_broker():
    evidence = {"topic": "%DLQ%g", "broker": "broker-b", "first_offset": 12}
    row = {"code": "MESSAGES_DEAD_LETTERED", "sub_cause": "", "topic": None, "broker": None, "queue_id": None}
    assert texts(**row, evidence=evidence) == ["mqadmin queryMsgByOffset -b broker-b -t %DLQ%g -i 0 -o 12"]
    assert texts(**row, evidence={"topic": "%DLQ%g"}) == []  # none of them is stored any more


def test_foreign_names_are_quoted_for_a_shell():
    first, second = texts(group="a; rm -rf ~", client_id="10.0.0.5@1#2", topic="%RETRY%$(x)")
    assert shlex.split(first)[5] == "%RETRY%$(x)"
    assert shlex.split(second, comments=True)[2:] == ["-g", "a; rm -rf ~", "-i", "10.0.0.5@1#2", "-s"]


def test_a_code_of_another_release_has_no_commands():
    assert texts(code="UNHEARD_OF") == texts(sub_cause="UNHEARD_OF") == []


def test_every_inspection_is_used_and_its_options_are_mqadmins():
    used = set()
    for rule in RULES:
        for sub_cause, advice in rule.advice.items():
            used |= set(advice.inspect)
            built = commands_from(ROW | {"code": rule.code, "sub_cause": sub_cause, "evidence": EVIDENCE})
            assert len(built) == len(advice.inspect)
            for command in built:
                _, name, *words = shlex.split(command.text)
                assert {word[1:] for word in words if word.startswith("-")} <= MQADMIN[name]
    assert used == set(get_args(Inspection))
