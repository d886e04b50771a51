"""Compare the client's side with the recorded answers of the real classes (record_client.py); needs no JVM."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.differential import client_script, process_queue_script
from tests.differential.client_script import ModelClient
from tests.differential.process_queue_script import ModelProcessQueue

VECTORS = Path(__file__).parent / "vectors"


def vectors(name: str) -> Iterator[tuple[int, Any, Any]]:
    for line, text in enumerate(gzip.decompress((VECTORS / name).read_bytes()).decode().splitlines()):
        script, recorded = json.loads(text)
        yield line, script, recorded


def test_each_step_of_a_client_equals_the_step_recorded_from_java():
    for line, script, recorded in vectors("client.jsonl.gz"):
        answers = client_script.trace(ModelClient(script["config"]), script["ops"])
        for step, (mine, java) in enumerate(zip(answers, recorded, strict=True)):
            assert mine == java, f"line {line}, step {step}: {script['ops'][step]} of {script['config']}"


def test_each_step_of_a_process_queue_equals_the_recorded_step():
    for line, script, recorded in vectors("process_queue.jsonl.gz"):
        answers = process_queue_script.trace(ModelProcessQueue(script["pool"]), script["ops"])
        for step, (mine, java) in enumerate(zip(answers, recorded, strict=True)):
            assert mine == java, f"line {line}, step {step}: {script['ops'][step]}"
