"""Memory that is given back."""

import gc
import subprocess
import sys

import pytest

from streaming.base.memory import without_collection

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
began = resident_mb()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
give_back()
print(resident_mb() - began)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("user", ["python", "arrow"])
def test_what_threads_no_longer_use_is_given_back(user):
    done = subprocess.run([sys.executable, "-c", ALLOCATES, user], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 100, "megabytes that stay; 160 to 550 without it"


def fold_and_fail(seen):
    with without_collection():
        seen.append(gc.isenabled())
        raise ValueError("within")


def test_garbage_is_collected_again_after_an_error():
    seen = []
    with pytest.raises(ValueError, match="within"):
        fold_and_fail(seen)
    assert (seen, gc.isenabled()) == ([False], True)
