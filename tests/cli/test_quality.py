"""`rebalance-watch quality`, and the checks that `maintain --every` makes."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

from typer.testing import CliRunner

from checkpoints.manifest import ARCHIVE
from streaming.cli import main
from tests.checkpoints.test_table_quality import START, Root
from tests.support.suites import expect, own_suite

RUNNER = CliRunner()


def quality(root, *arguments):
    environment = {"REBALANCE_WATCH_SOURCE__KIND": "files"}
    command = ["--root", str(root.path), "--tz", "UTC", "quality", *arguments]
    return RUNNER.invoke(main.app, command, env=environment)


def test_it_shows_what_failed_with_examples_and_its_consequence(tmp_path):
    root = Root(tmp_path)
    root.events((0, 0, START))
    root.archived(p0=1)
    root.owner("A")
    root.owner("B")

    assert "No checks yet" in quality(root).stdout
    ended = quality(root, "--now", "--check")

    assert ended.exit_code == 3, ended.output
    lines = ended.stdout.splitlines()
    assert lines[1].split()[:8] == ["ownership", "owned_twice:", "to", "be", "null", "FAILED", "1", "1"]
    assert "A from" in lines[1]
    assert lines[-1].startswith("ownership owned_twice: to be null: A queue has two owners at one instant")
    [failed] = [one for one in json.loads(quality(root, "--format", "json").stdout) if not one["success"]]
    assert (failed["suite"], failed["unexpected_count"]) == ("ownership", 1)


def test_what_can_not_be_compared_is_said_and_has_no_result(tmp_path):
    root = Root(tmp_path)
    root.events((0, 0, START))

    ended = quality(root, "--now", "--check")

    assert ended.exit_code == 3, ended.output
    assert "The archive was not compared with the log" in ended.stderr
    assert "archive" not in ended.stdout


def test_maintain_checks_the_tables_at_its_pace(tmp_path):
    """Beside a job that has just begun: that its archive is not compared is no error."""
    root = Root(tmp_path)
    root.events((0, 0, START))
    root.path.joinpath("checkpoints", ARCHIVE).mkdir(parents=True)
    root.owner("A")
    root.owner("B")
    mean = expect("mean_to_be_between", "n", max_value=1)  # a number of numpy
    folder = own_suite(tmp_path / "suites", "mine", "SELECT 1.5 AS n", mean, expect("values_to_be_null", "m"))

    lines = lines_of_maintain(root, "check of the tables failed", 6, REBALANCE_WATCH_QUALITY__SUITES=str(folder))

    found = [line.partition("failed: ")[2].partition(":")[0] for line in lines if "check of the tables failed" in line]
    assert Counter(found) == {"ownership owned_twice": 2, "mine n": 2, "mine m": 2}, "two checks"
    compared = [line for line in lines if "not compared with the log" in line]
    assert compared
    assert all(line.startswith("The archive was not compared with the log") for line in compared)


def lines_of_maintain(root, text, count, **environment):
    """Return what `maintain`, checking all the time, prints up to so many lines with the text."""
    environment |= {"REBALANCE_WATCH_SOURCE__KIND": "files", "REBALANCE_WATCH_QUALITY__CHECK_SECONDS": "0.1"}
    command = [sys.executable, "-m", "streaming.cli", "--root", str(root.path), "maintain", "--every", "1s"]
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)  # fmt: skip
    try:
        lines = []
        while sum(text in line for line in lines) < count and (line := process.stdout.readline()):
            lines.append(line)
        return lines
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
