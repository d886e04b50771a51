"""Options of an output: which columns, in which order, in which format, and on how narrow a terminal."""

import json
import re
from contextlib import nullcontext

import pytest
import yaml
from typer.testing import CliRunner

from streaming.cli import output
from streaming.cli.group.changes import sparkline
from streaming.cli.main import app
from tests.support.asked import AT


@pytest.fixture
def run(asked, asked_model, monkeypatch):
    monkeypatch.setattr(output, "tables", lambda: nullcontext(asked_model))

    def ran(*arguments: str, width: int | None = None):
        monkeypatch.setenv("COLUMNS", str(width or 400))
        return CliRunner().invoke(app, ["--root", str(asked.parent), "--tz", "UTC", *arguments])

    return ran


def test_yaml_has_the_values_of_json(run):
    as_json, as_yaml = (run("group", "show", "g", *AT, "-o", name).stdout for name in ("json", "yaml"))

    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_chosen_columns_sorted_and_without_titles(run):
    lines = run(
        "group", "list", *AT, "--columns", "group,health", "--sort", "-group", "--no-headers"
    ).stdout.splitlines()
    groups = [line.split()[0] for line in lines]

    assert groups == sorted(groups, reverse=True)
    assert {tuple(line.split())[1] for line in lines} <= {"OK", "WARN", "BAD", "UNKNOWN"}
    table = run("group", "list", *AT, "--columns", "group,lag-age-ms").stdout.splitlines()[0]
    assert table.split() == ["group", "lag", "age"]


@pytest.mark.parametrize("output", ["json", "csv", "yaml"])
def test_chosen_fields_in_a_format_for_programs(run, output):
    text = run("group", "list", *AT, "--columns", "group,queues", "--sort", "queues", "-o", output).stdout
    if output == "csv":
        titles, *rows = [line.split(",") for line in text.splitlines()]
        rows = [dict(zip(titles, row, strict=True)) for row in rows]
    else:
        rows = yaml.safe_load(text)

    assert {tuple(row) for row in rows} == {("group", "queues")}
    queues = [int(row["queues"]) for row in rows]
    assert queues == sorted(queues)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--columns", "grup"), "There is no column grup here. The columns are health, "),
        (("--columns", "grup", "-o", "csv"), "There is no field grup: did you mean group?"),
        (("--sort", "-que"), "There is no field que: did you mean queues?"),
        (("--sort", "incidents"), "Rows can't be sorted by incidents: its values have no order."),
    ],
)
def test_a_column_that_does_not_exist_is_one_sentence(run, options, sentence):
    assert str(run("group", "list", *AT, *options).exception).startswith(sentence)


@pytest.mark.parametrize("question", ["group list", "group assignments g", "incident list --unfold", "client list g"])
def test_at_80_columns_words_are_whole_and_hidden_columns_counted(run, question):
    whole, narrow = (run(*question.split(), *AT, "-o", output, width=80) for output in ("wide", "table"))
    words = set(whole.stdout.split())

    assert [line for line in narrow.stdout.splitlines() if len(line) > 80] == []
    assert set(narrow.stdout.split()) <= words
    titles = [re.split(r"\s{2,}", ran.stdout.splitlines()[0]) for ran in (whole, narrow)]
    hidden = len(titles[0]) - len(titles[1])
    assert f"{hidden} column{'s' * (hidden > 1)} hidden (-o wide)" in narrow.stderr
    assert "hidden" not in whole.stderr


def test_lag_over_time_of_each_topic(run):
    rows = json.loads(run("group", "lag", "g", "--until", AT[1], "-o", "json").stdout)
    table = run("group", "lag", "g", "--until", AT[1]).stdout.splitlines()

    assert {row["topic"] for row in rows} == {line.split()[0] for line in table[1:-1]}
    assert re.fullmatch(r"[▁▂▃▄▅▆▇█·]+", table[1].split()[1])


def test_a_sparkline_shows_what_is_not_known_and_what_is_not_zero():
    assert sparkline([0, 1, 50, 100, None]) == "▁▂▅█·"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([None]) == "·"


def test_the_largest_of_lists_is_warned_about(run):
    of_lists = run("sql", "SELECT max(p.lag) FROM queue_progress p")
    of_rows = run("sql", "SELECT max(o.lag) FROM queue_observations o")

    assert "max() compares whole lists. Ask queue_observations" in of_lists.stderr
    assert of_rows.stderr == ""


def test_a_wrong_command_line_is_one_sentence_as_all_errors_are(run):
    ended = run("group", "list", "--colums", "x")

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: No such option: --colums")
    assert ended.stderr.count("\n") == 1


def test_a_group_is_named_by_g_in_every_question_about_one(run):
    for question in ("group show", "group assignments", "group rebalances", "group lag", "client list", "allocate"):
        assert (
            run(*question.split(), "-g", "g", *([] if question in {"group rebalances", "group lag"} else AT)).exit_code
            == 0
        )
