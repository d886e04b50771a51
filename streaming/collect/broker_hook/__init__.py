"""The hook in a RocketMQ broker: its Java source, and the build of its jar with this machine's javac.

The same source compiles against 4.9 and 5.x, and Java 8 byte code runs on both; the jars of the broker in which it will
run are only needed to compile, and none of their classes is put into the jar.
"""

import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from streaming.base.errors import UserError
from streaming.base.java import find_java_home

JAR = "rebalance-watch-hook.jar"

_SOURCES = Path(__file__).parent / "rebalancewatch"
_SERVICE = "META-INF/service/org.apache.rocketmq.remoting.RPCHook"  # ServiceProvider of RocketMQ: service, without s
_CLASS = "rebalancewatch.RebalanceWatchHook"
_MANIFEST = "META-INF/MANIFEST.MF"
_OLDEST = (1980, 1, 1, 0, 0, 0)  # one time for every entry: the same source gives the same bytes
_JAVAC_SECONDS_MAX = 120
_SHORT_RUN = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")  # it ends before optimised code pays


def build(jars: Sequence[Path], target: Path) -> Path:
    """Compile the hook against a broker's jars, and pack it; an existing jar of the same source is not built again.

    Raises:
        UserError: javac is missing, the jars are not a broker's, or the jar can't be written.
    """
    sources = sorted(_SOURCES.glob("*.java"))
    made_of = _fingerprint(sources, jars)
    if _made_of(target) == made_of:
        return target
    try:
        with TemporaryDirectory() as folder:
            _compile(sources, jars, Path(folder))
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_suffix(f".{made_of[:8]}.new")
            _pack(Path(folder), made_of, new)
            new.replace(target)
    except OSError as error:
        raise UserError(f"The hook can't be written to {target} ({error.strerror}): specify another file.") from error
    return target


def broker_jars(home: Path) -> list[Path]:
    """Return the jars of an installed broker.

    Raises:
        UserError: the folder has none.
    """
    jars = sorted((home / "lib").glob("*.jar"))
    if not any(jar.name.startswith("rocketmq-remoting-") for jar in jars):
        raise UserError(f"{home / 'lib'} contains no rocketmq-remoting jar: specify the broker's home (ROCKETMQ_HOME).")
    return jars


def _fingerprint(sources: Iterable[Path], jars: Iterable[Path]) -> str:
    sha = hashlib.sha256()
    for source in sources:
        sha.update(source.read_bytes())
    for jar in jars:
        if jar.name.startswith("rocketmq-remoting-"):  # the only jars that the source needs
            sha.update(jar.name.encode())
    return sha.hexdigest()[:40]  # a line of a manifest has at most 72 bytes


def _made_of(target: Path) -> str | None:
    try:
        with zipfile.ZipFile(target) as jar:
            lines = jar.read(_MANIFEST).decode().splitlines()
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    return next((line.removeprefix("Made-Of: ") for line in lines if line.startswith("Made-Of: ")), None)


def _compile(sources: Iterable[Path], jars: Iterable[Path], folder: Path) -> None:
    class_path = ":".join(map(str, jars))
    options = (*_SHORT_RUN, "--release", "8", "-nowarn", "-encoding", "UTF-8", "-cp", class_path)
    command: list[str | Path] = [_javac(), *options, "-d", folder, *sources]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_JAVAC_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"javac did not end within {_JAVAC_SECONDS_MAX} s: try again on a less busy machine.") from None
    if ran.returncode:
        first_error = next((line for line in ran.stderr.splitlines() if "error:" in line), ran.stderr.strip())
        raise UserError(f"The hook does not compile against these jars; are they a RocketMQ broker's? ({first_error})")


def _javac() -> Path:
    home = find_java_home()
    beside = home / "bin" / "javac" if home else None
    if beside is not None and beside.is_file():
        return beside
    if found := shutil.which("javac"):
        return Path(found)
    raise UserError("No javac was found: install a JDK 17 (Debian: openjdk-17-jdk-headless) or set JAVA_HOME to one.")


def _pack(classes: Path, made_of: str, target: Path) -> None:
    entries = {
        _MANIFEST: f"Manifest-Version: 1.0\nMade-Of: {made_of}\n".encode(),
        _SERVICE: f"{_CLASS}\n".encode(),
    } | {path.relative_to(classes).as_posix(): path.read_bytes() for path in sorted(classes.rglob("*.class"))}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in entries.items():
            jar.writestr(zipfile.ZipInfo(name, _OLDEST), content, zipfile.ZIP_DEFLATED)
