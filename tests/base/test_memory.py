"""Memory that is given back, or not kept."""

import os
import subprocess
import sys

import pytest

ALLOCATES = """
import sys
import threading
from pathlib import Path

import pyarrow as pa

from streaming.base.process import give_back


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


CHILD_HAS = """
import os
import subprocess

from streaming.base.process import keep_little

keep_little()
names = ("MALLOC_ARENA_MAX", "ARROW_DEFAULT_MEMORY_POOL")
print(*subprocess.run(["printenv", *names], capture_output=True, text=True, check=True).stdout.split())
import pyarrow as pa
print(pa.default_memory_pool().backend_name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="an option of glibc")
@pytest.mark.parametrize(("given", "arenas", "pool"), [({}, "2", "system"), ({"MALLOC_ARENA_MAX": "7"}, "7", "system")])
def test_children_keep_little_too_unless_the_environment_says_otherwise(given, arenas, pool):
    done = subprocess.run(
        [sys.executable, "-c", CHILD_HAS], env=os.environ | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [arenas, pool, pool]
