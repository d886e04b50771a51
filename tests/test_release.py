"""The files of a release: what `make dist` builds is whole, and runs where it is installed from them."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from zipfile import ZipFile

import pytest

from tests.core.test_examples import PROGRAMS
from tests.support.installed import ROOT, install, required

LIBRARY = tomllib.loads((ROOT / "rebalance_model/pyproject.toml").read_text("utf-8"))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]

IMPORT_ALL = """
import pkgutil, sys, rebalance_model
for module in pkgutil.walk_packages(rebalance_model.__path__, "rebalance_model."):
    if not module.name.endswith("__main__"):
        __import__(module.name)
print(*{name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names)
"""
"""Prints the packages that all modules of the library need."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder with the wheel and the sdist of the last commit."""
    return make_dist(tmp_path_factory.mktemp("dist"), "COMPILED=")


def make_dist(folder, *options):
    subprocess.run(["make", "dist", f"DIST={folder}", *options], cwd=ROOT, check=True, capture_output=True)
    return folder


def contents(wheel):
    """Return what is in a wheel beside its own list of files."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}


def test_the_sdist_builds_the_wheel(dist, tmp_path):
    [wheel], [sdist] = dist.glob("rebalance_watch-*.whl"), dist.glob("rebalance_watch-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    [again] = tmp_path.glob("*.whl")
    assert again.name == wheel.name == f"rebalance_watch-{VERSION}-py3-none-any.whl"
    assert contents(again) == contents(wheel)


@pytest.mark.prove  # in short an installed wheel of this folder runs, `test_without_spark.py`
def test_the_wheel_runs_where_it_is_installed(dist, tmp_path):
    [wheel] = dist.glob("rebalance_watch-*.whl")
    commands = install(wheel, tmp_path / "prefix", required("rebalance-watch"))
    said = subprocess.run(
        [commands / "rebalance-watch", "--version"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert said.startswith(f"rebalance-watch {VERSION}")
    checked = subprocess.run(
        [commands / "rebalance-watch", "config", "check"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.prove  # in short the compiled core concludes the same, `core/test_compiled.py`
def test_the_compiled_wheel_replaces_the_core_and_is_packed_for_a_cluster(tmp_path):
    [wheel] = make_dist(tmp_path / "dist", "COMPILED=1").glob("rebalance_watch-*-linux_*.whl")
    packages = [one for one in required("rebalance-watch[job]") if one.metadata["Name"] != "rebalance-watch"]
    command = install(wheel, tmp_path / "prefix", packages) / "rebalance-watch"
    assert "compiled core" in subprocess.check_output([command, "--version"], cwd=tmp_path, text=True)
    subprocess.run([command, "job", "pack", tmp_path / "packed.tgz"], cwd=tmp_path, check=True, capture_output=True)
    with tarfile.open(tmp_path / "packed.tgz") as archive:
        own = [one for one in archive if one.name.startswith("rebalance_model")]
        archive.extractall(tmp_path / "node", own, filter="data")
    step = "from rebalance_model.observe import step; print(step.__file__)"
    path = {**os.environ, "PYTHONPATH": str(tmp_path / "node")}
    found = subprocess.check_output([sys.executable, "-P", "-c", step], cwd=tmp_path, env=path, text=True)
    assert found.startswith(str(tmp_path / "node"))
    assert found.endswith(".so\n")


def test_the_wheel_has_neither_simulation_nor_tests(dist):
    [wheel] = dist.glob("rebalance_watch-*.whl")
    with ZipFile(wheel) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist()}
    own = {"rebalance_model", "schemas", "streaming", "checkpoints", "conf"}
    assert folders == own | {f"rebalance_watch-{VERSION}.dist-info"}


def test_the_library_runs_alone_with_one_dependency(dist, tmp_path):
    assert LIBRARY["project"]["version"] == VERSION
    [wheel] = dist.glob("rebalance_model-*.whl")
    python = install(wheel, tmp_path / "prefix", [metadata.distribution("msgspec")]) / "python"
    everything = [python, "-I", "-c", IMPORT_ALL]
    ended = subprocess.run(everything, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.stderr, set(ended.stdout.split()) - {"__main__"}) == ("", {"rebalance_model", "msgspec"})
    for program, printed in PROGRAMS:  # -I: not from the checkout
        ran = subprocess.run([python, "-I", "-"], input=program, cwd=ROOT, capture_output=True, text=True, check=True)
        assert ran.stdout == printed


def test_the_library_has_each_of_its_packages():
    folders = {file.parent.relative_to(ROOT) for file in (ROOT / "rebalance_model").rglob("__init__.py")}
    assert set(LIBRARY["tool"]["setuptools"]["packages"]) == {".".join(folder.parts) for folder in folders}


def test_the_changelog_describes_this_version():
    releases = re.findall(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert releases[0] == VERSION
