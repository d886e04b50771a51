"""The files of a release: what `make dist` builds is whole, and runs where it is installed from them."""

import re
import subprocess
import sys
import tarfile
import tomllib
from zipfile import ZipFile

import pytest

from tests.support.installed import ROOT, install, required

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder with the wheel and the sdist of the last commit."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(["make", "dist", f"DIST={folder}"], cwd=ROOT, check=True, capture_output=True)
    return folder


def contents(wheel):
    """What is in a wheel beside its own list of files."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}


def test_the_sdist_builds_the_wheel(dist, tmp_path):
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    [again] = tmp_path.glob("*.whl")
    assert again.name == wheel.name == f"rebalance_watch-{VERSION}-py3-none-any.whl"
    assert contents(again) == contents(wheel)


def test_the_wheel_runs_where_it_is_installed(dist, tmp_path):
    [wheel] = dist.glob("*.whl")
    commands = install(wheel, tmp_path / "prefix", required("rebalance-watch"))
    said = subprocess.run(
        [commands / "rebalance-watch", "--version"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert said.startswith(f"rebalance-watch {VERSION}")
    checked = subprocess.run(
        [commands / "rebalance-watch", "config", "check"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_changelog_describes_this_version():
    releases = re.findall(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert releases[0] == VERSION
