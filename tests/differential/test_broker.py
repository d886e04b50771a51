"""The broker's side against the real classes: the same scripts, the same answers, events and state at each step."""

import pytest

from tests.differential.broker_script import KINDS, ModelBroker, Writer

SCRIPTS = {"members": 100, "heartbeats": 80, "locks": 60, "offsets": 60}
LENGTH = 40


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_of_a_random_script_is_as_in_java(jvm, tmp_path, kind):
    from tests.differential.broker_java import JavaBroker  # noqa: PLC0415  needs the JVM

    for seed in range(SCRIPTS[kind]):
        script = Writer(seed).script(kind, LENGTH)
        model, real = ModelBroker(script["config"]), JavaBroker(script["config"], tmp_path)
        for step, (name, *args) in enumerate(script["ops"]):
            where = f"seed {seed}, step {step}: {name}{args} of {script['config']}"
            assert getattr(model, name)(*args) == getattr(real, name)(*args), where
            assert model.state() == real.state(), where
        real.end()
