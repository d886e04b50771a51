"""The help: commands by task, and examples that the program takes."""

import shlex

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from streaming.cli.main import app
from streaming.cli.tasks import EXAMPLES, TASKS

LINES = [line for lines in EXAMPLES.values() for line in lines]


def test_every_command_has_one_task():
    names = [name for of_task in TASKS.values() for name in of_task]

    assert sorted(names) == sorted(get_command(app).commands)


def test_the_help_has_the_tasks_in_order_and_examples():
    help_text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output

    places = [help_text.index(f" {task} ") for task in TASKS]
    assert places == sorted(places)
    assert help_text.index(" group ") < help_text.index(" incident ") < help_text.index(" who-owned ")
    assert "rebalance-watch who-owned Orders@broker-a:3 --at 2h  # who owned a queue two hours ago" in help_text


@pytest.mark.parametrize("command", [name for name in EXAMPLES if name])
def test_a_command_shows_its_examples(command):
    help_text = " ".join(CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "160"}).output.split())

    for line, what in EXAMPLES[command].items():
        assert f"{line} # {what}" in help_text


@pytest.mark.parametrize("line", [line for line in LINES if "rebalance-watch" not in line])
def test_an_example_is_a_valid_command_line(line):
    command, words = get_command(app), shlex.split(line)
    while commands := getattr(command, "commands", None):
        command = commands[words.pop(0)]

    command.make_context("rebalance-watch", words).close()
