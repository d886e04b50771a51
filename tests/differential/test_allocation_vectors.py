"""The model against what the real classes once answered: the rule where there is no JVM."""

import pytest

from tests.differential import allocation_script, server_side_script
from tests.differential.record_allocation import read


@pytest.mark.parametrize("name", allocation_script.NAMES)
def test_strategies(name):
    for case, answers in read(f"allocation_{name.lower()}.jsonl"):
        assert allocation_script.model_answers(case) == answers, case


def test_server_side_assignment():
    for case, answers in read("server_side.jsonl"):
        assert server_side_script.model_answers(case) == answers, case
