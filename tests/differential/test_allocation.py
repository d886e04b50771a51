"""Compare the strategies with the real ones: share, name, exception and message for every client of every case."""

import pytest

from tests.differential.allocation_java import JavaStrategies
from tests.differential.allocation_script import NAMES, case, model_answers


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_equals_javas(jvm, name):
    _compare(name, range(500))


@pytest.mark.prove
@pytest.mark.parametrize("name", NAMES)
def test_every_answer_equals_javas_in_the_long_run(jvm, name):
    _compare(name, range(500, 100_000))


def _compare(name: str, seeds: range) -> None:
    java = JavaStrategies()
    for seed in seeds:
        asked = case(name, seed)
        assert model_answers(asked) == java.answers(asked), f"{name}, seed {seed}: {asked}"
