"""What the build rests on: pinned packages and jars, and no address that only one network knows."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ("constraints.txt", "constraints-build.txt")
HOST = re.compile(r"://|\b[\w-]+(\.[\w-]+)*\.(org|com|net|io|dev|local|internal)/|--(extra-)?index-url|--find-links")


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
    assert not HOST.search((ROOT / "conf" / name).read_text())


def test_every_requirement_is_pinned_to_a_version_that_fits():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    constraints = pinned("constraints.txt")
    for text in (*project["dependencies"], *project["optional-dependencies"]["dev"]):
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
