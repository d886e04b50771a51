"""The sockets of Spark's JVM, which a job that runs for months must not collect."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.pipeline.test_job import run_operator, write_log

CLOSE_WAIT = "08"


def left_open(pid: int) -> int:
    """Return how many connections a process has that the other end has closed."""
    mine = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            mine.add(str(file.readlink()).removeprefix("socket:[").removesuffix("]"))
    tables = [Path(f"/proc/{pid}/net/{table}") for table in ("tcp", "tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return sum(line[3] == CLOSE_WAIT and line[9] in mine for line in lines)


@pytest.mark.spark
def test_no_connection_of_a_state_task_stays_open(spark, settings_in, tmp_path):
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    before = left_open(jvm)
    write_log(tmp_path / "log", groups=4, rounds=3)
    run_operator(spark, settings_in(tmp_path))
    assert left_open(jvm) <= before
