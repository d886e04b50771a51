"""`rebalance-watch rebuild` beside a running job, which is a process: it is swapped in, and the job goes on from it."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rebalance_model.observe.effects import QueueProgress
from streaming.base.settings import Settings
from streaming.cli.main import app
from streaming.log.files import FilePublisher
from streaming.log.rows import encode, rows_of
from streaming.tables import ReadModel
from tests.pipeline.rebuild.late import PARTITIONS, Stamped, compared, compared_tables, events, fold, log

pytestmark = [pytest.mark.spark, pytest.mark.prove]


def start_job(settings: Settings) -> subprocess.Popen[str]:
    given = {
        "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS, "JOB__TRIGGER_SECONDS": 0.5,
        "JOB__ARCHIVE_TRIGGER_SECONDS": 0.5,
    }  # fmt: skip
    environment = os.environ | {f"REBALANCE_WATCH_{name}": str(value) for name, value in given.items()}
    arguments = [sys.executable, "-m", "streaming.cli", "--root", str(settings.runtime.root), "run"]
    return subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, start_new_session=True, text=True)


def append(settings: Settings, rows: list[Stamped]) -> int:
    """Append to the log; return the number of its new rows."""
    count = 0
    with FilePublisher(settings.log_path, PARTITIONS, roll_seconds=1e9) as publisher:
        for event, _ in rows:
            count += len(made := rows_of(event, encode(event), PARTITIONS))
            publisher.write(made)
    return count


def wait_for(job: subprocess.Popen[str], rows: int) -> str:
    """Read what the job says until both queries have processed so many rows; the files of one append may be in two."""
    said, left = [], Counter(operator=rows, archive=rows)
    for line in job.stderr:
        said.append(line)
        if ended := re.match(r"(\w+) batch \d+: ([\d,]+) rows", line):
            left[ended[1]] -= int(ended[2].replace(",", ""))
        if not any(left.values()):
            return "".join(said)
    raise AssertionError("".join(said))


def test_the_job_goes_on_as_if_no_source_had_been_late(settings_in, tmp_path: Path, monkeypatch):
    """The hook is 90 s late, and has caught up soon after the rebuild."""
    settings = settings_in(tmp_path, partitions=PARTITIONS)
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    cut = events()[0].time + 6 * 60_000 + 300
    rows = log(lambda event: event.source == "hook", 90_000, until=cut)
    appended = append(settings, [row for row in rows if row.stamp < cut])
    job = start_job(settings)
    try:
        wait_for(job, appended)
        rebuild = CliRunner().invoke(app, ["rebuild"])
        assert rebuild.exit_code == 0, rebuild.exc_info
        appended = append(settings, [row for row in rows if row.stamp >= cut])
        assert "swapping in the rebuild" in wait_for(job, appended)
        job.send_signal(signal.SIGINT)
        said = job.communicate(timeout=400)[1]
        assert job.returncode == 0, said
        assert said.endswith("stopped\n")
    finally:
        job.kill()
    expected = compared(fold(log(lambda _: False, 0)))
    with ReadModel(settings.runtime.tables) as model:
        assert compared_tables(model) == expected
        rebuilt = Counter(row["source"] for row in model.rows("SELECT p.source FROM queue_progress p"))
    written = Counter(row.source for row in fold(rows) if isinstance(row, QueueProgress))
    assert rebuilt["POLL"] == written["POLL"]
    # when a hook's row is due depends on the one before, which in rebuilt state is not that of the table
    assert abs(rebuilt["HOOK"] - written["HOOK"]) <= len(
        {row.group for row in fold(rows) if isinstance(row, QueueProgress)}
    )
