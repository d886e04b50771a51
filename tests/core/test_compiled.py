"""The compiled core concludes what the core in Python concludes: the same rows, and the same state to the byte."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.compiled import build, importing
from tests.support.installed import ROOT

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(shutil.which("cc") is None, reason="cc is missing: conf/apt.txt"),
]


def started(core, *arguments: str) -> subprocess.Popen[str]:
    """Start the program that concludes, with the core in this folder."""
    program = [sys.executable, "-m", "tests.support.digests", *arguments]
    return subprocess.Popen(program, env=os.environ | importing(core), stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("seeds", "each"), [("2", "12"), pytest.param("500", "1", marks=pytest.mark.prove)])
def test_both_conclude_the_same(seeds, each):
    with started(build(), seeds, each) as compiled, started(ROOT, seeds, each) as python:
        said = [json.loads(process.communicate()[0]) for process in (compiled, python)]
    assert [one.pop("core") for one in said] == ["so", "py"]
    assert len(said[0]) > 10
    assert said[0] == said[1]
