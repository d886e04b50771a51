"""Compare the model with the recorded answers of the real classes (record_broker.py); needs no JVM."""

import json

import pytest

from tests.differential.broker_script import VECTORS, ModelBroker, fingerprint

RECORDED = json.loads(VECTORS.read_text())


@pytest.mark.parametrize("script", RECORDED, ids=[f"{script['kind']}-{at}" for at, script in enumerate(RECORDED)])
def test_each_step_equals_the_step_recorded_from_java(script):
    model = ModelBroker(script["config"])
    for (name, *args), (answer, state) in zip(script["ops"], script["said"], strict=True):
        assert json.loads(json.dumps(getattr(model, name)(*args))) == answer, f"{name}{args}"
        assert fingerprint(model.state()) == state, f"state after {name}{args}: {model.state()}"
