"""Where a rebuild keeps what it makes, under the checkpoints.

rebuild/<id>/shards/<partition>.msgpack    states as of when it was announced
rebuild/<id>/rows/<table>/*.parquet        the rows
rebuild/<id>/<id>/<partition>.msgpack      states as of the swap: what the operator takes
rebuild/<id>/before/                       what was before the swap: for `undo`
rebuild/ready.json                         the rebuild that waits for its swap
rebuild/failed.json                        why the last swap was not made
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from checkpoints.generation import Manifest, replace
from checkpoints.position import Position
from rebalance_model.observe.policy import Policy
from streaming.errors import UserError

MANIFEST = "manifest.json"


class Ready(msgspec.Struct, frozen=True):
    """A rebuild that waits for its swap."""

    rebuild_id: str
    until: Position
    """Up to where the archive is folded, by partition."""
    last_seq: list[tuple[str, str, int]]
    """Cluster, group, and where its rows' ``seq`` begins."""
    policy: Policy
    state_version: int


class Failed(msgspec.Struct, frozen=True):
    """A swap that was not made."""

    rebuild_id: str
    why: str


class Folder:
    """The folder of all rebuilds of one runtime root."""

    def __init__(self, checkpoints: Path) -> None:
        self.root = checkpoints / "rebuild"
        self._ready = self.root / "ready.json"
        self._failed = self.root / "failed.json"

    def shards(self, rebuild_id: str) -> Path:
        """The states as of when it was announced."""
        return self.root / rebuild_id / "shards"

    def rows(self, rebuild_id: str) -> Path:
        """The rows."""
        return self.root / rebuild_id / "rows"

    def seeds(self, rebuild_id: str) -> Path:
        """The states that the operator takes; the folder's own name is the rebuild's."""
        return self.root / rebuild_id / rebuild_id

    def before(self, rebuild_id: str) -> Path:
        """What was before the swap."""
        return self.root / rebuild_id / "before"

    def ready(self) -> Ready | None:
        """The rebuild that waits for its swap."""
        try:
            return msgspec.json.decode(self._ready.read_bytes(), type=Ready)
        except FileNotFoundError:
            return None

    def announce(self, ready: Ready) -> None:
        """Have the job make the swap."""
        replace(self._ready, msgspec.json.encode(ready))

    def withdraw(self) -> None:
        """Have the job make no swap."""
        self._ready.unlink(missing_ok=True)

    def fail(self, rebuild_id: str, why: str) -> None:
        """Keep why there was no swap, for the command that waits for it."""
        replace(self._failed, msgspec.json.encode(Failed(rebuild_id, why)))
        self.withdraw()

    def failure(self, rebuild_id: str) -> str | None:
        """Why the rebuild was not swapped in; None: nothing is known."""
        try:
            failed = msgspec.json.decode(self._failed.read_bytes(), type=Failed)
        except FileNotFoundError:
            return None
        return failed.why if failed.rebuild_id == rebuild_id else None

    def clear(self, current: str) -> None:
        """Remove all rebuilds but the current one, and of the one before it all but the states: undone, it needs them.

        Args:
            current: the id of the rebuild that the operator goes on from; empty: none.
        """
        earlier = self.manifest_before(current).seed if current else ""
        for folder in self.root.glob("*/"):
            if folder.name == earlier:
                for part in (self.rows(earlier), self.shards(earlier), self.before(earlier)):
                    shutil.rmtree(part, ignore_errors=True)
            elif folder.name != current:
                shutil.rmtree(folder, ignore_errors=True)

    def manifest_before(self, rebuild_id: str) -> Manifest:
        """What the checkpoints were made with before a rebuild was swapped in."""
        return msgspec.json.decode((self.before(rebuild_id) / MANIFEST).read_bytes(), type=Manifest)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Be the only rebuild.

        Raises:
            UserError: there is another.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError("Another `rebalance-watch rebuild` works on these tables: wait for it.") from None
            yield
