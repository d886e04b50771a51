"""The archive from which executors take their Python packages, so that a node needs only Spark and a Python.

It has the files of this program and of its dependencies, without those that only the driver uses, and no Python: a
node's own Python of the same minor version reads them by PYTHONPATH. A copy of a virtual environment would have links
to a Python that must be at the same path on each node.
"""

import io
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path

from packaging.requirements import Requirement

from streaming.base.errors import SettingsError, UserError
from streaming.base.files import temporary_name

DISTRIBUTION = "rebalance-watch"
_OWN = ("rebalance_model", "schemas", "streaming", "checkpoints", "conf")
_OF_THE_DRIVER = frozenset(
    {
        "pyspark",  # the nodes have Spark, with its Python part
        "delta-spark",
        "deltalake",
        "duckdb",
        "great-expectations",
        "nicegui",
        "apprise",
        "cjdk",
        "jpype1",
        "prometheus-client",
        "typer",
    }
)
"""The packages that no task on an executor imports."""
_MEND = "make it with `rebalance-watch job pack`"
_RELEASE = "rebalance-watch-release"
"""The first file of the archive: the release that packed it, and the version of Python."""
_COMPRESSION = 3
"""The level of 9: half a minute faster than the default, and 4 % larger."""


def pack(target: Path) -> Path:
    """Write the archive, replacing a former one, and return its path.

    Raises:
        UserError: it can't be written.
    """
    temporary = temporary_name(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(temporary, "w:gz", compresslevel=_COMPRESSION) as archive:
            release = _release().encode()
            first = tarfile.TarInfo(_RELEASE)
            first.size = len(release)
            archive.addfile(first, io.BytesIO(release))
            for file, name in _files():
                archive.add(file, name, recursive=False)
        temporary.replace(target)
    except OSError as error:
        raise UserError(f"{target} can't be written ({error.strerror}): name another file.") from error
    return target


def check(archive: Path) -> None:
    """Check that an archive was packed by this release, for this version of Python.

    Raises:
        SettingsError: it was not, or is no such archive.
    """
    try:
        with tarfile.open(archive, "r:gz") as opened:
            first = opened.next()
            content = opened.extractfile(first) if first is not None and first.name == _RELEASE else None
            packed = content.read().decode() if content is not None else "something else"
    except FileNotFoundError:
        raise SettingsError(f"job.environment: {archive} does not exist: {_MEND}.") from None
    except (OSError, tarfile.TarError) as error:
        raise SettingsError(f"job.environment: {archive} can't be read ({error}): {_MEND}.") from None
    if packed != _release():
        raise SettingsError(f"job.environment: {archive} was packed by {packed}, this is {_release()}: {_MEND}.")


def _release() -> str:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{DISTRIBUTION} {metadata.version(DISTRIBUTION)} with Python {python}"


def _files() -> Iterator[tuple[Path, str]]:
    for package in _OWN:
        folder = Path(str(resources.files(package)))
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file, str(Path(package) / file.relative_to(folder))
        for library in folder.parent.glob(f"{package}__mypyc.*"):  # of a compiled core
            yield library, library.name
    for distribution in _distributions():
        for entry in distribution.files or ():
            file = Path(str(distribution.locate_file(entry)))
            if ".." not in entry.parts and "__pycache__" not in entry.parts and file.is_file():
                yield file, str(entry)


def _distributions() -> Iterator[metadata.Distribution]:
    """Yield the installed dependencies of this program that executors need, direct and indirect."""
    waiting, seen = _required(metadata.distribution(DISTRIBUTION), frozenset({"", "job"})), set(_OF_THE_DRIVER)
    while waiting:
        name, extras = waiting.pop()
        if name not in seen:
            seen.add(name)
            distribution = metadata.distribution(name)
            yield distribution
            waiting += _required(distribution, extras | {""})


def _required(distribution: metadata.Distribution, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    """Return name and extras of each requirement that holds on this machine."""
    requirements = map(Requirement, distribution.requires or ())
    return [
        (re.sub(r"[-_.]+", "-", one.name).lower(), frozenset(one.extras))
        for one in requirements
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)
    ]
