"""`rebalance-watch config check`: what is wrong, and where each setting comes from."""

import json

import pytest
from typer.testing import CliRunner

from streaming.base.settings import conf_file
from streaming.base.terminal import CONFIG_VARIABLE
from streaming.cli.main import app


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Check with a file of settings; gives what the command ended with."""
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))

    def check(content, *arguments):
        file = tmp_path / "mine.toml"
        file.write_text(content)
        monkeypatch.setenv(CONFIG_VARIABLE, str(file))
        return CliRunner().invoke(app, ["config", "check", *arguments])

    return check


def test_each_setting_is_shown_with_its_source(check, tmp_path, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_JOB__CORES", "3")
    ended = check('[source]\ntopic = "mine"\n[job]\ncores = 4\n', "--format", "json")
    assert ended.exit_code == 0, ended.output
    checked = json.loads(ended.stdout)
    assert (checked["ok"], checked["errors"]) == (True, [])
    by_name = {one["name"]: (one["value"], one["source"]) for one in checked["settings"]}
    assert by_name["job.cores"] == (3, "environment")
    assert by_name["source.topic"] == ("mine", str(tmp_path / "mine.toml"))
    assert by_name["source.partitions"] == (8, "default")
    assert by_name["lab.groups.orders.queues"] == (8, "default")


def test_secrets_are_masked(check, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_ROCKETMQ__SECRET_KEY", "hunter2")
    ended = check(f'[web]\ntoken = "{"hunter" * 3}"\n')
    assert ended.exit_code == 0, ended.output
    assert "hunter" not in ended.output
    [line] = [line for line in ended.output.splitlines() if line.startswith("rocketmq.secret_key ")]
    assert line.split() == ["rocketmq.secret_key", '"***"', "environment"]
    assert ended.output.endswith("ok\n")


def test_everything_that_is_wrong_is_said_at_once(check, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("stuck_after = 'soon'\n")
    ended = check('[source]\nkind = "pulsar"\n[job]\ncores = 0\n', "--policy", str(policy))
    assert ended.exit_code == 2
    said = ended.stderr.splitlines()
    assert [line.split()[:3] for line in said] == [
        ["error:", "Setting", "source.kind:"], ["error:", "Setting", "job.cores:"], ["error:", "The", "policy"],
    ]  # fmt: skip
    assert "ok" not in ended.stdout


@pytest.mark.parametrize(
    ("content", "alerts", "sentence"),
    [
        ('[web]\nhost = "0.0.0.0"\n', "", "set a token of at least 16 characters"),
        ("", '[[routes]]\nchannels = ["ops"]\n', "route 1 refers to channel 'ops'"),
        ("", '[channels.ops]\nkind = "webhook"\nurl = {env = "NOT_SET"}\n', "the environment variable NOT_SET"),
        ("", 'templates = "nowhere"\n', "nowhere does not exist"),
        ('[otlp]\nendpoint = "http://127.0.0.1:1"\nheaders = "Authorization"\n', "", "otlp.headers can't be sent"),
    ],
)
def test_what_a_command_would_refuse_later_is_found_now(check, tmp_path, content, alerts, sentence):
    (tmp_path / "alerts.toml").write_text(alerts)
    ended = check(f'{content}[alerts]\nfile = "{tmp_path / "alerts.toml"}"\n')
    assert ended.exit_code == 2
    [error] = ended.stderr.splitlines()
    assert sentence in error


def test_the_thresholds_of_a_policy_file_are_shown(check, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text(conf_file("policy.toml").read_text().replace("stuck_after = 60_000", "stuck_after = 50_000"))
    ended = check("", "--policy", str(policy), "--format", "json")
    found = {one["name"]: one for one in json.loads(ended.stdout)["settings"]}
    assert found["policy.stuck_after"] == {"name": "policy.stuck_after", "value": 50_000, "source": str(policy)}
