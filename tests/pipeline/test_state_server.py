"""The sockets of Spark's JVM, which a job that runs for months must not collect."""

import pytest

from tests.pipeline.test_job import run_operator, write_log
from tests.support.processes import left_open


@pytest.mark.spark
def test_no_connection_of_a_state_task_stays_open(spark, settings_in, tmp_path):
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    before = left_open(jvm)
    write_log(tmp_path / "log", groups=4, rounds=3)
    run_operator(spark, settings_in(tmp_path))
    assert left_open(jvm) <= before
