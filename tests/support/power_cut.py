"""A disk that loses its power: of what was not synced, names and contents may be those of before, or torn.

It watches `os.fsync`. What other code writes (delta-rs, Spark) counts as synced only where ours syncs it afterwards.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

_WRITTEN = 0.8


class PowerCutError(Exception):
    """The power is gone: the process is, too."""


class Disk:
    """The files below a folder, as the disk has them for certain, and as the process sees them."""

    def __init__(self, root: Path, choice: random.Random) -> None:
        self.root = root
        self._choice = choice
        self._fsync: Callable[[int], None] = os.fsync
        self._names: dict[Path, dict[str, int]] = {}
        """The synced names of each folder, with the file (its inode) of each."""
        self._contents: dict[int, bytes] = {}
        """The synced content of each file."""
        self.syncs_left = 0
        """After so many syncs the power is cut; 0: never."""
        self.keep()

    def keep(self) -> None:
        """Sync everything that is there."""
        self._names, self._contents = {}, {}
        for folder, _, files in os.walk(self.root):
            self._names[Path(folder)] = _entries(Path(folder))
            for name in files:
                file = Path(folder, name)
                self._contents[file.stat().st_ino] = file.read_bytes()

    def fsync(self, descriptor: int) -> None:
        """Stand in for `os.fsync`."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if self.root not in (path, *path.parents):
            self._fsync(descriptor)
            return
        if self.syncs_left:
            self.syncs_left -= 1
            if not self.syncs_left:
                raise PowerCutError
        if path.is_dir():
            self._names[path] = _entries(path)
        else:
            self._contents[os.fstat(descriptor).st_ino] = path.read_bytes()

    def cut(self) -> None:
        """Leave what a power cut may leave: each name and each content old or new, a content also torn."""
        left = dict(self._left(self.root))
        shutil.rmtree(self.root)
        self.root.mkdir()
        for path, content in left.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.keep()

    def _left(self, folder: Path) -> Iterator[tuple[Path, bytes]]:
        old, new = self._names.get(folder, {}), _entries(folder) if folder.is_dir() else {}
        for name in sorted(old.keys() | new.keys()):
            file = new.get(name) if self._is_written() else old.get(name)
            if file is None:
                continue
            path = folder / name
            if path.is_dir():
                yield from self._left(path)
                continue
            is_there = new.get(name) == file
            synced = self._contents.get(file, b"")
            current = path.read_bytes() if is_there else synced
            torn = current[: self._choice.randrange(len(current) + 1)] if file not in self._contents else synced
            yield path, current if self._is_written() else self._choice.choice([synced, torn])

    def _is_written(self) -> bool:
        """Return whether what was not synced is written all the same, as most is: a system does so within seconds."""
        return self._choice.random() < _WRITTEN


def _entries(folder: Path) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}
