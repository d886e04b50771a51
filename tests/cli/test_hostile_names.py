"""Names that anybody may give to a group, topic or client: they harm no terminal, shell or spreadsheet of who asks."""

import csv
import io
import json
import re
import shlex
from contextlib import nullcontext

import msgspec
import pytest
from typer.testing import CliRunner

from rebalance_model.observe.effects import AssignmentChange, GroupSnapshot, IncidentTransition
from streaming.base.lines import print_error, start_lines
from streaming.cli import main, output
from tests.support.asked import AMID, Asked, everything, write
from tests.support.tables import append, make_tables

GROUP = "=HYPERLINK(1);reboot\x1b]0;x\a\x9b31m"
CLIENT = "@SUM(1)$(reboot)\x1b[2J"
TOPIC = "-1+1|x"
NUMBER = re.compile(r"-?[0-9.]+")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Tables of one group whose names are hostile."""
    root = tmp_path_factory.mktemp("hostile")
    rows = [
        msgspec.structs.replace(row, group=GROUP, cluster="+c", **_hostile(row))
        for row in everything()
        if row.group == "h"
    ]
    append(make_tables(root / "tables"), rows)
    return root


def _hostile(row):
    names = {"topic": TOPIC, "client_id": CLIENT, "owner": CLIENT}
    return {name: value for name, value in names.items() if isinstance(getattr(row, name, None), str)}


@pytest.fixture(scope="module")
def opened(root):
    with Asked(root / "tables") as model:
        yield model


@pytest.fixture
def ask(root, opened, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(root))
    monkeypatch.setattr(output, "tables", lambda: nullcontext(opened))

    def run(*arguments):
        return CliRunner().invoke(main.app, arguments, catch_exceptions=False).stdout

    return run


@pytest.fixture
def incident_id():
    return next(row.incident_id for row in everything() if row.group == "h" and isinstance(row, IncidentTransition))


COMMANDS = {
    "groups": ("group", "list"),
    "group": ("group", "show", GROUP),
    "assignments": ("group", "assignments", GROUP),
    "rebalances": ("group", "rebalances", GROUP),
    "incidents": ("incident", "list", "--all"),
    "sql": ("sql", "SELECT q.group, q.owner, q.topic, -1 AS number, [q.owner] AS list FROM queue_state q"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("form", ["table", "csv"])
def test_nothing_that_is_printed_controls_a_terminal(ask, command, form):
    said = ask(*command, "--format", form)
    assert len(said.splitlines()) > 1
    assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_cell_of_csv_is_a_formula(ask, command):
    rows = list(csv.reader(io.StringIO(ask(*command, "--format", "csv"))))
    cells = [cell for row in rows for cell in row]
    assert any("reboot" in cell for cell in cells)
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@")) and not NUMBER.fullmatch(cell)] == []


def test_numbers_of_csv_stay_numbers(capsys):
    output.write_csv(["-n"], [(-1, -2.5, "-3", "+4.5e-6", None, {"a": ["\x9b"]}, "a=b", "-1+1")])
    header, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == ["'-n"]
    assert row == ["-1", "-2.5", "-3", "+4.5e-6", "", '{"a":["\\u009b"]}', "a=b", "'-1+1"]


def test_json_is_exact_and_controls_no_terminal_either(ask, monkeypatch, capsys):
    assert json.loads(ask("group", "list", "--format", "json"))[0]["group"] == GROUP
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.print_json({"name": GROUP})
    said = capsys.readouterr().out
    assert said.replace("\n", "").isprintable()
    assert json.loads(said) == {"name": GROUP}


def test_the_command_below_an_incident_names_the_group_for_a_shell(ask, incident_id):
    said = ask("incident", "show", incident_id)
    line = next(line for line in said.splitlines() if line.startswith("Group at that time: "))
    words = shlex.split(line.partition(": ")[2])
    assert words[:3] == ["rebalance-watch", "group", "show"]
    assert words[4:7] == ["--cluster", "+c", "--at"]
    assert len(words) == 8


def test_the_command_that_lists_rebalances_names_the_group_for_a_shell(ask):
    with pytest.raises(Exception, match=re.escape(r"`rebalance-watch group rebalances $'=HYPERLINK(1);reboot\x1b")):
        ask("group", "rebalances", GROUP, "--id", "zz")


def test_lines_of_a_process_do_not_control_a_terminal(capsys):
    start_lines("console", "run").info(f"refused {CLIENT}\nnext", client=CLIENT)
    print_error(f"unknown {CLIENT}")
    assert capsys.readouterr().err.splitlines() == [
        "refused @SUM(1)$(reboot)\\x1b[2J", "next", "error: unknown @SUM(1)$(reboot)\\x1b[2J",
    ]  # fmt: skip


def test_a_name_has_no_power_over_the_terminal(tmp_path, ask_at):
    """A client's id is what the client says it is."""
    evil = "\x1b[2J\x9b31m\nevil"
    write(tmp_path / "tables", tuple(
        msgspec.structs.replace(effect, members=(evil,)) if type(effect) is GroupSnapshot
        else msgspec.structs.replace(effect, client_id=evil) if type(effect) is AssignmentChange
        else msgspec.structs.replace(effect, client_id=evil, main_client_id=evil) if type(effect) is IncidentTransition
        else effect
        for effect in everything() if effect.group in {"g", "everyone"}
    ))  # fmt: skip
    for command in (
        ("group", "show", "everyone"),
        ("group", "show", "g"),
        ("group", "assignments", "g", "--at", str(AMID)),
        ("who-owned", "g", "Orders", "broker-a:0"),
        ("incident", "list", "--all"),
        ("sql", "SELECT a.client_id FROM anomalies a"),
    ):
        printed = ask_at(tmp_path, *command).stdout
        assert "evil" in printed or command[1] == "show"
        assert not {"\x1b", "\x9b"} & {*printed}
        assert all("evil" not in line[:4] for line in printed.splitlines())
