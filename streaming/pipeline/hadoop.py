"""Spark's files outside the tables: checkpoints on a Hadoop file system (`storage.checkpoints`), and scratch files.

Spark writes a file of a checkpoint under another name and renames it. S3A renames by copying, which is whole or not
there, too; but it does not notice that another run has made the same file. So only one run may work on them at a time.

Scratch files are shuffles, and copies of the state. Each process has a folder, which it locks. A Spark that is killed
leaves its files; so a start removes the folders that no process locks any more.
"""

import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from streaming.base.errors import UserError
from streaming.base.files import FileLock
from streaming.base.place import keys_of, region_of
from streaming.base.settings import Settings

_PREFIX = "run-"
_LOCK = "lock"
_held: list[FileLock] = []
"""The locks of this process, until it ends."""


@cache
def scratch_folder(folder: Path) -> Path:
    """Return this process's own folder below ``folder``, after removing those of processes that have ended."""
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid4().hex
    (new := folder / f".{name}").mkdir()
    _held.append(FileLock(new / _LOCK))
    own = new.rename(folder / f"{_PREFIX}{name}")  # locked before another process sees it
    for other in folder.glob(f"{_PREFIX}*"):
        with suppress(UserError, FileNotFoundError), FileLock(other / _LOCK, "It is in use."):
            shutil.rmtree(other, ignore_errors=True)  # its Spark may be ending, and remove files, too
    return own


_S3A = "s3a://"
_PROPERTY = "spark.hadoop.fs.s3a."
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"


def checkpoint_url(settings: Settings, query: str) -> str:
    """Return where Spark keeps the checkpoint of a query."""
    elsewhere = settings.storage.checkpoints.rstrip("/")
    return f"{elsewhere}/{query}" if elsewhere else str(settings.runtime.checkpoints / query)


def uses_s3a(settings: Settings) -> bool:
    """Return whether Spark needs the client of S3."""
    return settings.storage.checkpoints.startswith(_S3A)


def s3a_properties(settings: Settings) -> dict[str, str]:
    """Return the properties of Hadoop's client of S3 that hold no secret."""
    storage = settings.storage
    properties = {
        "endpoint": storage.endpoint,
        "endpoint.region": region_of(storage),
        "path.style.access": str(storage.path_style).lower() if storage.endpoint else "",
        "buffer.dir": str(scratch_folder(settings.runtime.root / "spark")),
        "input.stream.type": "classic",  # one request a file; the default prefetches parts of Parquet files
    }
    return {f"{_PROPERTY}{name}": value for name, value in properties.items() if value}


def s3a_keys(settings: Settings) -> dict[str, str]:
    """Return the keys as properties, which Spark redacts by their names; none: AWS's own are used.

    Raises:
        SettingsError: they do not fit together, or a file can't be read.
    """
    access_key, secret_key, token = keys_of(settings.storage)
    properties = {
        "access.key": access_key,
        "secret.key": secret_key,
        "session.token": token,
        "aws.credentials.provider": _TEMPORARY if token else "",
    }
    return {f"{_PROPERTY}{name}": value for name, value in properties.items() if value}
