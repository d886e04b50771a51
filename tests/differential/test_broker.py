"""Compare the broker's side with the real classes: answers, events and state at each step of the same scripts."""

from pathlib import Path

import pytest

from tests.differential.broker_java import JavaBroker
from tests.differential.broker_script import KINDS, ModelBroker, Writer

SCRIPTS = 20
LENGTH = 40


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_of_a_random_script_equals_javas(jvm, tmp_path, kind):
    _compare(kind, range(SCRIPTS), tmp_path)


@pytest.mark.prove
@pytest.mark.parametrize("kind", KINDS)
def test_each_step_equals_javas_in_the_long_run(jvm, tmp_path, kind):
    _compare(kind, range(SCRIPTS, 3_000), tmp_path)


def _compare(kind: str, seeds: range, folder: Path) -> None:
    for seed in seeds:
        script = Writer(seed).script(kind, LENGTH)
        model, real = ModelBroker(script["config"]), JavaBroker(script["config"], folder)
        for step, (name, *args) in enumerate(script["ops"]):
            where = f"{kind}, seed {seed}, step {step}: {name}{args} of {script['config']}"
            real.clock.stand_still()
            assert getattr(model, name)(*args) == getattr(real, name)(*args), where
            real.clock.stand_still()
            assert model.state() == real.state(), where
        real.end()
