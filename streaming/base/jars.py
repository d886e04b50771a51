"""The jars of Spark and of the lab's servers: resolved once by the Ivy inside pyspark, checked, then read from disk.

Spark gets files, never coordinates: a session start resolves nothing, so the network can neither fail nor delay it.
"""

import hashlib
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Literal, get_args

from rich.console import Console
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from streaming.base.errors import UserError
from streaming.base.files import FileLock
from streaming.base.java import java_executable
from streaming.base.settings import conf_file

JarSet = Literal["spark", "kafka", "rocketmq", "rocketmq_proxy", "rocketmq4", "s3a", "s3proxy", "hdfs"]
JAR_SETS: tuple[JarSet, ...] = ("spark", "kafka", "rocketmq")
"""The sets that every root uses. The job fetches `s3a` for checkpoints in an object store, a lab whose consumers pop
`rocketmq_proxy`; the others are for tests."""

# Written last, with the name of one jar per line: its presence means that all jars were checked.
_COMPLETE = "complete"
_RESOLVE_SECONDS_MAX = 900  # RocketMQ's 135 jars took 2 minutes cold


def ensure(conf: JarSet, root: Path) -> list[Path]:
    """Return the jars of one set in class-path order; only the first call needs the network, to fetch them.

    Each call compares their content with `conf/jars.sha256`: others may have written to the folder since. Any number of
    processes may share the folder ``root`` (``settings.runtime.jars``).

    Raises:
        UserError: they can't be fetched, or are not those of `conf/jars.sha256`.
    """
    folder = _folder(conf, root)
    try:
        if (jars := _complete(folder)) is not None:
            check(conf, folder)
            return jars
        with _locked(root):
            if (jars := _complete(folder)) is not None:  # another process was quicker
                return jars
            fetched = _fetch(conf, root)
            check(conf, fetched)
            return _publish(fetched, folder)
    except OSError as error:
        raise UserError(f"The jars can't be kept under {root} ({error.strerror}): set runtime.root.") from error


def check(conf: JarSet, folder: Path) -> None:
    """Compare every jar of a folder with `conf/jars.sha256`.

    Raises:
        UserError: a jar is missing, unexpected or has other content.
    """
    expected, found = _expected(conf), _hashes(folder)
    if odd := sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)):
        raise UserError(
            f"The {conf} jars are not those of conf/jars.sha256 ({', '.join(odd[:3])}{', …' * (len(odd) > 3)}): "
            f"delete {folder.parent} and start again; if that does not help, the files in the repository have changed."
        )


def state(conf: JarSet, root: Path) -> Literal["present", "missing", "wrong"]:
    """Return whether the set is present and has the locked content, which is read again; nothing is fetched."""
    folder = _folder(conf, root)
    if _complete(folder) is None:
        return "missing"
    try:
        check(conf, folder)
    except UserError:
        return "wrong"
    return "present"


def lock(root: Path) -> Path:
    """Fetch every set of `conf/ivy.xml` again and write the result to `conf/jars.sha256`, in the form of sha256sum."""
    sums = conf_file("jars.sha256")
    lines: list[str] = []
    with _locked(root):
        for conf in get_args(JarSet):
            fetched = _fetch(conf, root)
            lines += (f"{sha}  {conf}/{name}\n" for name, sha in sorted(_hashes(fetched).items()))
            sums.write_text("".join(lines))
            _publish(fetched, _folder(conf, root))
    return sums


def _folder(conf: JarSet, root: Path) -> Path:
    asked = conf_file("ivy.xml").read_bytes() + metadata.version("pyspark").encode()
    return root / f"{conf}-{hashlib.sha256(asked).hexdigest()[:12]}"


def _complete(folder: Path) -> list[Path] | None:
    try:
        jars = [folder / name for name in (folder / _COMPLETE).read_text().split()]
    except FileNotFoundError:
        return None
    return jars if all(jar.is_file() for jar in jars) else None


def _expected(conf: JarSet) -> dict[str, str]:
    lines = (line.split() for line in conf_file("jars.sha256").read_text().splitlines())
    return {path.removeprefix(f"{conf}/"): sha for sha, path in lines if path.startswith(f"{conf}/")}


def _hashes(folder: Path) -> dict[str, str]:
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}


def _locked(root: Path) -> FileLock:
    """Lock the folder: Ivy's cache allows only one process at a time."""
    root.mkdir(parents=True, exist_ok=True)
    return FileLock(root / ".lock")


def _fetch(conf: JarSet, root: Path) -> Path:
    """Resolve one set into a new folder of its own, which `ensure` does not read yet."""
    Console(stderr=True).print(f"Fetching the {conf} jars (once)…", highlight=False)
    folder = root / f".{conf}-unchecked"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        for attempt in Retrying(
            stop=stop_after_attempt(2),  # what came at the first is in Ivy's cache
            wait=wait_fixed(1),
            retry=retry_if_exception_type(subprocess.CalledProcessError),
            reraise=True,
        ):
            with attempt:
                _ivy(conf, folder, root)
    except subprocess.SubprocessError as error:
        raise UserError(
            f"The {conf} jars could not be downloaded: check the network and start again "
            f"(Ivy's output is in {root / f'ivy-{conf}.log'})."
        ) from error
    return folder


def _ivy(conf: JarSet, folder: Path, root: Path) -> None:
    spark_jars = Path(str(metadata.distribution("pyspark").locate_file("pyspark/jars")))
    ivy_jar = next(spark_jars.glob("ivy-*.jar"))
    command = [
        *(java_executable(), f"-Divy.default.ivy.user.dir={root / 'ivy'}", "-jar", ivy_jar),
        *("-ivy", conf_file("ivy.xml"), "-confs", conf),
        *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    with (root / f"ivy-{conf}.log").open("w") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=_RESOLVE_SECONDS_MAX, check=True)


def _publish(fetched: Path, folder: Path) -> list[Path]:
    names = sorted(jar.name for jar in fetched.glob("*.jar"))
    (fetched / _COMPLETE).write_text("\n".join(names) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    fetched.replace(folder)
    return [folder / name for name in names]
