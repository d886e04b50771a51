"""Compare the model with the recorded answers of the real classes (record_allocation.py); needs no JVM."""

import json

import pytest

from tests.differential import allocation_script, server_side_script


def read(name):
    return [json.loads(line) for line in (allocation_script.VECTORS / name).read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", allocation_script.NAMES)
def test_strategies_answer_as_recorded_from_java(name):
    for case, answers in read(f"allocation_{name.lower()}.jsonl"):
        assert allocation_script.model_answers(case) == answers, case


def test_server_side_assignment_answers_as_recorded_from_java():
    for case, answers in read("server_side.jsonl"):
        assert server_side_script.model_answers(case) == answers, case
