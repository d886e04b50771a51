"""The strategies against the real ones: the same share, name, exception and message for every asker of every case."""

import pytest

from tests.differential.allocation_java import JavaStrategies
from tests.differential.allocation_script import NAMES, case, model_answers


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_javas(jvm, name):
    _compare(name, range(2_000))


@pytest.mark.prove
@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_javas_in_the_long_run(jvm, name):
    _compare(name, range(2_000, 100_000))


def _compare(name: str, seeds: range) -> None:
    java = JavaStrategies()
    for seed in seeds:
        asked = case(name, seed)
        assert model_answers(asked) == java.answers(asked), f"{name}, seed {seed}: {asked}"
