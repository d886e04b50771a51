"""The folder of a spool, as somebody else fills it: only regular files of the folder's owner are read.

The shipper may read more than who writes to the folder, and ships many folders. So nothing in one may lead out of it (a
symlink, or a hard link to another user's file), or make the shipper wait (a FIFO, a device): every name is looked up in
the folder that was opened first, no link is followed, no open blocks, and what was opened is what is checked. The owner
counts, not the number of links: backups link files of their own user, too.
"""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from rebalance_model.entities import NATURAL_MAX
from streaming.base.files import FileLock, temporary_name
from streaming.base.limits import SPOOL_NAMES

_NAME = re.compile(r"(\d{20})\.jsonl", re.ASCII)
_POSITION = Path(".shipped")
_POSITION_BYTES_MAX = 1_000
"""A position is two numbers; of anything longer only the beginning is read, which then makes no sense."""
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

Tell = Callable[[str, str], None]
"""Logs once what is wrong, and a detail of it, such as a name."""


class OtherFileError(OSError):
    """A name is of no regular file, or of a file that another user owns."""


class SpoolFolder:
    """An open and locked folder; it stays the same one if another takes its name."""

    def __init__(self, path: Path, tell: Tell) -> None:
        """Open and lock a folder.

        Raises:
            UserError: another process ships it.
            OSError: it can't be read, or is a link.
        """
        self._path = path
        self._tell = tell
        self._others: set[int] = set()
        """The numbers of files that are another user's."""
        self._lock = FileLock(  # the folder itself: a lock file would have to be removed with it
            path, f"Another process ships the spool {path}: stop it, or give another folder.", is_folder=True
        )
        self._owner = os.fstat(self._folder).st_uid

    @property
    def _folder(self) -> int:
        return self._lock.descriptor

    def is_there(self) -> bool:
        """Return whether the folder still has its name."""
        try:
            named = self._path.lstat()
        except FileNotFoundError:
            return False
        mine = os.fstat(self._folder)
        return (named.st_dev, named.st_ino) == (mine.st_dev, mine.st_ino)

    def numbers(self) -> list[int]:
        """Return the numbers of the spool files, ascending.

        Raises:
            OSError: the folder can't be read, or has too many names.
        """
        numbers = []
        with os.scandir(self._folder) as entries:
            for count, entry in enumerate(entries):
                if count >= SPOOL_NAMES:
                    raise too_many_names()
                if (match := _NAME.fullmatch(entry.name)) is None or (number := int(match[1])) in self._others:
                    continue
                if entry.is_file(follow_symlinks=False) and number < NATURAL_MAX:
                    numbers.append(number)
                else:
                    self._tell("a spool file is not a regular file and is skipped", entry.name)
        numbers.sort()
        while numbers and not self._is_own(numbers[-1]):  # the newest counts most: those before it are complete
            numbers.pop()
        return numbers

    def size(self, number: int) -> int:
        """Return the bytes of a file."""
        return self._status(number).st_size

    def written_at(self, number: int | None) -> float:
        """Return when a file, or the folder, was last written, epoch seconds."""
        return (os.fstat(self._folder) if number is None else self._status(number)).st_mtime

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Return at most ``size`` bytes of a file from an offset on.

        Raises:
            OtherFileError: it is another user's, and is not among `numbers` any more.
            OSError: it can't be read.
        """
        name = _name(number)
        descriptor, status = self._open(name)
        try:
            if not self._is_owners(number, status):
                raise OtherFileError(f"{name} is of another user")
            return os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)

    def delete(self, number: int) -> None:
        """Delete a file, if it is there."""
        self._unlink(_name(number))

    def position(self) -> bytes | None:
        """Return what was kept as the position, possibly garbage; None if nothing was."""
        try:
            descriptor, _ = self._open(str(_POSITION))
        except FileNotFoundError:
            return None
        except OtherFileError:
            return b""
        try:
            return os.pread(descriptor, _POSITION_BYTES_MAX, 0)
        finally:
            os.close(descriptor)

    def keep_position(self, content: bytes) -> None:
        """Replace the position atomically. Not durable: after a power failure it may be older or missing."""
        temporary = str(temporary_name(_POSITION))
        self._unlink(temporary)
        flags = _FLAGS | os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(temporary, flags, 0o644, dir_fd=self._folder)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)
        os.replace(temporary, _POSITION, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def remove(self) -> None:
        """Remove the position and the empty folder.

        Raises:
            OSError: something else is in it.
        """
        for left in (_POSITION, temporary_name(_POSITION)):
            self._unlink(str(left))
        self._path.rmdir()

    def close(self) -> None:
        """Release the folder for another process."""
        self._lock.close()

    def _is_own(self, number: int) -> bool:
        try:
            return self._is_owners(number, self._status(number))
        except FileNotFoundError:
            return False

    def _is_owners(self, number: int, status: os.stat_result) -> bool:
        if status.st_uid == self._owner:
            return True
        self._others.add(number)
        self._tell("a spool file belongs to another user than its folder and is skipped", _name(number))
        return False

    def _status(self, number: int) -> os.stat_result:
        return os.stat(_name(number), dir_fd=self._folder, follow_symlinks=False)

    def _open(self, name: str) -> tuple[int, os.stat_result]:
        """Open a regular file for reading. What is none is not even opened: that may act on a device."""
        before = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        if stat.S_ISREG(before.st_mode):
            descriptor = os.open(name, _FLAGS | os.O_RDONLY, dir_fd=self._folder)
            status = os.fstat(descriptor)  # another file may have got the name meanwhile
            if stat.S_ISREG(status.st_mode):
                return descriptor, status
            os.close(descriptor)
        raise OtherFileError(f"{name} is no regular file")

    def _unlink(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._folder)
        except FileNotFoundError:
            return


def too_many_names() -> OSError:
    """Return the error of a folder that has more names than are looked at."""
    return OSError(f"it has more than {SPOOL_NAMES:,} names, and is not looked at until it has fewer")


def _name(number: int) -> str:
    return f"{number:020d}.jsonl"
