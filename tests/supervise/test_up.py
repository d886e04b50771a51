"""`rebalance-watch up` with the real processes over a file log, and why it does not start."""

import json
import os
import re
import signal
import socket
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from streaming.base.errors import SettingsError, UserError
from streaming.cli.main import app
from streaming.lab.servers import free_port
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from tests.live.commands import Command, said
from tests.support.folding import folded
from tests.support.processes import command_of, descendants, parents
from tests.support.tables import append, make_tables
from tests.support.telemetry import telemetry
from tests.support.waiting import until

PARTITIONS = 2
ROUTES = '[[routes]]\nchannels = ["ops"]\n[channels.ops]\nkind = "webhook"\nurl = "http://127.0.0.1:1"\n'


@pytest.fixture
def ports():
    return {name: free_port() for name in ("up", "web", "run", "maintain", "alert")}


@pytest.fixture
def settings(tmp_path, ports):
    """Of `up` and of all that it runs."""
    (tmp_path / "alerts.toml").write_text(ROUTES)
    settings = {"RUNTIME__ROOT": tmp_path, "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS}
    settings |= {"WEB__PORT": ports["web"], "ALERTS__FILE": tmp_path / "alerts.toml", "JOB__TRIGGER_SECONDS": 10}
    return settings | {f"HEALTH__{name.upper()}": ports[name] for name in ("up", "run", "maintain", "alert")}


def answer(port, path):
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60)
    except httpx.TransportError:
        return None


def wait_for_answer(port, path, holds=lambda got: got.status_code == 200, seconds=400):
    def is_answered():
        got = answer(port, path)
        return got if got is not None and holds(got) else None

    return until(is_answered, seconds, lambda: (got := answer(port, path)) and got.text)


def reasons(port):
    """Return why each task is not ready, by its name; empty for those that are."""
    return {task["task"]: task["reason"] for task in answer(port, "/readyz").json()["tasks"]}


def test_one_command_runs_all_starts_again_what_dies_and_ends_all(settings, ports, tmp_path):
    """All but the job, whose tables are made while the others wait for them."""
    with Command(tmp_path, settings, "up", "--without", "collect", "--without", "run") as up:
        up.start()
        up.wait_for("alert     | waiting for the tables", 400)
        assert not wait_for_answer(ports["up"], "/readyz", lambda got: got.status_code == 503).json()["ready"]
        append(make_tables(tmp_path / "made"), folded(telemetry(4, 20)))
        (tmp_path / "made").rename(tmp_path / "tables")
        check_all(up, ports, "maintain", {"maintain", "alert", "dashboard"})


def test_a_job_that_has_no_log_yet_is_named_and_tried_again(settings, tmp_path):
    """The job is started as it is in production, and refuses before it starts Spark."""
    with Command(tmp_path, settings, "up", "--only", "run") as up:
        up.start()
        up.wait_for("run       | error: There is no telemetry log at ", 400)
        up.wait_for("run       | ended with exit code 1; starting it again in 1 s", 200)
        up.interrupt()
    assert "Traceback" not in up.said()


@pytest.mark.spark
@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("dies", ["maintain", "run"])
def test_with_a_job_of_its_own_it_is_the_same(settings_in, settings, ports, tmp_path, dies):
    """Without the collector, over a log that is there."""
    settings_in(tmp_path)
    with FilePublisher(tmp_path / "log", PARTITIONS, roll_seconds=1e9) as publisher:
        publish(publisher, list(telemetry(4, 20)))
    with Command(tmp_path, settings, "up", "--without", "collect") as up:
        up.start()
        assert not wait_for_answer(ports["up"], "/readyz", lambda got: got.status_code == 503).json()["ready"]
        check_all(up, ports, dies, {"run", "maintain", "alert", "dashboard"})
        assert re.search(r"run       \| stopped\n", up.said())
    assert up.said().count("run       | processing the log") == (2 if dies == "run" else 1)


def check_all(up, ports, dies, names):
    """Check that all run, that the one that is killed is started again, and that all end."""
    groups = wait_for_answer(ports["web"], "/api/v1/groups", lambda got: got.status_code == 200 and got.json())
    assert len(groups.json()) == 4
    for name in names:
        assert wait_for_answer(ports["web" if name == "dashboard" else name], "/readyz").json()["ready"]
    assert "alert     | waiting for the tables" in up.said()
    assert {task.partition(":")[0] for task in reasons(ports["up"])} == names
    wait_for_answer(ports["up"], "/readyz")

    children = [pid for pid, parent in parents().items() if parent == up.pid]
    [process] = [pid for pid in children if dies.encode() in (said := command_of(pid)) and b"alert" not in said]
    os.kill(process, signal.SIGKILL)
    up.wait_for(f"{dies:<9} | was killed by SIGKILL; starting it again in 1 s", 200)
    assert reasons(ports["up"])[dies] == f"{dies} was killed by SIGKILL"
    wait_for_answer(ports["up"], "/readyz")

    children = descendants(up.pid)
    assert up.interrupt() == 0
    assert up.said().endswith("stopped\n")
    assert "Traceback" not in up.said()

    def left():
        return [command_of(pid) for pid in children if Path(f"/proc/{pid}").exists()]

    until(lambda: not left(), 200, left)  # Spark's JVM and workers end when they notice that the job has


def test_a_wrong_setting_starts_nothing(monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_JOB__CORES", "0")
    error = CliRunner().invoke(app, ["up"]).exception
    assert isinstance(error, SettingsError)
    assert "Setting job.cores" in str(error)


def test_nothing_left_to_run_is_one_sentence():
    error = CliRunner().invoke(app, ["up", "--only", "run", "--without", "run"]).exception
    assert type(error) is UserError
    assert "Nothing is left to run" in str(error)


def test_a_port_of_the_probe_that_is_in_use_starts_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = {"RUNTIME__ROOT": tmp_path, "HEALTH__UP": taken.getsockname()[1]}
        refusal = said(settings, "up", "--only", "maintain")
    assert re.fullmatch(r"Cannot listen on .*: set another port in \[health\]\.", refusal)


@pytest.mark.prove  # in short in the next one, without the dashboard
def test_in_json_the_lines_of_all_processes_are_json(tmp_path, ports):
    settings = {"RUNTIME__ROOT": tmp_path, "LOG__FORMAT": "json", "WEB__PORT": ports["web"]}
    with Command(tmp_path, settings, "up", "--only", "dashboard", "--only", "maintain") as up:
        up.start()
        up.wait_for("Dashboard: ", 200)
        up.wait_for("waiting for the tables", 200)
        assert up.interrupt() == 0
    lines = [json.loads(line) for line in up.said().splitlines()]
    assert {line["process"] for line in lines} == {"up", "dashboard", "maintain"}
    assert lines[-1]["event"] == "stopped"


def test_what_keeps_ending_or_hangs_is_named_and_stops_nothing_else(tmp_path, ports):
    """It is said in the log, also in JSON, by the probe, and by the exit code at the end."""
    settings = {"RUNTIME__ROOT": tmp_path, "LOG__FORMAT": "json", "SOURCE__KIND": "files", "HEALTH__UP": ports["up"]}
    settings["COLLECTOR__NAME_SERVERS"] = '["127.0.0.1:1"]'
    with Command(tmp_path, settings, "up", "--only", "collect", "--only", "maintain") as up:
        up.start()
        up.wait_for("The others run on; starting it again", 400)
        wait_for_answer(ports["up"], "/readyz", lambda got: "collect ended" in got.text and "maintain: " in got.text)
        why = reasons(ports["up"])["collect"]
        assert why.startswith("collect ended 5 times within 10 minutes")
        assert "No name server of 127.0.0.1:1 answers" in why
        [maintain] = [pid for pid, parent in parents().items() if parent == up.pid and b"maintain" in command_of(pid)]
        os.kill(maintain, signal.SIGSTOP)
        try:
            # Its thread that answers may run on for a moment after the signal is sent.
            silent = until(lambda: reasons(ports["up"]).get("maintain"), 200)
            assert silent == "maintain has not answered within 2 s"
            assert answer(ports["up"], "/healthz").json() == {"alive": True}
        finally:
            os.kill(maintain, signal.SIGCONT)
        assert up.interrupt() == 1
    *lines, last = map(json.loads, up.said().splitlines())
    assert {line["process"] for line in (*lines, last)} >= {"up", "collect", "maintain"}
    assert last["level"] == "error"
    assert last["event"] == why
