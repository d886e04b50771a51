"""Compare the process queue with the real class: answers, counters and contents at each step of the same scripts."""

import pytest

from tests.differential.process_queue_script import ModelProcessQueue, write_script

SCRIPTS = [30, pytest.param(1_000, marks=pytest.mark.prove)]
LENGTH = 40


@pytest.mark.parametrize("scripts", SCRIPTS)
def test_each_step_of_a_random_script_equals_javas(jvm, scripts):
    from tests.differential.process_queue_java import JavaProcessQueue  # noqa: PLC0415  needs the JVM

    for seed in range(scripts):
        script = write_script(seed, LENGTH)
        model, real = ModelProcessQueue(script["pool"]), JavaProcessQueue(script["pool"])
        for step, (name, *args) in enumerate(script["ops"]):
            where = f"seed {seed}, step {step}: {name}{args}"
            real.clock.stand_still()
            assert getattr(model, name)(*args) == getattr(real, name)(*args), where
            real.clock.stand_still()
            assert model.state() == real.state(), where
