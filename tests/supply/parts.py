"""The packages and jars that the program runs with."""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from typing import NamedTuple
from xml.etree import ElementTree as ET

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from streaming.base.settings import conf_file

PROGRAM = "rebalance-watch"
_TEST_SETS = frozenset({"rocketmq4", "s3proxy", "hdfs"})
"""The sets of jars that only tests use (streaming/base/jars.py)."""


class Package(NamedTuple):
    """A Python package, as pinned."""

    name: str
    version: str
    sha256: tuple[str, ...]
    """Of each of its files; any of them may be what is installed."""
    license: str
    """As the package says it; empty if it says nothing."""


class Jar(NamedTuple):
    """A jar of one of the sets."""

    file: str
    group: str
    """Empty for those that Ivy finds as a need of another: only their files are pinned."""
    name: str
    version: str
    sha256: str
    jar_set: str


def packages() -> list[Package]:
    """Return what `make install EXTRAS=job,mcp,oidc,otlp` installs beside the program, by name.

    Raises:
        KeyError: one of them is not pinned.
    """
    pins = dict(_pins())
    needed = sorted(_needed("job") | _needed("mcp") | _needed("oidc") | _needed("otlp"))
    return [Package(name, *pins[name], _license(distribution(name))) for name in needed]


def jars() -> list[Jar]:
    """Return the jars of the job and of the lab, by set."""
    by_file = {}
    for one in ET.parse(conf_file("ivy.xml")).iter("dependency"):
        org, name, version = one.attrib["org"], one.attrib["name"], one.attrib["rev"]
        by_file[f"{name}-{version}.jar"] = (org, name, version)
    parts = []
    for line in conf_file("jars.sha256").read_text("utf-8").splitlines():
        sha256, path = line.split()
        jar_set, file = path.split("/")
        if jar_set not in _TEST_SETS:
            parts.append(Jar(file, *(by_file.get(file) or ("", *_named(file))), sha256, jar_set))
    return parts


def _pins() -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """Yield each pinned package with its version and the hashes of its files."""
    text = conf_file("constraints.txt").read_text("utf-8")
    for pin in re.finditer(r"^([a-z0-9._-]+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})+)", text, re.MULTILINE):
        yield pin[1], (pin[2], tuple(re.findall(r"sha256:([0-9a-f]{64})", pin[3])))


def _needed(extra: str) -> set[str]:
    """Return the packages that the program with an extra needs here, and those that they need."""
    needed_names, todo = set(), [(PROGRAM, frozenset({extra}))]
    while todo:
        name, extras = todo.pop()
        for text in distribution(name).requires or ():
            need = Requirement(text)
            if need.marker and not any(need.marker.evaluate({"extra": one}) for one in ("", *extras)):
                continue
            needed = canonicalize_name(need.name)
            if needed not in needed_names or need.extras:
                needed_names.add(needed)
                todo.append((needed, frozenset(need.extras)))
    return needed_names - {PROGRAM}


def _license(package: Distribution) -> str:
    said = package.metadata.get("License-Expression") or package.metadata.get("License") or ""
    classifiers = package.metadata.get_all("Classifier") or ()
    named = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: OSI")]
    return said if said and "\n" not in said else ", ".join(named)


def _named(file: str) -> tuple[str, str]:
    """Return name and version of a jar that has both in its file's name."""
    parts = re.fullmatch(r"(.+?)-(\d.*)\.jar", file)
    return (parts[1], parts[2]) if parts else (file.removesuffix(".jar"), "")
