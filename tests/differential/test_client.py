"""Compare the client's side with the real classes: answers, requests and state at each step of the same scripts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.differential.client_script import ModelClient, drive
from tests.differential.client_writer import write_script

SCRIPTS = [20, pytest.param(1_000, marks=pytest.mark.prove)]
LENGTH = 60


@pytest.fixture(scope="module")
def instance(jvm) -> Iterator[Any]:
    from tests.differential.client_instance import Instance  # noqa: PLC0415  needs the JVM

    made = Instance()
    yield made
    made.end()


@pytest.mark.parametrize("scripts", SCRIPTS)
def test_each_step_of_a_random_script_equals_javas(instance, scripts):
    from tests.differential.client_java import JavaClient  # noqa: PLC0415  only while a JVM runs

    for seed in range(scripts):
        script = json.loads(json.dumps(write_script(seed, LENGTH)))
        model, real = ModelClient(script["config"]), JavaClient(script["config"], instance)
        for step, operation in enumerate(script["ops"]):
            where = f"seed {seed}, step {step}: {operation} of {script['config']}"
            real.clock.stand_still()
            assert drive(model, operation) == drive(real, operation), where
            real.clock.stand_still()
            assert model.state() == real.state(), where
