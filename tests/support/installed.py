"""The program as a wheel, installed into a virtual environment of its own without a package index."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("rebalance_model", "schemas", "streaming", "checkpoints", "conf")


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources, `folder/source`, as a release does."""
    source = folder / "source"
    for package in PACKAGES:
        copytree(ROOT / package, source / package, ignore=ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / file, source)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path, distributions: Iterable[metadata.Distribution]) -> Path:
    """Install the wheel beside these packages, linked from this environment; return the folder of commands."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for distribution in distributions:
        for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            (packages / name).symlink_to(str(distribution.locate_file(name)))
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
    return folder / "bin"


def required(*names: str) -> Iterator[metadata.Distribution]:
    """Yield the installed distributions that these need without extras, direct and indirect."""
    waiting, seen = [Requirement(name) for name in names], set[tuple[str, frozenset[str]]]()
    by_name: dict[str, metadata.Distribution] = {}
    while waiting:
        requirement = waiting.pop()
        if (key := (requirement.name, frozenset(requirement.extras))) not in seen:
            seen.add(key)
            distribution = metadata.distribution(requirement.name)
            by_name[distribution.metadata["Name"]] = distribution
            needs = map(Requirement, distribution.requires or ())
            waiting += [
                need
                for need in needs
                if need.marker is None
                or any(need.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras))
            ]
    yield from (distribution for name, distribution in by_name.items() if name not in names)
