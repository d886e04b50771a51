"""The files of a rebuild, under the checkpoints.

rebuild/<id>/shards/<partition>.msgpack    states at the time of the announcement
rebuild/<id>/rows/<table>/*.parquet        the rows
rebuild/<id>/<id>/<partition>.msgpack      states at the time of the swap, from which the operator continues
rebuild/<id>/operator/                     the operator's checkpoint with an empty state, if its own can't be read
rebuild/<id>/before/                       rows and manifest from before the swap, for `undo`
rebuild/ready.json                         the rebuild that waits for its swap
rebuild/failed.json                        why the last swap was not made

The state from which the operator continues after a rebuild: one MessagePack file for each shard.

The operator's checkpoint stays, and with it the position in the log. A shard whose state is not from this rebuild is
replaced by its seed when its next rows arrive. Spark's own ``initialState`` works only with a new checkpoint, which
would read the log from its beginning: files would be listed again, and the rows that the last batch had appended to
`queue_progress` would be appended twice.
"""

import shutil
from pathlib import Path

import msgspec

from checkpoints.manifest import Manifest, decode_manifest
from checkpoints.position import Position
from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.policy import Policy
from streaming.base.errors import UserError
from streaming.base.files import FileLock, replace_atomically

MANIFEST = "manifest.json"


class Ready(msgspec.Struct, frozen=True):
    """A rebuild that is ready for its swap."""

    rebuild_id: str
    until: Position
    """The position up to which the archive is folded, by partition."""
    last_seq: list[tuple[str, str, int]]
    """Cluster, group, and the ``seq`` at which its rows begin."""
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
        """Return the folder of the states at the time of the announcement."""
        return self.root / rebuild_id / "shards"

    def rows(self, rebuild_id: str) -> Path:
        """Return the folder of the rows."""
        return self.root / rebuild_id / "rows"

    def seeds(self, rebuild_id: str) -> Path:
        """Return the folder of the states for the operator; its name is the rebuild's id."""
        return self.root / rebuild_id / rebuild_id

    def operator(self, rebuild_id: str) -> Path:
        """Return the folder of the checkpoint that replaces the operator's own, whose state can't be read."""
        return self.root / rebuild_id / "operator"

    def before(self, rebuild_id: str) -> Path:
        """Return the folder with the rows from before the swap."""
        return self.root / rebuild_id / "before"

    def ready(self) -> Ready | None:
        """Return the rebuild that is ready for its swap; None if there is none."""
        try:
            return msgspec.json.decode(self._ready.read_bytes(), type=Ready)
        except FileNotFoundError:
            return None

    def announce(self, ready: Ready) -> None:
        """Request the swap from the job."""
        replace_atomically(self._ready, msgspec.json.encode(ready))

    def withdraw(self) -> None:
        """Withdraw the request for a swap."""
        self._ready.unlink(missing_ok=True)

    def fail(self, rebuild_id: str, why: str) -> None:
        """Record why there was no swap, for the command that waits for it."""
        replace_atomically(self._failed, msgspec.json.encode(Failed(rebuild_id, why)))
        self.withdraw()

    def failure(self, rebuild_id: str) -> str | None:
        """Return why the rebuild was not swapped in; None if that is unknown."""
        try:
            failed = msgspec.json.decode(self._failed.read_bytes(), type=Failed)
        except FileNotFoundError:
            return None
        return failed.why if failed.rebuild_id == rebuild_id else None

    def clear(self, current: str) -> None:
        """Remove all rebuilds but the current one; of the one before it, keep the states, which an undo needs."""
        has_before = bool(current) and (self.before(current) / MANIFEST).is_file()  # not after two undos
        earlier = self.manifest_before(current).seed if has_before else ""
        for folder in self.root.glob("*/"):
            if folder.name == earlier:
                for part in (self.rows(earlier), self.shards(earlier), self.before(earlier)):
                    shutil.rmtree(part, ignore_errors=True)
            elif folder.name != current:
                shutil.rmtree(folder, ignore_errors=True)

    def manifest_before(self, rebuild_id: str) -> Manifest:
        """Return the manifest from before a rebuild was swapped in.

        Raises:
            UserError: it can't be read.
            FileNotFoundError: there is none.
        """
        file = self.before(rebuild_id) / MANIFEST
        return decode_manifest(file.read_bytes(), file)

    def claimed(self) -> FileLock:
        """Lock the folder, so that this is the only rebuild until the lock is closed.

        Raises:
            UserError: another rebuild runs.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        return FileLock(self.root / ".lock", "Another `rebalance-watch rebuild` works on these tables: wait for it.")


class Seed(msgspec.Struct, frozen=True):
    """A shard's state."""

    until: int
    """The offsets below are folded."""
    saved: Saved
    groups: dict[str, bytes]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Seed)


def write_seed(folder: Path, partition: int, seed: Seed) -> None:
    """Write the state of one shard."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_atomically(_file(folder, partition), _ENCODER.encode(seed))


def read_seed(folder: Path, partition: int) -> Seed | None:
    """Return the state of one shard; None if the rebuild had no rows of it.

    Raises:
        UserError: the folder of the seeds is missing.
    """
    try:
        return _DECODER.decode(_file(folder, partition).read_bytes())
    except FileNotFoundError:
        if folder.is_dir():
            return None
        raise UserError(
            f"The state of the last rebuild is missing ({folder}): restore it, or remove the checkpoints and the "
            "tables and start again."
        ) from None


def _file(folder: Path, partition: int) -> Path:
    return folder / f"{partition}.msgpack"
