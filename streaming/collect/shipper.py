"""The spool shipper (`rebalance-watch collect spool`): send the spooled lines of many sources to the log.

A round deletes the lines that the log has acknowledged, then sends a chunk of each source. After a crash between the
two, lines are sent again, in order, and every reader recognises them by their ``seq``.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Protocol

import structlog
from kafka.errors import KafkaError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_when_event_set, wait_exponential
from tenacity.nap import sleep_using_event

from rebalance_model.observe.events import Event
from streaming.base.errors import UserError
from streaming.base.files import Closable
from streaming.base.limits import SPOOL_FOLDERS, SPOOL_NAMES, SPOOL_WARNINGS
from streaming.base.settings import Settings
from streaming.collect.emitter import Sink
from streaming.collect.spool import QUIET_SECONDS, Spool, SpoolPosition, incarnation
from streaming.collect.spool_folder import too_many_names
from streaming.log.open import open_publisher
from streaming.log.recording import Recorder
from streaming.log.rows import Publisher, rows_of_line

log = structlog.get_logger()


class SpoolWarnings:
    """Remembers what was logged about each spool, and each folder of spools."""

    def __init__(self) -> None:
        self._logged: dict[Path, set[tuple[str, str]]] = {}

    def tell(self, path: Path, what: str, detail: str) -> None:
        """Log a warning about a spool, or a folder of spools, if it is new; with a name or an error, if it has one."""
        logged = self._logged.setdefault(path, set())
        if (what, detail) in logged or len(logged) >= SPOOL_WARNINGS:
            return
        logged.add((what, detail))
        log.warning(what, spool=str(path), **({"detail": detail} if detail else {}))
        if len(logged) == SPOOL_WARNINGS:
            log.warning("further warnings about this spool are not logged until the next start", spool=str(path))

    def forget(self, path: Path) -> None:
        """Forget a spool that is gone."""
        self._logged.pop(path, None)


POLL_SECONDS = 0.2
BATCH_BYTES = 2**24
"""At most 16 MiB of lines (and one more chunk) wait for an acknowledgement."""
REPORT_SECONDS = 10.0
TURN_SECONDS = 0.5
"""The longest time that events of polls may wait while spools are far behind."""
RESEND_MS = 5_000
"""A flush that takes longer is aborted: the rows stay on disk, and a signal is handled in time."""
_RETRY_SECONDS_MAX = 5.0


class Outlet(Protocol):
    """The destination of lines."""

    def send(self, lines: list[bytes]) -> None:
        """Send lines of one source, in order."""

    def is_safe(self) -> bool:
        """Return whether all sent lines are safe; flush when it is time."""


class LogOutlet:
    """Sends lines to the log; its publisher may be shared with another writer."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._unsafe_bytes = 0
        self._unsafe_since = 0.0
        self._flushes = 0

    def send(self, lines: list[bytes]) -> None:
        """Send lines, each to its partition."""
        if not self._unsafe_bytes:
            self._unsafe_since = time.monotonic()
        self._flushes = self._publisher.flushes
        self._publisher.write(row for line in lines for row in rows_of_line(line, self._publisher.partitions))
        self._unsafe_bytes += sum(map(len, lines)) + len(lines)

    def is_safe(self) -> bool:
        """Return whether all lines are safe; a file log flushes often enough by itself, so no flush is forced."""
        if self._unsafe_bytes and self._publisher.flushes == self._flushes:
            age = time.monotonic() - self._unsafe_since
            if self._unsafe_bytes < BATCH_BYTES and age < self._publisher.flush_seconds:
                return False
            self._publisher.flush()
        self._unsafe_bytes = 0
        return True


class RecordingOutlet:
    """Sends lines to a recording: they are safe, and may be deleted, only after it is closed."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def send(self, lines: list[bytes]) -> None:
        """Append lines."""
        self._recorder.append(lines)

    def is_safe(self) -> bool:
        """Return whether the recording is visible."""
        return self._recorder.closed


class Shipper(Closable):
    """Ships every source below the folders, including later ones."""

    def __init__(self, folders: Sequence[Path], *, quiet_seconds: float = QUIET_SECONDS) -> None:
        """Open the sources that exist; each resumes where the last shipper stopped.

        Raises:
            UserError: a folder does not exist, or another process ships the sources that there are.
        """
        for folder in folders:
            if not folder.is_dir():
                raise UserError(f"The spool folder {folder} does not exist: create it, or specify the hook's folder.")
        self._folders = sorted({folder.resolve() for folder in folders})
        self._quiet_seconds = quiet_seconds
        self._spools: dict[Path, Spool] = {}
        self._sent: dict[Path, int] = {}
        self._warnings = SpoolWarnings()
        self._report_due = time.monotonic() + REPORT_SECONDS
        try:
            refusals = self._find()
        except BaseException:
            self.close()
            raise
        if refusals and not self._spools:  # of some it is said: whoever locks one folder must not stop the others
            raise refusals[0]

    def send_to(self, outlet: Outlet) -> None:
        """Use this outlet from now on; lines that the last one has not acknowledged are sent again."""
        self._outlet = outlet
        for spool in self._spools.values():
            spool.rewind()

    def step(self) -> bool:
        """Acknowledge what is safe, then send the next lines of each source; return whether there were any.

        A newer incarnation of a source waits until an older one has nothing left to read. Otherwise its ticks would
        overtake the older one's events: they mean that the older one has ended, and a reader drops its later events.
        """
        self._find()
        sent, unread = False, set[tuple[Path, str]]()
        for folder, spool in sorted(self._spools.items(), key=lambda item: item[1].start):
            source = folder.parent, spool.instance
            if source in unread:
                continue
            self._settle()
            lines: list[bytes] | None = None
            with self._telling(folder):
                lines = spool.take()
            if lines != []:  # None: it can't be read now
                unread.add(source)
            if lines:
                self._outlet.send(lines)
                self._sent[folder] = self._sent.get(folder, 0) + len(lines)
                sent = True
        self._settle()
        self._remove_what_is_done()
        if time.monotonic() >= self._report_due:
            self.report()
        return sent

    def follow(self, stop: Flag, on_look: Callable[[], None] = lambda: None) -> None:
        """Send lines as they are written, until the event is set; ``on_look`` is called after each look at them."""
        while not stop.is_set():
            sent = self.step()
            on_look()
            if not sent:
                stop.wait(POLL_SECONDS)

    def drain(self, seconds_max: float = float("inf"), stop: Flag | None = None) -> None:
        """Send the lines that exist now; later lines may wait."""
        deadline = time.monotonic() + seconds_max
        ends: dict[Path, SpoolPosition] = {}
        for folder, spool in self._spools.items():
            with self._telling(folder):
                ends[folder] = spool.end()
        while self.step() and time.monotonic() < deadline and not (stop and stop.is_set()):
            if all(spool.at >= ends.get(folder, spool.at) for folder, spool in self._spools.items()):
                return

    def beside(self, sink: Sink) -> Sink:
        """Return a sink that also ships a chunk of the spools after each batch: one writer, one thread."""

        def both(events: list[Event]) -> None:
            sink(events)
            self.drain(TURN_SECONDS)

        return both

    def finish(self) -> None:
        """Acknowledge the sent lines, which are safe because the outlet is closed, and log what remains."""
        self._settle()
        self._remove_what_is_done()
        self.report()

    def report(self) -> None:
        """Log how far each source is behind, including new ones."""
        self._find()
        self._report_due = time.monotonic() + REPORT_SECONDS
        for folder, spool in self._spools.items():
            with self._telling(folder):
                lag = spool.lag()
                log.info(
                    "spool",
                    source=folder.name,
                    lines_sent=self._sent.pop(folder, 0),
                    bytes_behind=lag.bytes,
                    files_behind=lag.files,
                    oldest_seconds=lag.age_seconds,
                )

    def close(self) -> None:
        """Release the sources for another process."""
        for spool in self._spools.values():
            spool.close()
        self._spools.clear()

    def _settle(self) -> None:
        if self._outlet.is_safe():
            for spool in self._spools.values():
                spool.acknowledge()

    def _find(self) -> list[UserError]:
        """Open new sources, check which writers are gone; return the refusals of sources that others ship."""
        self._forget_what_is_gone()
        refusals = []
        for path in self._new_folders():
            with self._telling(path.parent, path.name):
                try:
                    self._spools[path] = Spool(path, partial(self._warnings.tell, path))
                except UserError as refusal:
                    self._warnings.tell(path.parent, "another process ships a spool; it is skipped", path.name)
                    refusals.append(refusal)
        newest: dict[tuple[Path, str], int] = {}
        for folder, spool in self._spools.items():
            source = folder.parent, spool.instance
            newest[source] = max(newest.get(source, 0), spool.start)
        for folder, spool in self._spools.items():
            with self._telling(folder):
                spool.see_whether_finished(newest[folder.parent, spool.instance], self._quiet_seconds)
        return refusals

    def _forget_what_is_gone(self) -> None:
        for path, spool in list(self._spools.items()):
            with self._telling(path):
                if not spool.is_there():
                    self._warnings.tell(path.parent, "a spool's folder was removed or replaced", path.name)
                    self._forget(path)

    def _forget(self, path: Path) -> None:
        self._spools.pop(path).close()
        self._warnings.forget(path)

    def _new_folders(self) -> list[Path]:
        """Return the folders that are not open yet, the oldest incarnations first, as many as may be open."""
        folders = [path for parent in self._folders for path in self._folders_in(parent) if path not in self._spools]
        folders.sort(key=lambda path: (incarnation(path)[1], path))
        free = SPOOL_FOLDERS - len(self._spools)
        for path in folders[free:]:
            self._warnings.tell(path.parent, f"there are more than {SPOOL_FOLDERS:,} spools; the newest wait", "")
        return folders[:free]

    def _folders_in(self, parent: Path) -> list[Path]:
        """Return the folders of a folder; what is none, or a link, is named once."""
        folders = []
        with self._telling(parent):
            with os.scandir(parent) as entries:
                for count, entry in enumerate(entries):
                    if count >= SPOOL_NAMES:
                        raise too_many_names()
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name[0] != ".":
                            folders.append(parent / entry.name)
                    elif entry.name[0] != ".":
                        self._warnings.tell(parent, "an entry is a link or not a folder; it is skipped", entry.name)
            return folders
        return []

    def _remove_what_is_done(self) -> None:
        for folder, spool in list(self._spools.items()):
            with self._telling(folder):
                if spool.remove_if_done():
                    self._forget(folder)
                    log.info("a spool was sent completely and removed", source=folder.name)

    @contextmanager
    def _telling(self, path: Path, name: str = "") -> Iterator[None]:
        """Log once that a source can't be read, and retry it later; the other sources continue."""
        try:
            yield
        except OSError as error:
            self._warnings.tell(path, "a spool can't be read; retrying", f"{name}: {error}" if name else str(error))


def ship(
    settings: Settings,
    folders: Sequence[Path],
    stop: Flag,
    *,
    once: bool = False,
    on_look: Callable[[], None] = lambda: None,
) -> None:
    """Ship spools to the log until the event is set or, with ``once``, only the lines that exist now.

    While Kafka is unavailable this waits; nothing is lost, because only acknowledged lines are deleted.
    ``on_look`` is called after each look at the spools while it is available.

    Raises:
        UserError: an error that waiting does not correct.
    """
    with Shipper(folders) as shipper:
        retrying = Retrying(
            retry=retry_if_exception(_may_pass),
            wait=wait_exponential(multiplier=0.5, max=_RETRY_SECONDS_MAX),
            stop=stop_when_event_set(stop),
            sleep=sleep_using_event(stop),
            before_sleep=_say,
            reraise=True,
        )
        try:
            retrying(_ship, shipper, settings, stop, on_look, once=once)
        except (UserError, KafkaError) as error:
            if not (stop.is_set() and _may_pass(error)):
                raise
            log.warning(
                "stopped while Kafka is unavailable; the remaining lines are sent after the next start",
                error=str(error),
            )
            shipper.report()


def _ship(shipper: Shipper, settings: Settings, stop: Flag, on_look: Callable[[], None], *, once: bool) -> None:
    with open_publisher(settings, settings.source.kind, resend_after_ms=RESEND_MS) as publisher:
        shipper.send_to(LogOutlet(publisher))
        if once:
            shipper.drain(stop=stop)
        else:
            shipper.follow(stop, on_look)
    shipper.finish()


def _may_pass(error: BaseException) -> bool:
    """Return whether the error comes from Kafka, so that a retry may help, and not from the settings."""
    return isinstance(error, KafkaError) or (isinstance(error, UserError) and isinstance(error.__cause__, KafkaError))


def _say(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning("waiting for Kafka", seconds=round(state.upcoming_sleep, 1), error=str(error))
    shipper: Shipper = state.args[0]
    shipper.report()
