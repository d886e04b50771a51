"""The audit trail of commands: what was done, and what failed, with the system's user."""

import getpass

import pytest
from typer.testing import CliRunner

from streaming.base.errors import UserError
from streaming.cli.main import app
from tests.support.tables import read_rows
from tests.support.world import example

STUCK = "ordered_queue_stuck-orders-0"


@pytest.fixture
def settings(settings_in, tmp_path, monkeypatch):
    made = settings_in(tmp_path)
    example().write(made.runtime.tables)
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(made.runtime.root))
    return made


def ran(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_each_action_of_a_command_is_a_row_with_the_user_of_the_system(settings):
    ran("alert", "ack", "ordered", "--reason", "on it")
    silence = ran("alert", "silence", "add", "--group", "pay-*", "--for", "2h", "--reason", "upgrade").split()[1]
    ran("alert", "silence", "end", silence)
    ran("incident", "close", "ordered", "--reason", "queue removed", "--by", "ann")
    ran("incident", "reopen", "ordered")

    rows = sorted(read_rows(settings.runtime.tables, "operator_actions"), key=lambda row: row["time"])
    user = getpass.getuser()
    assert {(row["subject"], row["source"], row["result"], row["message"]) for row in rows} == {
        (user, "CLI", "DONE", None)
    }
    assert [(row["action"], row["name"], row["target"], row["detail"]) for row in rows] == [
        ("ACKNOWLEDGE", user, STUCK, "on it"),
        ("SILENCE", user, "group=pay-*", f"{silence} for 2h: upgrade"),
        ("UNSILENCE", user, silence, ""),
        ("CLOSE", "ann", STUCK, "queue removed"),
        ("REOPEN", user, STUCK, ""),
    ]


@pytest.mark.parametrize(
    ("command", "action", "says"),
    [
        (["alert", "ack", "nothing"], "ACKNOWLEDGE", "incident list --all"),
        (["alert", "silence", "end", "nothing"], "UNSILENCE", "Unknown or expired silence nothing"),
        (["incident", "close", "nothing", "--reason", "x"], "CLOSE", "incident list --all"),
    ],
)
def test_what_could_not_be_done_is_a_row_with_the_reason(settings, command, action, says):
    with pytest.raises(UserError, match=says) as failed:
        ran(*command)
    [row] = read_rows(settings.runtime.tables, "operator_actions")
    assert (row["action"], row["target"], row["result"], row["message"]) == (
        action,
        "nothing",
        "FAILED",
        str(failed.value),
    )
    assert read_rows(settings.runtime.tables, "alert_controls") == []


def test_without_the_table_nothing_is_done(settings):
    for part in sorted((settings.runtime.tables / "operator_actions").rglob("*"), reverse=True):
        part.rmdir() if part.is_dir() else part.unlink()
    (settings.runtime.tables / "operator_actions").rmdir()
    with pytest.raises(UserError, match=r"operator_actions is missing in .*, so nothing was done: restart"):
        ran("alert", "ack", "ordered")
    assert read_rows(settings.runtime.tables, "alert_controls") == []
