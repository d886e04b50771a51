"""The demo's report says what the commands say about the same tables."""

from contextlib import nullcontext
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from streaming.base.times import written
from streaming.cli import main, output
from streaming.cli.demo import print_faults, print_report
from streaming.lab.demo import FAULT_LOG
from streaming.queries.present import history_ends

pytestmark = pytest.mark.xdist_group("demo tables")  # as for tests/lab/demo/test_quantities.py


@pytest.fixture(scope="module")
def report(model):
    console = Console(file=StringIO(), width=1_000)
    print_report(model, console)
    return console.file.getvalue()


@pytest.fixture
def said(model, monkeypatch):
    """Return what a command prints on the day of the recording."""
    monkeypatch.setattr(output, "tables", lambda: nullcontext(model))
    monkeypatch.setattr(output, "now_ms", lambda: history_ends(model).last)
    monkeypatch.setenv("COLUMNS", "1000")

    def run(*arguments: str) -> str:
        ended = CliRunner().invoke(main.app, arguments)
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    return run


@pytest.mark.parametrize("group", ["orders-group", "audit-group"])
def test_queues_and_rebalances_are_those_of_the_commands(report, said, model, group):
    assert said("group", "assignments", group, "--at", written(history_ends(model).last)) in report
    assert said("group", "rebalances", group, "--last", "1000") in report


def test_incidents_are_those_of_the_command_and_each_kind_is_explained(report, said, model):
    assert said("incident", "list", "--all", "--unfold") in report
    for row in model.rows("SELECT DISTINCT i.explanation AS why FROM incidents i WHERE i.sub_cause <> ''"):
        assert row["why"].split(":")[0] in report


def test_the_owners_of_one_queue_follow_each_other(report):
    lines = report[report.index("Who owned ") :].split("\n\n")[0].splitlines()[2:]
    begins, ends = ([line.split()[place] for line in lines] for place in (0, 1))
    assert len(lines) > 5
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))


def test_faults_are_listed_with_their_time():
    console = Console(file=StringIO(), width=200)
    print_faults(FAULT_LOG, console)
    assert " poison " in console.file.getvalue()
