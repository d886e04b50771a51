"""How the program is installed where it runs for years: `make install`, systemd units, a container."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from streaming.base.settings import load_settings
from streaming.cli.main import app

ROOT = Path(__file__).parent.parent
UNITS = ROOT / "conf" / "systemd"
COMMON = UNITS / "rebalance-watch-.service.d" / "common.conf"
CONTAINER = ROOT / "conf" / "container" / "Containerfile"
PREFIX = "/opt/rebalance-watch"
SETTING = re.compile(r"(REBALANCE_WATCH_\w+)=(\S+)")


def services() -> dict[str, str]:
    """The arguments of each service's program."""
    return {
        unit.stem: re.search(rf"^ExecStart={PREFIX}/bin/rebalance-watch (.*)$", unit.read_text(), re.MULTILINE)[1]
        for unit in sorted(UNITS.glob("*.service"))
    }


def containers() -> dict[str, dict]:
    """The containers of the program in the compose file, by service."""
    composed = yaml.safe_load(CONTAINER.with_name("compose.yaml").read_text())
    return {name: one for name, one in composed["services"].items() if one["image"] == "rebalance-watch"}


def test_systemd_accepts_the_units(tmp_path):
    """It only warns of an unknown key, so nothing may be printed."""
    shutil.copytree(UNITS, tmp_path / "units")
    units = [*(tmp_path / "units").glob("*.service"), *(tmp_path / "units").glob("*.target")]
    for unit in units:
        unit.write_text(unit.read_text().replace(f"{PREFIX}/bin/rebalance-watch", shutil.which("true")))

    verify = ["systemd-analyze", "verify", "--man=no", *units]
    done = subprocess.run(verify, check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("service", services())
def test_a_service_runs_a_command_that_exists(service):
    arguments = services()[service].split()

    assert CliRunner().invoke(app, [*arguments, "--help"]).exit_code == 0


def test_every_long_running_process_has_a_service_and_a_container():
    processes = ["alert run", "collect poll", "dashboard", "maintain --every 10m", "run"]

    assert sorted(services().values()) == processes
    assert sorted(" ".join(one["command"]) for one in containers().values()) == sorted([*processes, "topic create"])


@pytest.mark.parametrize("name", ["alert", "dashboard", "maintain", "poll", "run", "topic"])
def test_a_container_gets_settings_that_exist(name, monkeypatch):
    for variable, value in containers()[name]["environment"].items():
        monkeypatch.setenv(variable, value if "$" not in value else "a-token-of-some-length")

    assert load_settings().collector.name_servers == ("namesrv:9876",)


@pytest.mark.parametrize("file", [COMMON, CONTAINER], ids=["systemd", "container"])
def test_the_environment_of_an_installation_is_made_of_settings(file, monkeypatch):
    named = {name: value for name, value in SETTING.findall(file.read_text()) if "<" not in name}
    for name, value in named.items():
        monkeypatch.setenv(name, value)

    runtime = load_settings().runtime

    assert named
    assert (str(runtime.root), str(runtime.jars)) == ("/var/lib/rebalance-watch", f"{PREFIX}/jars")


def test_the_container_has_every_file_of_which_the_program_is_made():
    kept = {line[1:] for line in CONTAINER.with_suffix(".dockerignore").read_text().splitlines() if line[:1] == "!"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    packages = {name.removesuffix("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert kept == packages | {"Makefile", "pyproject.toml", project["project"]["readme"], "LICENSE"}


@pytest.mark.prove
def test_an_installed_program_runs_the_demo(tmp_path):
    prefix = tmp_path / "installed"
    subprocess.run(["make", "install", f"PREFIX={prefix}"], cwd=ROOT, check=True)
    shown = subprocess.run([prefix / "bin" / "pip", "list"], capture_output=True, text=True, check=True).stdout

    assert "pytest" not in shown
    subprocess.run([prefix / "bin" / "rebalance-watch", "demo"], cwd=tmp_path, check=True)
