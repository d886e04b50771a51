"""One log has the same conclusions in every process: Python gives each its own hashes, so its own order of sets."""

import os
import subprocess
import sys

TELL = """
import hashlib, msgspec
from tests.support.simulated import tell
from tests.support.folding import folded
for story in ("subscription-mistake", "broker-restart"):
    told = folded(tell(story, hook=True, poll=True).events)
    print(story, len(told), hashlib.sha256(msgspec.json.encode(told)).hexdigest())
"""


def test_another_process_concludes_the_same():
    told = {
        subprocess.run(
            [sys.executable, "-c", TELL],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1, told
