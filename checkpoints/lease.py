"""The lease of a writer: one run at a time holds the checkpoints, also where several machines share their storage.

On one machine a `FileLock` decides, which the kernel releases when its holder ends. Some shared storage keeps such a
lock to each machine. So a holder also has a lease: a file with its epoch in its name, in which it counts up every few
seconds. The lease with the highest epoch holds. A run takes over by the file of the next epoch, which only one can
create:

- at once, if the holder has released its lease, or was on this machine, whose lock is free;
- else after it has seen no beat for `EXPIRY_SECONDS` by its own clock; clocks are never compared.

A holder that finds a higher epoch, or could not write its beat for most of that time, has lost the lease and ends; also
if the storage does not answer at all, as a hard-mounted NFS. A holder that was itself stopped for longer, as with its
machine, continues if no other run has taken over: then the storage answers its next beat.

It may notice too late that it was replaced. Then nothing is doubled, either: a batch that both have begun is the same
one, Delta takes each of its appends once (`txnVersion`), and Spark lets only one of them record it. If that is the
former holder, the present one continues after it (`confirm`).
"""

import os
import platform
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from streaming.base.errors import UserError
from streaming.base.files import Closable, FileLock, is_locked, replace_atomically, temporary_name

EXPIRY_SECONDS = 20.0
"""Time without a beat after which a lease has expired."""
BEAT_SECONDS = 4.0
_RENEWAL_SECONDS_MAX = 12.0
"""After this time without a beat of its own, and `BEAT_SECONDS` more for a beat under way, a holder ends: before
another can take over."""
_LOOK_SECONDS = 0.5
LOCK = ".lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Lease(msgspec.Struct, frozen=True):
    """The content of a lease's file."""

    holder: str
    """Host and process id, for people."""
    place: str
    """The machine since its boot, and the mount of the storage: within one, file locks exclude each other."""
    beat: int = 0
    is_released: bool = False


class LeaseHeldError(UserError):
    """Another run holds the lease."""

    def __init__(self, checkpoints: Path, holder: str) -> None:
        super().__init__(
            f"Another run works on {checkpoints.parent} ({holder}): stop it, start this one with --standby, or set "
            "another runtime.root."
        )


class LeaseLostError(UserError):
    """Another run may write now: this one must end."""


def is_claimed(checkpoints: Path) -> bool:
    """Return whether a run on this machine holds the checkpoints."""
    return is_locked(checkpoints / LOCK)


class Lease(Closable):
    """The right to write to checkpoints and their tables, from `acquire` to `close` or the end of the process."""

    def __init__(self, folder: Path, lock: FileLock, epoch: int, lease: _Lease) -> None:
        self._folder = folder
        self._lock = lock
        self._epoch = epoch
        self._lease = lease
        self._lost = ""
        self._renewed = time.monotonic()
        self._answered = threading.Event()
        """Cleared while a beat waits for the storage."""
        self._answered.set()
        self._closing = threading.Event()
        self._beats = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._beats.start()

    @classmethod
    def acquire(cls, checkpoints: Path, on_wait: Callable[[str], None] | None = None) -> Self:
        """Take the lease of checkpoints, whose folder is made if it is missing.

        ``on_wait`` is called about twice a second with the holder while another run holds it; None: do not wait.

        Raises:
            LeaseHeldError: another run holds it, and there is no ``on_wait``.
        """
        folder = checkpoints / "lease"
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(checkpoints, folder, on_wait)
        try:
            return cls(folder, lock, *_acquire(checkpoints, folder, on_wait))
        except BaseException:
            lock.close()
            raise

    def check(self) -> None:
        """Check that this run still holds the lease; takes time only while the storage does not answer.

        Raises:
            LeaseLostError: it has lost it.
        """
        if not self._lost and self._is_overdue() and not self._answered.wait(BEAT_SECONDS):
            self._lost = self._not_renewed("the storage does not answer")
        if self._lost:
            raise LeaseLostError(self._lost)

    def confirm(self) -> bool:
        """Look at the storage now; return whether it shows that this run holds the lease, False if it can't be read.

        Raises:
            LeaseLostError: it has lost it.
        """
        with suppress(OSError):
            self._check_newest_epoch()
            self.check()
            return True
        return False

    def close(self) -> None:
        """Release the lease, unless the storage does not answer: then it expires."""
        self._closing.set()
        self._beats.join(BEAT_SECONDS)
        try:
            if not self._lost and not self._beats.is_alive():
                with suppress(OSError):
                    self._write(is_released=True)
        finally:
            self._lock.close()

    def _keep(self) -> None:
        """Write beats until the end, or until the lease is lost."""
        while not self._lost and not self._closing.wait(BEAT_SECONDS):
            self._answered.clear()
            try:
                self._check_newest_epoch()
                if not self._lost:
                    self._write()
                    self._renewed = time.monotonic()
            except OSError as error:
                if self._is_overdue():
                    self._lost = self._not_renewed(error.strerror or str(error))
            finally:
                self._answered.set()

    def _is_overdue(self) -> bool:
        return time.monotonic() - self._renewed > _RENEWAL_SECONDS_MAX

    def _not_renewed(self, why: str) -> str:
        return f"The lease in {self._folder} can't be renewed ({why}): this run has ended."

    def _check_newest_epoch(self) -> None:
        """Find out whether another run has taken over."""
        newest = max(_epochs(self._folder), default=0)
        if newest > self._epoch:
            holder = _read(self._folder, newest).holder
            self._lost = f"Another run ({holder}) has taken over {self._folder.parents[1]}: this one has ended."

    def _write(self, *, is_released: bool = False) -> None:
        self._lease = msgspec.structs.replace(self._lease, beat=self._lease.beat + 1, is_released=is_released)
        replace_atomically(_file(self._folder, self._epoch), msgspec.json.encode(self._lease), durable=False)


def _locked(checkpoints: Path, folder: Path, on_wait: Callable[[str], None] | None) -> FileLock:
    """Return the lock against other runs on this machine."""
    while True:
        try:
            return FileLock(checkpoints / LOCK, "")
        except UserError:
            newest = max(_epochs(folder), default=0)
            holder = _read(folder, newest).holder if newest else "starting"
            if on_wait is None:
                raise LeaseHeldError(checkpoints, holder) from None
            on_wait(holder)
            time.sleep(_LOOK_SECONDS)


def _acquire(checkpoints: Path, folder: Path, on_wait: Callable[[str], None] | None) -> tuple[int, _Lease]:
    """Create the next epoch as soon as the present one is free or has expired."""
    own = _Lease(f"{socket.gethostname()}, process {os.getpid()}", _place(checkpoints))
    first = seen = None
    since, said = time.monotonic(), False
    while True:
        newest = max(_epochs(folder), default=0)
        holder = _read(folder, newest) if newest else None
        if (newest, holder) != seen:
            seen, since = (newest, holder), time.monotonic()
            first = first or seen
        has_expired = time.monotonic() - since > EXPIRY_SECONDS
        if holder is None or holder.is_released or holder.place == own.place or has_expired:
            if _create(folder, newest + 1, own):
                return newest + 1, own
            continue
        if on_wait is not None:
            on_wait(holder.holder)
        elif seen != first:
            raise LeaseHeldError(checkpoints, holder.holder)
        elif not said:
            import structlog

            said = True
            structlog.get_logger(__name__).info(
                f"waiting {EXPIRY_SECONDS:.0f} s: the last run ({holder.holder}) has not released its lease"
            )
        time.sleep(_LOOK_SECONDS)


def _create(folder: Path, epoch: int, lease: _Lease) -> bool:
    """Create an epoch's file with its content, unless there is one of it or of a later one."""
    file = _file(folder, epoch)
    temporary = temporary_name(file).with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    temporary.write_bytes(msgspec.json.encode(lease))
    try:
        os.link(temporary, file)  # the only call that fails for all but one of several machines
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    others = [one for one in _epochs(folder) if one != epoch]
    is_newest = all(one < epoch for one in others)
    for outdated in others if is_newest else [epoch]:
        _file(folder, outdated).unlink(missing_ok=True)
    return is_newest


def _epochs(folder: Path) -> list[int]:
    names = os.listdir(folder)  # noqa: PTH208  `glob` takes a folder that can't be read for an empty one
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return [int(stem) for stem in stems if stem.isdecimal()]


def _file(folder: Path, epoch: int) -> Path:
    return folder / f"{epoch:010d}.json"


def _read(folder: Path, epoch: int) -> _Lease:
    try:
        return msgspec.json.decode(_file(folder, epoch).read_bytes(), type=_Lease)
    except (FileNotFoundError, msgspec.DecodeError):  # replaced by a later one, or of another release
        return _Lease("another run", "")


def _place(checkpoints: Path) -> str:
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else platform.node()
    return f"{boot}:{checkpoints.stat().st_dev}"
