"""One log has the same conclusions in every process: Python gives each its own hashes, so its own order of sets."""

import os
import subprocess
import sys

SCRIPT = """
import hashlib, msgspec
from tests.support.simulated import simulate
from tests.rules.test_cluster_incidents import KILLED, brokers_and_groups
from tests.support.folding import folded
for story in ("subscription-mistake", brokers_and_groups(4, KILLED, minutes=4)):
    effects = folded(simulate(story, hook=True, poll=True).events)
    print(len(effects), hashlib.sha256(msgspec.json.encode(effects)).hexdigest())
"""


def test_another_process_concludes_the_same():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1, outputs
