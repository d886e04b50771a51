"""Spark's scratch files: shuffles, and copies of the state. Each process has a folder, which it locks.

A Spark that is killed leaves its files. So a start removes the folders that no process locks any more.
"""

import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from streaming.base.errors import UserError
from streaming.base.files import FileLock

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
