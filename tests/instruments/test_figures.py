"""Benches and proofs keep their last figures, each with its day and commit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instruments.figures import BENCHES, PROOFS, keep

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benches(tmp_path):
    return BENCHES._replace(path=tmp_path / "FIGURES.md")


@pytest.fixture
def proofs(tmp_path):
    return PROOFS._replace(path=tmp_path / "PROVED.md")


def changes(table):
    return [list(column.cells) for column in table.columns]


def test_a_figure_stands_beside_the_last_one_and_replaces_it(benches):
    first = changes(keep("job", {"1,000 groups, events/s": 4_000.0, "of the pass": 0.2}, file=benches))
    assert first[:4] == [["1,000 groups, events/s", "of the pass"], ["4,000", "0.2"], ["", ""], ["", ""]]
    keep("core", {"calls": 100}, file=benches)
    second = changes(keep("job", {"1,000 groups, events/s": 5_000.0}, file=benches))
    assert second[:4] == [["1,000 groups, events/s"], ["5,000"], ["4,000"], ["+25%"]]
    third = changes(keep("job", {"of the pass": 0.1, "1,000 groups, events/s": 5_500.0}, file=benches, writes=False))
    assert third[2:4] == [["0.2", "5,000"], ["-50%", "+10%"]]
    assert changes(keep("job", {"1,000 groups, events/s": 5_000.0}, file=benches))[3] == ["+0%"]
    assert changes(keep("core", {"calls": 110}, file=benches))[2:4] == [["100"], ["+10%"]]


@pytest.mark.parametrize("file", [BENCHES, PROOFS], ids=["benches", "proofs"])
def test_the_file_is_what_its_figures_give(file, tmp_path):
    copy = file._replace(path=tmp_path / "copy.md")
    copy.write(file.read())
    assert copy.path.read_text("utf-8") == file.path.read_text("utf-8")
    figures = file.read()
    assert len({(figure.instrument, figure.name) for figure in figures}) == len(figures) > 50


KEEPS = """
from pathlib import Path
from tests.instruments.figures import PROOFS
from tests.instruments.proofs import ProofKeeper

def pytest_configure(config):
    file = PROOFS._replace(path=Path(__file__).with_name("PROVED.md"))
    hasattr(config, "workerinput") or config.pluginmanager.register(ProofKeeper(file))
"""
TESTS = """
import pytest

pytestmark = pytest.mark.xdist_group("kills")

def test_kills(record_property):
    record_property("kills", 24)

@pytest.mark.parametrize("given", ["a|b", "", ""])
def test_some(given):
    assert given == ""

def test_later():
    pytest.skip("no server")
"""


@pytest.mark.parametrize("processes", [(), ("--numprocesses=1", "--dist=loadgroup")], ids=["alone", "in groups"])
def test_a_long_test_keeps_its_result_and_figures(tmp_path, proofs, processes):
    (tmp_path / "conftest.py").write_text(KEEPS)
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", tmp_path, tmp_path, *processes]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, check=False)
    kept = {(figure.instrument, figure.name): figure.value for figure in proofs.read()}
    assert kept.keys() == {("test_it.py", name) for name in ("test_kills", "test_kills: kills", "test_some")}
    assert kept["test_it.py", "test_kills: kills"] == "24"
    assert kept["test_it.py", "test_some"].startswith("2 passed, 1 failed in ")


def test_the_last_result_takes_the_place_of_the_former(proofs):
    proofs.keep("live/test_alerts.py", {"kills": "3 of a | b", "rows": "1"})
    proofs.keep("live/test_alerts.py", {"kills": "50"})
    assert [(figure.name, figure.value) for figure in proofs.read()] == [("kills", "50"), ("rows", "1")]
