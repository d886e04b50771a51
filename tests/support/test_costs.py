"""The plugin measures what a test computes, in whichever process, and holds the budgets."""

import csv
import os
import re
import subprocess
import sys
import tomllib

import pytest

from tests.support import costs
from tests.support.costs import BUDGETS, DEAR_SECONDS, NOISE, Cost, Costs, Measuring, folder_of

TESTS = BUDGETS.parents[1]
SPINS = "import time\nwhile time.process_time() < 0.4: pass\n"
SUITE = f"""
import os, subprocess, sys, time
from pathlib import Path
import pytest

SPIN = [sys.executable, "-c", {SPINS!r}]

@pytest.mark.xdist_group("first")
def test_own():
    until = time.process_time() + 0.4
    while time.process_time() < until: pass

@pytest.mark.xdist_group("second")
def test_child():
    subprocess.run(SPIN, check=True)

@pytest.fixture
def daemon(tmp_path):
    pid = tmp_path / "pid"
    forks = "import os, sys, time\\nif not os.fork():\\n open(sys.argv[1], 'w').write(str(os.getpid()))\\n"
    spins = " while time.process_time() < 0.4: pass\\n open(sys.argv[1] + '.spun', 'w')\\n time.sleep(60)"
    subprocess.run([sys.executable, "-c", forks + spins, pid], check=True, stdout=subprocess.DEVNULL)
    while not Path(f"{{pid}}.spun").exists(): time.sleep(0.05)
    yield
    os.kill(int(pid.read_text()), 9)

@pytest.mark.xdist_group("second")
def test_daemon(daemon):
    time.sleep(0.1)
"""
CONFTEST = """
from tests.support import costs
pytest_addoption = costs.add_option
pytest_configure = costs.register
"""


@pytest.mark.parametrize(("processes", "options"), [(0, ["--hold-costs"]), (2, [])], ids=["held", "said"])
def test_own_time_children_and_daemons_are_measured(tmp_path, processes, options):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "test_it.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    many = [f"--numprocesses={processes}", "--dist=loadgroup"] if processes else []
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", tmp_path, folder]
    ran = subprocess.run(
        [*command, *many, "--costs", tmp_path / "costs" / "list.tsv", *options, "-p", "no:cacheprovider"],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    with (tmp_path / "costs" / "list.tsv").open() as file:
        rows = {(row["kind"], row["name"]): row for row in csv.DictReader(file, delimiter="\t")}
    own, child, daemon = (rows["test", f"new/test_it.py::test_{name}"] for name in ("own", "child", "daemon"))
    assert float(own["own"]) > 0.35 > float(own["started"])
    assert float(child["started"]) > 0.35 > float(child["own"])
    assert float(daemon["started"]) > 0.35
    assert float(rows["group", "second"]["started"]) > 0.75
    assert float(rows["all", ""]["own"]) > float(rows["group", "(imports and collection)"]["own"]) > 0
    assert "the dearest of 2 groups" in ran.stdout
    assert re.search(r"tests/new costs \d processor seconds; costs.toml allows 0", ran.stdout)
    assert ran.returncode == len(options)


def over(tmp_path, tests: dict[str, float]) -> list[str]:
    """Return what is said of tests that have taken so many processor seconds."""
    budgets = tmp_path / "budgets.toml"
    budgets.write_text('[folders]\ncore = 100\nlive = 100\nweb = 9\n[dear]\n"tests/live/test_a.py::test_dear" = "it"\n')
    measured = Costs(None, tmp_path / "list", budgets)
    measured.tests = {test: ("", Cost(own=seconds)) for test, seconds in tests.items()}
    return measured.over()


DEAR = "tests/live/test_a.py::test_dear[case]"
OTHER = "tests/core/test_a.py::test_other"
LIMIT = NOISE * DEAR_SECONDS


def test_a_dear_test_must_be_named(tmp_path):
    assert over(tmp_path, {DEAR: 90, OTHER: LIMIT - 1}) == []
    (said,) = over(tmp_path, {DEAR: 90, OTHER: LIMIT + 1})
    assert said.startswith(f"{OTHER} costs 21 processor seconds, 0 of them in what it started: make it cheaper")


def test_a_folder_must_stay_within_its_budget(tmp_path):
    cheap = {f"{OTHER}[{case}]": 10.0 for case in range(20)} | {DEAR: 90, "tests/web/test_a.py::test_a": 9}
    assert over(tmp_path, cheap) == []
    (said,) = over(tmp_path, cheap | {f"{OTHER}[last]": 1.0})
    assert said == "tests/core costs 201 processor seconds; costs.toml allows 100"


def test_a_slow_machine_is_over_nothing(tmp_path):
    slow = {f"{OTHER}[{case}]": 40.0 for case in range(20)} | {DEAR: 400, "tests/web/test_a.py::test_a": 36}
    assert over(tmp_path, slow) == []


def test_a_look_that_misses_an_ending_process_charges_it_once(monkeypatch):
    measuring, looks = Measuring(None), iter([30.0, 4.0, 31.0])
    monkeypatch.setattr(costs, "_QUICK_SECONDS", -1.0)
    monkeypatch.setattr(measuring._meter, "read", lambda: Cost(started=next(looks)))
    assert [measuring._spent().started for _ in range(3)] == [30.0, 0.0, 1.0]


def _names() -> set[str]:
    return {
        f"tests/{path.relative_to(TESTS).as_posix()}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }


def test_each_named_test_exists_and_each_folder_has_a_budget():
    budgets = tomllib.loads(BUDGETS.read_text("utf-8"))
    names = _names()
    assert set(budgets["dear"]) <= names
    assert all(len(proves) > 10 for proves in budgets["dear"].values())
    folders = {folder_of(name, budgets["folders"]) for name in names}
    assert folders == set(budgets["folders"])
