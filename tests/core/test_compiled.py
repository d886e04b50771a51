"""The compiled core concludes what the core in Python concludes: the same rows, and the same state to the byte."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.installed import ROOT

COMPILED = ROOT / ".venv/compiled"
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="cc is missing: conf/apt.txt")


@pytest.fixture(scope="module")
def compiled():
    subprocess.run(["make", "--silent", ".venv/compiled/.ready"], cwd=ROOT, check=True, capture_output=True)
    return COMPILED


def digests(core, *arguments: str) -> subprocess.Popen[str]:
    """Start the program that concludes, with the core in this folder."""
    program = [sys.executable, "-P", "-m", "tests.support.digests", *arguments]
    path = {**os.environ, "PYTHONPATH": f"{core}{os.pathsep}{ROOT}"}
    return subprocess.Popen(program, env=path, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("seeds", "each"), [("2", "12"), pytest.param("500", "1", marks=pytest.mark.prove)])
def test_both_conclude_the_same(compiled, seeds, each):
    with digests(compiled, seeds, each) as fast, digests(ROOT, seeds, each) as slow:
        said = [json.loads(process.communicate()[0]) for process in (fast, slow)]
    assert [one.pop("core") for one in said] == ["so", "py"]
    assert len(said[0]) > 10
    assert said[0] == said[1]
