"""An installation without the extra `job`: what needs no Spark works, from a wheel in its own environment."""

import json
import re
import subprocess
from typing import NamedTuple

import httpx
import pytest

from tests.live.commands import Command
from tests.support.asked import END
from tests.support.installed import build_wheel, install, required
from tests.support.trace import START

pytestmark = pytest.mark.xdist_group("asked")  # one process makes the installation, and the tables, for all

IN_ONE_PROCESS = """
import contextlib, io, json, sys
from streaming.cli.main import run
ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    output, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
        code = run()
    ended.append((code, output.getvalue(), error.getvalue()))
print(json.dumps(ended))
"""
"""Runs commands one after the other: half of a command's time is the start of its process."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def program(wheel, tmp_path_factory):
    """The installed command."""
    return install(wheel, tmp_path_factory.mktemp("without") / "venv", required("rebalance-watch")) / "rebalance-watch"


WITHOUT_SPARK = {
    " ".join(arguments): arguments
    for arguments in (
        ["group", "list"],
        ["group", "show", "g"],
        ["group", "rebalances", "g"],
        ["group", "diff", "g", "--from", str(START), "--to", str(END)],
        ["incident", "list", "--all"],
        ["who-owned", "g", "Orders", "broker-a:0", "--at", str(END)],
        ["sql", "SELECT count(*) FROM anomalies"],
        ["allocate", "g", "--join", "2", "--at", str(END)],
        ["alert", "status"],
        ["config", "check"],
        ["maintain", "--dry-run"],
        ["backtest", "--since", str(START)],
    )
}
WITH_SPARK = {
    " ".join(arguments): arguments
    for arguments in (["run"], ["demo"], ["rebuild"], ["job", "pack"], ["lab", "up"], ["hook", "build"])
}


class Ended(NamedTuple):
    """The end of a command."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def ended(program, asked, tmp_path_factory):
    """Return how each command ended, over tables that are there."""
    named = WITHOUT_SPARK | WITH_SPARK
    commands = [["--root", str(asked.parent), *arguments] for arguments in named.values()]
    process = subprocess.run(
        [program.with_name("python"), "-c", IN_ONE_PROCESS, json.dumps(commands)],
        cwd=tmp_path_factory.mktemp("work"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return {name: Ended(*one) for name, one in zip(named, json.loads(process.stdout), strict=True)}


@pytest.fixture
def run(program, asked, tmp_path):
    """Run the installed command over tables that are there."""

    def run_command(*arguments):
        command = [program, "--root", asked.parent, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run_command


def test_the_command_starts(run):
    assert run("--version").stdout.startswith("rebalance-watch ")


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_what_needs_no_spark_works(ended, name):
    one = ended[name]
    assert one.returncode == (3 if name == "alert status" else 0), one.stderr  # no `alert run` works here


@pytest.mark.parametrize("name", WITH_SPARK)
def test_what_needs_spark_says_what_to_install(ended, name):
    process = ended[name]
    assert process.returncode == 2
    assert re.fullmatch(
        r"error: This command needs (py4j|pyspark|pandas|protobuf|jpype), which is not installed: "
        r"install rebalance-watch\[job\] instead of rebalance-watch\.\n",
        process.stderr,
    )


def test_what_needs_the_protocol_says_what_to_install(run):
    ended = run("mcp")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "error: This command needs mcp, which is not installed: install rebalance-watch[mcp] instead of "
        "rebalance-watch.\n"
    )


def test_doctor_names_what_the_job_needs(run):
    ended = run("doctor", "--format", "json")
    missing = {check["part"]: check["mend"] for check in json.loads(ended.stdout) if check["state"] == "missing"}
    assert ended.returncode == 3
    assert {"pyspark", "delta-spark", "pandas", "protobuf", "great-expectations", "JPype1"} <= missing.keys()
    assert "install rebalance-watch[job]" in missing["pyspark"]


def test_the_dashboard_answers(program, asked, tmp_path):
    settings, python = {"RUNTIME__ROOT": asked.parent}, program.with_name("python")
    with Command(tmp_path, settings, "dashboard", "--port", "0", program=(program,), python=python) as dashboard:
        dashboard.start().wait_for("Dashboard: ", 60)
        address = re.search(r"Dashboard: (\S+)", dashboard.said())[1]
        for path in ("/", "/api/v1/groups", "/metrics"):
            assert httpx.get(address + path, timeout=60).status_code == 200
        refused = httpx.post(address + "/mcp", timeout=60)
        assert (refused.status_code, "rebalance-watch[mcp]" in refused.text) == (501, True)
