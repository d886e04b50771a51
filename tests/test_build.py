"""Inputs of the build: pinned packages and jars, and no address that only one network knows."""

import re
import subprocess
import tomllib
from itertools import chain
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.installed import PACKAGES, ROOT, build_wheel

CONSTRAINTS = ("constraints.txt", "constraints-build.txt", "constraints-fuzz.txt")
HOST = re.compile(r"://|\b[\w-]+(\.[\w-]+)*\.(org|com|net|io|dev|local|internal)/|--(extra-)?index-url|--find-links")


NAMESPACE = ' xmlns:m="http://ant.apache.org/ivy/maven"'
"""What Ivy calls its attributes of Maven: a name, which nothing fetches."""
OF_A_MACHINE = ("conf/container/", "conf/kubernetes/", "conf/systemd/")
"""What a package does not install."""


def pinned(name: str) -> dict[str, tuple[str, int]]:
    """Each package's version and how many hashes it has."""
    text = (ROOT / "conf" / name).read_text()
    entries = re.split(r"^(?=[a-z])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    found = (re.match(r"([\w.-]+)==(\S+)", entry) for entry in entries if entry.strip())
    versions = [match.groups() for match in found if match]
    hashes = [entry.count("--hash=sha256:") for entry in entries if entry.strip()]
    assert len(versions) == len(hashes), "an entry is not pinned"
    return {package: (version, count) for (package, version), count in zip(versions, hashes, strict=True)}


@pytest.mark.parametrize("name", [*CONSTRAINTS, "ivy.xml", "jars.sha256"])
def test_no_address_is_committed(name):
    assert not HOST.search((ROOT / "conf" / name).read_text().replace(NAMESPACE, ""))


def test_every_requirement_is_pinned_to_a_version_that_fits():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    constraints = pinned("constraints.txt")
    for text in (*project["dependencies"], *chain(*project["optional-dependencies"].values())):
        requirement = Requirement(text)
        version, _ = constraints[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), text


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_every_pinned_package_has_hashes(name):
    assert {package for package, (_, hashes) in pinned(name).items() if not hashes} == set()


def test_make_help_names_every_target():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))


def test_the_wheel_has_the_license_and_the_mark_of_a_typed_package(tmp_path):
    wheel, source = build_wheel(tmp_path), tmp_path / "source"
    with ZipFile(wheel) as content:
        names = set(content.namelist())
        (info,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        metadata = content.read(f"{info}/METADATA").decode()
    assert {f"{info}/licenses/LICENSE", "rebalance_model/py.typed"} <= names
    files = {file.relative_to(source).as_posix() for package in PACKAGES for file in (source / package).rglob("*.*")}
    files -= {"rebalance_model/pyproject.toml"}  # of the library alone
    assert {file for file in files - names if not file.endswith(".md") and not file.startswith(OF_A_MACHINE)} == set()
    assert "License-Expression: Apache-2.0" in metadata


@pytest.mark.parametrize(("subject", "code"), [("x" * 72, 0), ("x" * 73, 1)])
def test_the_hook_of_commits_refuses_a_long_subject(subject, code, tmp_path):
    (tmp_path / "message").write_text(f"{subject}\n\n{'why ' * 30}")
    ran = subprocess.run([ROOT / ".github/hooks/commit-msg", tmp_path / "message"], capture_output=True, check=False)
    assert ran.returncode == code


def parts_of_prove() -> dict[str, tuple[list[str], list[str]]]:
    """Return the paths of each part of `make prove`, and the patterns of files that it leaves to another part."""
    written = re.findall(r"^PART_(\d) := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    left_out = "--ignore-glob="
    return {
        number: (
            [word for word in words.split() if not word.startswith(left_out)],
            [word.removeprefix(left_out) for word in words.split() if word.startswith(left_out)],
        )
        for number, words in written
    }


def test_every_long_test_is_in_one_part_of_make_prove():
    parts = parts_of_prove()
    for file in (ROOT / "tests").rglob("test_*.py"):
        path = file.relative_to(ROOT)
        having = [
            number
            for number, (paths, left_out) in parts.items()
            if any(path.is_relative_to(one) for one in paths) and not any(path.match(one) for one in left_out)
        ]
        is_long = re.search(r"pytest\.mark\.prove", file.read_text("utf-8")) or path.is_relative_to("tests/field")
        assert len(having) == 1 or (not is_long and not having), (path, having)


def test_a_part_of_make_prove_that_is_not_there_is_a_sentence():
    command = ["make", "--dry-run", "prove", "PART=9"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "There is no part 9 of the proofs: PART is 1 to 7." in ended.stderr
