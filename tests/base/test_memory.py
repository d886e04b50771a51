"""Memory that is given back."""

import subprocess
import sys

import pytest

ALLOCATES = """
import sys
import threading
from pathlib import Path

import pyarrow as pa

from streaming.base.memory import give_back


def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def python():
    texts = [f"{number:02000d}" for number in range(40_000)]  # 80 MB
    kept.extend(texts[::1000])  # so that free memory is between used memory


def arrow():
    pa.array([f"{number:02000d}" for number in range(40_000)]).to_pylist()


kept = []
work = globals()[sys.argv[1]]
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
before = resident_mb()
give_back()
print(before - resident_mb())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("user", "mb"), [("python", 100), ("arrow", 300)])
def test_what_threads_no_longer_use_is_given_back(user, mb):
    done = subprocess.run([sys.executable, "-c", ALLOCATES, user], capture_output=True, text=True, check=True)
    assert float(done.stdout) > mb
