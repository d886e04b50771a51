"""Find a Java version that Spark, Kafka and RocketMQ all support; download one if the machine has none."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import cjdk

from streaming.base.errors import UserError

VERSIONS = (17, 21)  # Spark 4.2 requires 17 or newer, and is not tested with versions after 21
INSTALL = "install OpenJDK 17 (Debian: openjdk-17-jre-headless) or set JAVA_HOME to a Java 17 or 21"
# The folder of cjdk's downloads; set here, so that a download is found again without fetching cjdk's index.
_FETCHED = "~/.cache/rebalance-watch/java"
_USUAL_FOLDERS = (
    ("/usr/lib/jvm", "*/bin/java"),
    ("/opt/java", "*/bin/java"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home/bin/java"),
    ("/opt/homebrew/opt", "openjdk@*/bin/java"),
    ("~/.sdkman/candidates/java", "*/bin/java"),
    ("~/.jdks", "*/bin/java"),
    (_FETCHED, "v0/jdks/**/bin/java"),
)


@cache
def java_home() -> Path:
    """Return the home of a Java 17 or 21: JAVA_HOME, `java` on PATH, the usual folders, or a Temurin 17 from cjdk.

    Raises:
        UserError: none was found and none could be fetched.
    """
    return find_java_home() or _fetch()


def java_executable() -> Path:
    """Return the path of the program `java` of `java_home`."""
    return java_home() / "bin" / "java"


def find_java_home() -> Path | None:
    """Return the home of the first suitable Java of this machine; nothing is fetched. None if there is none."""
    return next((home for home in _candidates() if java_version(home) in VERSIONS), None)


def java_version(home: Path) -> int | None:
    """Return the feature version of a Java that can start Spark, else None.

    A trimmed runtime with the right version fails: Spark 4.2 needs the module ``jdk.incubator.vector``. Its file
    ``release`` has both at no cost; a Java without it, or with a file that lacks one of them, is started and asked.
    """
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    version, modules = _released(home) or _listed(home)
    return version if "jdk.incubator.vector" in modules else None


def _released(home: Path) -> tuple[int, set[str]] | None:
    """Return the version and the modules by the file ``release`` of a Java; None if it does not have both."""
    try:
        said = dict(re.findall(r'^(\w+)="(.*)"$', (home / "release").read_text("utf-8"), re.MULTILINE))
    except (OSError, UnicodeDecodeError):
        return None
    version = re.match(r"\d+", said.get("JAVA_VERSION", ""))
    modules = set(said.get("MODULES", "").split())
    return (int(version[0]), modules) if version and modules else None


def _listed(home: Path) -> tuple[int, set[str]]:
    """Return the version and the modules that a Java lists, in 70 ms; none if it does not start."""
    try:
        listing = subprocess.run(
            [home / "bin" / "java", "--list-modules"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return 0, set()
    versions = dict(re.findall(r"^([\w.]+)@(\d+)", listing, re.MULTILINE))
    return int(versions.get("java.base", 0)), set(versions)


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if program := shutil.which("java"):
        yield Path(program).resolve().parent.parent
    for folder, programs in _USUAL_FOLDERS:
        yield from (java.parent.parent for java in sorted(Path(folder).expanduser().glob(programs)))


def _fetch() -> Path:
    try:
        return cjdk.java_home(vendor="temurin", version="17", cache_dir=Path(_FETCHED).expanduser())
    except (cjdk.CjdkError, OSError) as error:
        raise UserError(f"No Java 17 or 21 was found and none could be downloaded: {INSTALL}.") from error
