"""The job as processes: stopped with Ctrl-C, killed in the middle of a batch, refused, and brought to its end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.settings import Settings, conf_file
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from tests.support.plain import as_json, derived_rows
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PARTITIONS = 2
COMMAND = ["-m", "streaming.cli.main"]
KILLED_WITHIN_BATCH = """
import os, signal, sys
from streaming.pipeline import sinks
from streaming.cli.main import main
append = sinks.TableSink.append_arrow
def append_or_die(self, rows, table, *, batch_id):
    if table == "queue_state":
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, rows, table, batch_id=batch_id)
sinks.TableSink.append_arrow = append_or_die
main()
"""


def start(settings: Settings, *arguments: str, program: tuple[str, ...] = tuple(COMMAND)) -> subprocess.Popen[str]:
    environment = os.environ | {
        "REBALANCE_WATCH_SOURCE__KIND": "files",
        "REBALANCE_WATCH_SOURCE__PARTITIONS": str(PARTITIONS),
        "REBALANCE_WATCH_SOURCE__FILES_PER_BATCH": "2",
        "REBALANCE_WATCH_JOB__TRIGGER_SECONDS": "0.5",
        "REBALANCE_WATCH_JOB__ARCHIVE_TRIGGER_SECONDS": "0.5",
    }
    return subprocess.Popen(
        [sys.executable, *program, "--root", str(settings.runtime.root), "run", *arguments],
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=240)[1]
    finally:
        process.kill()


def append(log: Path, events: list[object]) -> None:
    with FilePublisher(log, PARTITIONS, file_bytes_max=250_000, roll_seconds=1e9) as publisher:
        publish(publisher, events)


def test_nothing_is_lost_or_doubled_by_ctrl_c_or_kill_9(settings_in, tmp_path):
    settings = settings_in(tmp_path, partitions=PARTITIONS)
    events = list(telemetry(10, 60))
    append(settings.log_path, events[: len(events) // 2])

    process = start(settings)
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("operator batch 0"):
            process.send_signal(signal.SIGINT)
            break
    said.append(end(process))
    text = "".join(said)
    assert process.returncode == 0, text
    assert "Traceback" not in text
    assert text.endswith("stopped\n")

    append(settings.log_path, events[len(events) // 2 :])
    process = start(settings, "--available-now", program=("-c", KILLED_WITHIN_BATCH))
    end(process)
    assert process.returncode == -signal.SIGKILL

    other = tmp_path / "other.toml"
    other.write_text(conf_file("policy.toml").read_text().replace("stuck_after = 60_000", "stuck_after = 50_000"))
    process = start(settings, "--available-now", "--policy", str(other))
    assert "was started under another policy: finish it with" in end(process).replace("\n", " ")
    assert process.returncode == 1

    process = start(settings, "--available-now")
    assert "the whole log is processed" in end(process)
    assert process.returncode == 0
    expected = derived_rows(settings.log_path, PARTITIONS, Policy())
    assert {table: sorted(map(as_json, rows(settings, table))) for table in DERIVED} == expected
    places = [(row["partition"], row["offset"]) for row in rows(settings, "telemetry")]
    ticks = sum(event.BROADCAST for event in events)
    assert len(places) == len(set(places)) == len(events) + ticks * (PARTITIONS - 1)


def test_a_service_manager_that_ends_all_processes_gets_a_clean_end(settings_in, tmp_path):
    process = start_and_wait(settings_in(tmp_path, partitions=PARTITIONS))
    os.killpg(process.pid, signal.SIGTERM)
    text = end(process)
    assert process.returncode == 0, text
    assert "Traceback" not in text
    assert text.endswith("stopped\n")


def test_a_jvm_that_dies_is_one_sentence(settings_in, tmp_path):
    process = start_and_wait(settings_in(tmp_path, partitions=PARTITIONS))
    [jvm] = subprocess.run(
        ["pgrep", "-P", str(process.pid), "java"], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(jvm), signal.SIGKILL)
    text = end(process)
    assert process.returncode == 1, text
    assert "Traceback" not in text
    assert "error: Spark has ended: its JVM was killed" in text


def start_and_wait(settings: Settings) -> subprocess.Popen[str]:
    """The job after its first batch, waiting for more."""
    append(settings.log_path, list(telemetry(2, 5)))
    process = start(settings)
    for line in process.stderr:
        if line.startswith("operator batch 0"):
            return process
    raise AssertionError("the job ended before its first batch")


def rows(settings: Settings, table: str) -> list[dict[str, object]]:
    return read_rows(settings.runtime.tables, table)
